//! Shapes of single arguments, and what is said about one that has another shape.

use std::time::Duration;

use windlass_core::lane::MAX_KEY_CONCURRENCY;
use windlass_core::queue::{MAX_GLOBAL_CONCURRENCY, parse_boost};
use windlass_core::schedule::{Misfire, Phase};
use windlass_core::store::{CONFIGURED, Live};
use windlass_core::{EntityRef, JobState, Rate, Time, duration};

const MAX_COUNT: u32 = 10_000;

/// A live value as an operator writes it: back to the configuration, or what `read` makes of it.
fn live<T>(text: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Live<T>, String> {
    match text {
        CONFIGURED => Ok(Live::Configured),
        text => read(text).map(Live::Set).map_err(|rule| format!("{rule}, or {CONFIGURED}")),
    }
}

/// Of slots or permits.
pub(super) fn count(text: &str) -> Result<Live<u32>, String> {
    live(text, |text| {
        let count = text.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
        count.ok_or_else(|| format!("must be 1 to {MAX_COUNT}"))
    })
}

pub(super) fn bound(text: &str) -> Result<Live<Option<u32>>, String> {
    live_bound(text, MAX_COUNT)
}

pub(super) fn global_concurrency(text: &str) -> Result<Live<Option<u32>>, String> {
    live_bound(text, MAX_GLOBAL_CONCURRENCY)
}

fn live_bound(text: &str, most: u32) -> Result<Live<Option<u32>>, String> {
    live(text, |text| match text {
        "none" => Ok(None),
        text => {
            let count = text.parse().ok().filter(|count| (1..=most).contains(count));
            count.map(Some).ok_or_else(|| format!("must be 1 to {most}, none"))
        }
    })
}

pub(super) fn depth_cap(text: &str) -> Result<Live<Option<u64>>, String> {
    live(text, |text| match text {
        "none" => Ok(None),
        text => {
            let cap = text.parse().ok().filter(|cap| *cap > 0);
            cap.map(Some).ok_or_else(|| "must be a number above 0, none".to_owned())
        }
    })
}

pub(super) fn rate(text: &str) -> Result<Live<Option<Rate>>, String> {
    live(text, |text| match text {
        "none" => Ok(None),
        text => text.parse().map(Some).map_err(|error: windlass_core::rate::BadRate| error.to_string()),
    })
}

pub(super) fn duration_of(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// Checked here so that a bad one is wrong usage; the configuration reads it again.
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

pub(super) fn key_concurrency(text: &str) -> Result<Live<u16>, String> {
    live(text, |text| {
        let jobs = text.parse().ok().filter(|jobs| (1..=MAX_KEY_CONCURRENCY).contains(jobs));
        jobs.ok_or_else(|| format!("must be 1 to {MAX_KEY_CONCURRENCY}"))
    })
}

pub(super) fn boost_after(text: &str) -> Result<Live<Option<Duration>>, String> {
    live(text, |text| parse_boost(text).map_err(|error| error.to_string()))
}

/// A bare number is seconds here, as in `Prefer: wait=N`.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => duration_of(text).map_err(|_| {
            format!(
                "`{}` is not a number of seconds; name what is to be run before --wait",
                windlass_core::input::shown(text)
            )
        }),
    }
}
