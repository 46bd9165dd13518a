//! How the end of a box affects its entity.
//!
//! An entity waits only for the newest box queued for it. If that ends without a vector, the entity becomes failed,
//! with the reason. If the box is retried, the entity is pending again.

use crate::JobState;

/// Why the entity failed, given the end of its box. `None` if it did not.
pub fn why_failed(state: JobState, error: Option<&str>) -> Option<String> {
    let how = match state {
        JobState::Cancelled => "was cancelled",
        JobState::DeadLetter => "is a dead letter",
        JobState::Failed => "failed",
        // After a superseded box, the entity waits for a newer one.
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
    fn an_entity_fails_only_if_its_box_ended_without_a_vector() {
        for state in JobState::ALL {
            let held = matches!(state, JobState::Failed | JobState::DeadLetter | JobState::Cancelled);
            assert_eq!(why_failed(state, None).is_some(), held, "{state}");
        }
        let why = why_failed(JobState::Cancelled, Some("late")).unwrap();
        assert_eq!(why, "its box was cancelled: late");
    }
}
