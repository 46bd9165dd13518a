//! The ticker: enqueues the jobs of schedules that are due.
//!
//! Any number of tickers may run: the store lets only one of them advance a schedule, so there is no leader. A ticker
//! asks nothing while nothing is due: the dispatcher's poll tells when the next schedule is. Depth caps do not apply to
//! ticks: each adds one job, and a unique key keeps it to that.

mod plans;
mod verbs;

use std::time::Duration;

use windlass_core::store::Tick;
use windlass_core::{StoreError, Time};

use crate::Client;
use plans::Plans;

/// Schedules read at once.
const BATCH: usize = 500;
/// A ticker that found nothing left waits this long after the next due time. So of many processes one does the work,
/// and the others do not compete with it.
const PATIENCE: Duration = Duration::from_millis(25);
/// Jobs written in one transaction, unless one schedule alone has more to catch up on.
const MAX_JOBS: usize = 1_000;

pub struct Ticker {
    client: Client,
    plans: Plans,
    /// Its last tick found nothing left to advance.
    late: bool,
}

impl Ticker {
    pub fn new(client: Client) -> Ticker {
        Ticker { client, plans: Plans::default(), late: false }
    }

    /// How long after a schedule is due this ticker ticks it.
    pub(crate) fn patience(&self) -> Duration {
        if self.late { PATIENCE } else { Duration::ZERO }
    }

    /// Enqueues what is due at `now`, by the database's clock. Returns when the next schedule is due, as far as this
    /// ticker knows: the next poll tells about schedules that another ticker advanced.
    pub async fn tick(&mut self, now: Time) -> Result<Option<Time>, StoreError> {
        let mut next: Option<Time> = None;
        self.late = true;
        loop {
            let found = self.client.store().due_schedules(now, BATCH as u32).await?;
            let kinds = self.plans.read(&found.due);
            let catalog = self.client.catalog_for(kinds.iter().map(String::as_str)).await?;
            let ticks = self.plans.ticks(&found.due, &catalog, now);
            let mut advanced = 0;
            for batch in batches(ticks) {
                let answers = self.client.store().tick(&batch).await?;
                for tick in batch.iter().zip(answers).filter_map(|(tick, won)| won.then_some(tick)) {
                    advanced += 1;
                    next = earlier(next, tick.next_at);
                }
            }
            self.late &= advanced == 0;
            // Another ticker that advanced all of these goes on with the rest.
            if found.due.len() < BATCH || advanced == 0 {
                return Ok(earlier(next, found.next_at));
            }
        }
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().min()
}

/// One transaction each.
fn batches(ticks: Vec<Tick>) -> Vec<Vec<Tick>> {
    let mut batches: Vec<Vec<Tick>> = Vec::new();
    let mut jobs = 0;
    for tick in ticks {
        jobs += tick.jobs.len();
        match batches.last_mut().filter(|_| jobs <= MAX_JOBS) {
            Some(batch) => batch.push(tick),
            None => {
                jobs = tick.jobs.len();
                batches.push(vec![tick]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_batch_is_larger_than_it_has_to_be() {
        let tick = |jobs: usize| Tick {
            name: String::new(),
            revision: 1,
            from: Time(0),
            last_tick: Time(0),
            next_at: None,
            missed: 0,
            jobs: (0..jobs).map(|_| plans::tests::job()).collect(),
        };
        let sizes = |of: &[usize]| -> Vec<Vec<usize>> {
            let batches = batches(of.iter().map(|jobs| tick(*jobs)).collect());
            batches.iter().map(|batch| batch.iter().map(|tick| tick.jobs.len()).collect()).collect()
        };
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&[1, 0, 1]), [vec![1, 0, 1]]);
        assert_eq!(sizes(&[600, 400, 1, 2_000, 3]), [vec![600, 400], vec![1], vec![2_000], vec![3]]);
    }
}
