//! Failed jobs and dead letters: jobs that will not run again unless an operator retries them.

use std::sync::Arc;

use axum::http::Method;
use windlass_core::JobState;
use windlass_core::store::Action;
use windlass_pack::{Answer, Answered, Call, Route, Scope};

use super::{Table, act, jobs, route};
use crate::app::App;
use crate::view::{DetailView, JobView, ListView};

const DEAD: [JobState; 2] = [JobState::Failed, JobState::DeadLetter];

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let one = "/v1/dead-letters/{id}";
    vec![
        jobs::filtered(
            route(
                app,
                Method::GET,
                "/v1/dead-letters",
                "list_dead_letters",
                "List failed jobs and dead letters, newest first",
                list,
            )
            .needs(Scope::Read),
        )
        .json::<ListView<JobView>>(200, "A page of jobs"),
        route(
            app,
            Method::GET,
            one,
            "get_dead_letter",
            "One of them with its attempts, errors and log lines",
            get,
        )
        .needs(Scope::Read)
        .path("id", "Id of the job")
        .json::<DetailView>(200, "The job"),
        route(app, Method::DELETE, one, "delete_dead_letter", "Delete it with its attempts and logs", delete)
            .needs(Scope::Operate)
            .path("id", "Id of the job")
            .answers(204, "Deleted", Answered::Nothing),
        route(
            app,
            Method::POST,
            "/v1/dead-letters/{id}/replay",
            "replay_dead_letter",
            "Return it to its queue with fresh attempts",
            replay,
        )
        .needs(Scope::Operate)
        .path("id", "Id of the job")
        .json::<DetailView>(200, "The job; superseded if a waiting job has its unique key"),
    ]
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    jobs::listed(&app, &call, &DEAD).await
}

async fn get(app: Arc<App>, call: Call) -> Answer {
    jobs::show(&app, &call, &DEAD).await
}

async fn delete(app: Arc<App>, call: Call) -> Answer {
    act::act(&app, &call, Action::Delete, &DEAD).await
}

async fn replay(app: Arc<App>, call: Call) -> Answer {
    act::act(&app, &call, Action::Retry, &DEAD).await
}
