//! The audit part of the store contract.

use async_trait::async_trait;

use super::TxRef;
use crate::audit::{Actor, AuditRecord, NewAudit};
use crate::{StoreError, Time};

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Newest first.
    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError>;

    /// Writes an audit record in the caller's transaction.
    async fn note_in(&self, tx: TxRef<'_>, actor: &Actor, note: &NewAudit) -> Result<(), StoreError>;
}

/// All given conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    pub actor: Option<String>,
    /// `job.retry`, or a prefix: `job` and `job.` match all actions on jobs.
    pub act: Option<String>,
    pub subject: Option<String>,
    /// Inclusive.
    pub from: Option<Time>,
    /// Exclusive.
    pub to: Option<Time>,
    /// Only records with a smaller `seq`.
    pub before: Option<i64>,
    pub limit: u32,
}

impl AuditFilter {
    pub fn newest(limit: u32) -> AuditFilter {
        AuditFilter { limit, ..AuditFilter::default() }
    }

    /// The range of actions that a prefix matches, end excluded. `None` if `act` is a complete action.
    pub fn family(&self) -> Option<(String, String)> {
        let act = self.act.as_deref()?;
        match act.strip_suffix('.') {
            Some(stem) => Some((act.to_owned(), format!("{stem}/"))),
            // Includes the prefix itself: a pack may have an action without a dot.
            None if !act.contains('.') => Some((act.to_owned(), format!("{act}/"))),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_prefix_matches_all_its_actions() {
        let family = |act: &str| AuditFilter { act: Some(act.to_owned()), ..AuditFilter::newest(1) }.family();
        let (from, to) = family("job.").unwrap();
        assert!(["job.retry", "job.cancel"].iter().all(|act| (from.as_str()..to.as_str()).contains(act)));
        assert!(
            ["jobs.retry", "job", "kind.change"]
                .iter()
                .all(|act| !(from.as_str()..to.as_str()).contains(act))
        );
        let (from, to) = family("job").unwrap();
        assert!(["job", "job.retry"].iter().all(|act| (from.as_str()..to.as_str()).contains(act)));
        assert!(!(from.as_str()..to.as_str()).contains(&"jobs.retry"));
        assert_eq!(family("job.retry"), None);
    }
}
