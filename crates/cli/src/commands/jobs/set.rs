//! `jobs set`: when and how urgently a waiting job runs, as `PATCH /v1/jobs/{id}` changes it.

use windlass_core::JobId;
use windlass_core::store::Change;
use windlass_engine::bulk::why_unchanged;

use super::super::Session;
use super::{find, missing, print};
use crate::args::SetJob;
use crate::failure::{During, Failure};

pub(super) async fn run(session: &Session, args: &SetJob) -> Result<(), Failure> {
    let client = session.client().await?;
    let id = JobId(args.id);
    let what = format!("cannot change job {id}");
    let store = client.store();
    let run_at = match args.delay {
        // By the clock that decides when it is due.
        Some(delay) => Some(store.now().await.during(what.clone())?.plus(delay)),
        None => args.run_at,
    };
    let changed = store.change(id, &Change { priority: args.priority, run_at }).await.during(what.clone())?;
    let detail = find(&client, id).await?.ok_or_else(|| missing(what.clone()))?;
    if !changed {
        return Err(Failure::new(what, why_unchanged(&detail.job)));
    }
    print(session, &client, &detail, args.json.json).await
}
