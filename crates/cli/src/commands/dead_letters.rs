//! `dead-letters list|show|replay|delete`: failed jobs and dead letters, which do not run again unless replayed.

use windlass_core::JobState;
use windlass_core::store::Action;

use super::Session;
use super::jobs::{self, act};
use crate::args::{DeadLetters, DeadLettersVerb};
use crate::failure::Failure;

const DEAD: [JobState; 2] = [JobState::Failed, JobState::DeadLetter];

pub(crate) async fn run(session: &Session, args: DeadLetters) -> Result<(), Failure> {
    match args.verb.unwrap_or(DeadLettersVerb::List(args.list)) {
        DeadLettersVerb::List(list) => jobs::list(session, "/v1/dead-letters", &list).await,
        DeadLettersVerb::Show(one) => jobs::show(session, "/v1/dead-letters/{id}", &one).await,
        DeadLettersVerb::Replay(selection) => {
            act::run(session, &selection, Action::Retry, "replay", &DEAD).await
        }
        DeadLettersVerb::Delete(selection) => {
            act::run(session, &selection, Action::Delete, "delete", &DEAD).await
        }
    }
}
