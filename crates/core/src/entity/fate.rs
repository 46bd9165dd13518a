//! What the end of a box says about the entity that waits for it.
//!
//! An entity waits for the newest box that was queued for it and for no other. When that ends without a vector, by its
//! handler, an operator or a crash, the entity is failed and says why; when it is replayed, the entity is pending again.

use crate::JobState;

/// Why the entity is failed when its box ended like this; `None` where that says nothing against it.
pub fn why_failed(state: JobState, error: Option<&str>) -> Option<String> {
    let how = match state {
        JobState::Cancelled => "was cancelled",
        JobState::DeadLetter => "is a dead letter",
        JobState::Failed => "failed",
        // A superseded box has a newer one to wait for.
        _ => return None,
    };
    Some(match error {
        Some(error) => format!("its box {how}: {error}"),
        None => format!("its box {how}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_without_a_vector_is_held_against_it() {
        for state in JobState::ALL {
            let held = matches!(state, JobState::Failed | JobState::DeadLetter | JobState::Cancelled);
            assert_eq!(why_failed(state, None).is_some(), held, "{state}");
        }
        let why = why_failed(JobState::Cancelled, Some("late")).unwrap();
        assert_eq!(why, "its box was cancelled: late");
    }
}
