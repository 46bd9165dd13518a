//! The ticker: enqueues what schedules are due for.
//!
//! Owns which schedules have their turn, their parsed plans, and the jobs of their ticks. Any number of tickers may run:
//! the store lets one of them move a schedule on, so none is the leader. Never waits and never looks while nothing is due:
//! when the next tick comes is part of the dispatcher's floor query. A tick is not held up by a queue's depth cap: it adds
//! one job, and a unique key keeps it to that.

mod plans;
mod verbs;

use std::time::Duration;

use windlass_core::store::Tick;
use windlass_core::{StoreError, Time};

use crate::Client;
use plans::Plans;

/// Schedules read at once.
const BATCH: usize = 500;
/// A ticker that came too late lets others go first: of many processes one then does the work, and the others find
/// nothing left.
const PATIENCE: Duration = Duration::from_millis(25);
/// Jobs written in one transaction, unless one schedule alone has more to make up for.
const MAX_JOBS: usize = 1_000;

pub struct Ticker {
    client: Client,
    plans: Plans,
    /// When it came last, nothing was left to move.
    late: bool,
}

impl Ticker {
    pub fn new(client: Client) -> Ticker {
        Ticker { client, plans: Plans::default(), late: false }
    }

    /// How long after a schedule is due this ticker goes for it.
    pub(crate) fn patience(&self) -> Duration {
        if self.late { PATIENCE } else { Duration::ZERO }
    }

    /// Enqueues what is due at `now`, by the database's clock. Answers when the next schedule is due that this ticker
    /// knows of; what another moved meanwhile, the next poll tells.
    pub async fn tick(&mut self, now: Time) -> Result<Option<Time>, StoreError> {
        let mut next: Option<Time> = None;
        self.late = true;
        loop {
            let found = self.client.store().due_schedules(now, BATCH as u32).await?;
            let kinds = self.plans.read(&found.due);
            let catalog = self.client.catalog_for(kinds.iter().map(String::as_str)).await?;
            let turns = self.plans.turns(&found.due, &catalog, now);
            let mut moved = 0;
            for some in shares(turns) {
                let answers = self.client.store().tick(&some).await?;
                for turn in some.iter().zip(answers).filter_map(|(turn, won)| won.then_some(turn)) {
                    moved += 1;
                    next = earlier(next, turn.next_at);
                }
            }
            self.late &= moved == 0;
            // Whoever moved all of these goes on with the rest.
            if found.due.len() < BATCH || moved == 0 {
                return Ok(earlier(next, found.next_at));
            }
        }
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().min()
}

/// Turns that go into one transaction each.
fn shares(turns: Vec<Tick>) -> Vec<Vec<Tick>> {
    let mut shares: Vec<Vec<Tick>> = Vec::new();
    let mut jobs = 0;
    for turn in turns {
        jobs += turn.jobs.len();
        match shares.last_mut().filter(|_| jobs <= MAX_JOBS) {
            Some(share) => share.push(turn),
            None => {
                jobs = turn.jobs.len();
                shares.push(vec![turn]);
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_share_is_larger_than_it_has_to_be() {
        let turn = |jobs: usize| Tick {
            name: String::new(),
            revision: 1,
            from: Time(0),
            last_tick: Time(0),
            next_at: None,
            missed: 0,
            jobs: (0..jobs).map(|_| plans::tests::job()).collect(),
        };
        let sizes = |of: &[usize]| -> Vec<Vec<usize>> {
            let shares = shares(of.iter().map(|jobs| turn(*jobs)).collect());
            shares.iter().map(|share| share.iter().map(|turn| turn.jobs.len()).collect()).collect()
        };
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&[1, 0, 1]), [vec![1, 0, 1]]);
        assert_eq!(sizes(&[600, 400, 1, 2_000, 3]), [vec![600, 400], vec![1], vec![2_000], vec![3]]);
    }
}
