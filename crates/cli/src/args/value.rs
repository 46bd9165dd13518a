//! Parsers of single arguments, and their errors.

use std::time::Duration;

use windlass_core::schedule::{Misfire, Phase};
use windlass_core::{EntityRef, JobState, Time, duration};

pub(super) fn duration_of(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// Checked here so that a bad value is wrong usage; the configuration parses it again.
pub(super) fn lease(text: &str) -> Result<String, String> {
    duration_of(text).map(|_| text.to_owned())
}

pub(super) fn time_of(text: &str) -> Result<Time, String> {
    text.parse().map_err(|error: windlass_core::time::BadTime| error.to_string())
}

pub(super) fn misfire(text: &str) -> Result<Misfire, String> {
    text.parse()
}

pub(super) fn phase(text: &str) -> Result<Phase, String> {
    text.parse()
}

pub(super) fn state(text: &str) -> Result<JobState, String> {
    text.parse().map_err(|error: windlass_core::state::UnknownState| error.to_string())
}

pub(super) fn entity(text: &str) -> Result<EntityRef, String> {
    match text.split_once(':') {
        Some((entity_type, id)) if !entity_type.is_empty() && !id.is_empty() => {
            Ok(EntityRef { entity_type: entity_type.to_owned(), entity_id: id.to_owned() })
        }
        _ => Err("write it as TYPE:ID, such as product:42".to_owned()),
    }
}

/// A bare number means seconds, as in `Prefer: wait=N`.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => duration_of(text).map_err(|_| {
            format!(
                "`{}` is not a number of seconds; put what to run before --wait",
                windlass_core::input::shown(text)
            )
        }),
    }
}
