//! Questions and answers about the audit.

use async_trait::async_trait;

use super::TxRef;
use crate::audit::{Act, Actor, Note};
use crate::{StoreError, Time};

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// What operators did, newest first.
    async fn audit(&self, filter: &ActFilter) -> Result<Vec<Act>, StoreError>;

    /// A line about what the caller's transaction does.
    async fn note_in(&self, tx: TxRef<'_>, actor: &Actor, note: &Note) -> Result<(), StoreError>;
}

/// All given conditions hold.
#[derive(Clone, Debug, Default)]
pub struct ActFilter {
    pub actor: Option<String>,
    /// A word without its second half means all that begin with it: `job` or `job.`.
    pub act: Option<String>,
    pub subject: Option<String>,
    /// At this time or later.
    pub from: Option<Time>,
    /// Before this time.
    pub to: Option<Time>,
    /// Only acts with smaller places.
    pub before: Option<i64>,
    pub limit: u32,
}

impl ActFilter {
    /// The newest of all.
    pub fn newest(limit: u32) -> ActFilter {
        ActFilter { limit, ..ActFilter::default() }
    }

    /// The range of words that `act` means, its end excluded; `None` where it means one word.
    pub fn family(&self) -> Option<(String, String)> {
        let act = self.act.as_deref()?;
        match act.strip_suffix('.') {
            Some(stem) => Some((act.to_owned(), format!("{stem}/"))),
            // Also the word itself, should a part have one without a dot.
            None if !act.contains('.') => Some((act.to_owned(), format!("{act}/"))),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_without_its_second_half_means_a_family() {
        let family = |act: &str| ActFilter { act: Some(act.to_owned()), ..ActFilter::newest(1) }.family();
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
