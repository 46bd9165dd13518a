//! Shapes of single arguments, and what is said about one that has another shape.

use std::time::Duration;

use windlass_core::queue::{BadBoost, Boost, MAX_GLOBAL_CONCURRENCY};
use windlass_core::schedule::{Misfire, Phase};
use windlass_core::{EntityRef, JobState, OnConflict, Rate, Time, duration};

#[derive(Clone, Copy)]
pub(crate) enum DepthCap {
    Jobs(u64),
    None,
}

#[derive(Clone, Copy)]
pub(crate) enum GlobalConcurrency {
    Jobs(u32),
    None,
}

#[derive(Clone, Copy)]
pub(crate) enum RateBound {
    Rate(Rate),
    None,
}

pub(super) fn rate(text: &str) -> Result<RateBound, String> {
    match text {
        "none" => Ok(RateBound::None),
        text => {
            text.parse().map(RateBound::Rate).map_err(|error: windlass_core::rate::BadRate| error.to_string())
        }
    }
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

pub(super) fn on_conflict(text: &str) -> Result<OnConflict, String> {
    crate::commands::enqueue::on_conflict(text)
}

pub(super) fn entity(text: &str) -> Result<EntityRef, String> {
    match text.split_once(':') {
        Some((entity_type, id)) if !entity_type.is_empty() && !id.is_empty() => {
            Ok(EntityRef { entity_type: entity_type.to_owned(), entity_id: id.to_owned() })
        }
        _ => Err("write it as TYPE:ID, such as product:42".to_owned()),
    }
}

pub(super) fn depth_cap(text: &str) -> Result<DepthCap, String> {
    match text {
        "none" => Ok(DepthCap::None),
        text => match text.parse() {
            Ok(cap) if cap > 0 => Ok(DepthCap::Jobs(cap)),
            _ => Err("must be a number above 0, or none".to_owned()),
        },
    }
}

pub(super) fn global_concurrency(text: &str) -> Result<GlobalConcurrency, String> {
    match text {
        "none" => Ok(GlobalConcurrency::None),
        text => match text.parse() {
            Ok(jobs) if (1..=MAX_GLOBAL_CONCURRENCY).contains(&jobs) => Ok(GlobalConcurrency::Jobs(jobs)),
            _ => Err(format!("must be 1 to {MAX_GLOBAL_CONCURRENCY}, or none")),
        },
    }
}

pub(super) fn boost_after(text: &str) -> Result<Boost, String> {
    match text {
        "configured" => Ok(Boost::Configured),
        text => text.parse().map_err(|error: BadBoost| format!("{error}, or configured")),
    }
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
