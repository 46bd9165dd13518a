//! What the end of a box does to its entity, decided by `core::entity::why_failed` and written in the same
//! transaction.

use windlass_core::JobId;

use crate::end::End;
use crate::error::Answer;
use crate::scope::Scope;

/// The entity whose newest box is job ?1. Matches nothing for other jobs.
macro_rules! of_box {
    ($set:literal) => {
        concat!(
            "update windlass_entities set ",
            $set,
            " and job_id = ?1 and (type, id) = (
                  select t.id, j.entity_id from windlass_jobs j join windlass_types t on t.name = j.entity_type
                  where j.id = ?1)"
        )
    };
}

// `waiting` keeps the strategy of the box, which applies again when the box is retried.
const FAILED: &str = of_box!("state = 3, error = ?2 where state = 1");
const PENDING: &str = of_box!("state = 1, error = null where state = 3");

pub(crate) fn box_ended(scope: &Scope<'_>, end: &End<'_>) -> Answer<()> {
    if let Some(why) = windlass_core::entity::why_failed(end.state, end.error) {
        scope.connection.prepare_cached(FAILED)?.execute((end.id.0, why))?;
    }
    Ok(())
}

/// The box was retried.
pub(crate) fn box_waits_again(scope: &Scope<'_>, id: JobId) -> Answer<()> {
    scope.connection.prepare_cached(PENDING)?.execute([id.0])?;
    Ok(())
}
