//! A workflow before it is stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::OnFailure;
use crate::time::micros;
use crate::{KindId, NewJob, QueueId, RunAt, StoreError};

/// Validated: parents come before their children.
#[derive(Clone, Debug)]
pub struct NewWorkflow {
    pub name: Option<String>,
    pub on_failure: OnFailure,
    pub members: Vec<NewMember>,
}

impl NewWorkflow {
    /// The indexes of each member's children, ascending.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.members.len()];
        for (no, member) in self.members.iter().enumerate() {
            for parent in &member.parents {
                children[*parent].push(no);
            }
        }
        children
    }
}

#[derive(Clone, Debug)]
pub struct NewMember {
    pub name: String,
    /// Without unique and idempotency keys: no other job can take its place in the workflow.
    pub job: NewJob,
    /// Indexes of its parents, all smaller than its own.
    pub parents: Vec<usize>,
    /// If it fails, its children run anyway.
    pub goes_on: bool,
    pub undo: Option<Undo>,
}

/// The compensating job for another that has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    pub kind: KindId,
    pub queue: QueueId,
    pub priority: u8,
    pub max_attempts: u16,
    pub timeout: Option<Duration>,
    pub payload: Vec<u8>,
}

/// [`Undo`] as stored, without its payload. Rows outlive the binary: add fields, never rename them.
#[derive(Serialize, Deserialize)]
struct Kept {
    kind: i32,
    queue: i32,
    priority: u8,
    max_attempts: u16,
    timeout_us: Option<i64>,
}

impl Undo {
    pub fn of(job: NewJob) -> Undo {
        let NewJob { kind, queue, priority, max_attempts, timeout, payload, .. } = job;
        Undo { kind, queue, priority, max_attempts, timeout, payload }
    }

    pub fn into_job(self) -> NewJob {
        NewJob {
            kind: self.kind,
            queue: self.queue,
            priority: self.priority,
            payload: self.payload,
            run_at: RunAt::Now,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            unique: None,
            idempotency: None,
            concurrency_key: None,
            tags: Vec::new(),
            entity: None,
        }
    }

    /// JSON text without the payload, read back by [`Undo::from_kept`].
    pub fn to_kept(&self) -> String {
        let kept = Kept {
            kind: self.kind.0,
            queue: self.queue.0,
            priority: self.priority,
            max_attempts: self.max_attempts,
            timeout_us: self.timeout.map(micros),
        };
        // Serializing plain values cannot fail.
        serde_json::to_string(&kept).unwrap_or_default()
    }

    pub fn from_kept(text: &str, payload: Vec<u8>) -> Result<Undo, StoreError> {
        let corrupt = |e| StoreError::Corrupt { what: format!("a job that undoes another: {e}") };
        let Kept { kind, queue, priority, max_attempts, timeout_us } =
            serde_json::from_str(text).map_err(corrupt)?;
        let timeout = timeout_us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0)));
        Ok(Undo { kind: KindId(kind), queue: QueueId(queue), priority, max_attempts, timeout, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of an older binary must stay readable.
    #[test]
    fn a_stored_undo_is_read_back() {
        let undo = Undo {
            kind: KindId(3),
            queue: QueueId(1),
            priority: 4,
            max_attempts: 9,
            timeout: Some(Duration::from_secs(2)),
            payload: b"{}".to_vec(),
        };
        let text = r#"{"kind":3,"queue":1,"priority":4,"max_attempts":9,"timeout_us":2000000}"#;
        assert_eq!(undo.to_kept(), text);
        assert_eq!(Undo::from_kept(text, b"{}".to_vec()).unwrap(), undo);
        assert!(Undo::from_kept("{}", Vec::new()).is_err());
    }
}
