//! The tick: a compare-and-set of a schedule's last tick, together with the jobs it enqueues.

use windlass_core::store::Tick;

use crate::enqueue::enqueue;
use crate::error::Answer;
use crate::scope::Scope;

// Differs from Postgres: another process that ticks waits for the writer and then finds the schedules already
// advanced.
pub(super) fn tick(scope: &mut Scope<'_>, ticks: &[Tick]) -> Answer<Vec<bool>> {
    let connection = scope.connection;
    let mut advance = connection.prepare_cached(
        "update windlass_schedules set last_tick = ?4, next_at = ?5, missed = missed + ?6
         where name = ?1 and revision = ?2 and last_tick = ?3 and paused = 0",
    )?;
    let mut answers = Vec::with_capacity(ticks.len());
    for tick in ticks {
        let missed = i64::try_from(tick.missed).unwrap_or(i64::MAX);
        let next_at = tick.next_at.map(|at| at.0);
        let row = (&tick.name, tick.revision, tick.from.0, tick.last_tick.0, next_at, missed);
        let moved = advance.execute(row)? > 0;
        if moved {
            enqueue(scope, &tick.jobs)?;
        }
        answers.push(moved);
    }
    Ok(answers)
}
