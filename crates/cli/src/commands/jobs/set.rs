//! `jobs set`: priority and time of a waiting job.

use serde_json::{Map, Value};
use windlass_pack::Method;
use windlass_pack::api::{Api, ApiRequest};

use super::super::Session;
use super::{elsewhere, print};
use crate::api::answer::{ask, time};
use crate::args::SetJob;
use crate::failure::{During, Failure};

pub(super) async fn run(session: &Session, args: &SetJob) -> Result<(), Failure> {
    let api = session.api().await?;
    let id = args.id.to_string();
    let what = format!("cannot change job {id}");
    let run_at = match args.delay {
        Some(delay) => Some(now(api.as_ref(), &what).await?.plus(delay)),
        None => args.run_at,
    };
    let mut change = Map::new();
    change.extend(args.priority.map(|priority| ("priority".to_owned(), priority.into())));
    change.extend(run_at.map(|at| ("run_at".to_owned(), at.to_string().into())));
    let request = ApiRequest::new(Method::PATCH, "/v1/jobs/{id}", &[&id]).json(&Value::Object(change));
    let answer = ask(api.as_ref(), request).await.during(what).map_err(elsewhere)?;
    print(session, &answer, args.json.json)
}

/// By the database clock, which decides when it is due.
pub(crate) async fn now(api: &dyn Api, what: &str) -> Result<windlass_core::Time, Failure> {
    let stats = api.call(ApiRequest::get("/v1/stats", &[])).await.during(what)?;
    time(&stats, "at").ok_or_else(|| Failure::new(what, "the response has no time"))
}
