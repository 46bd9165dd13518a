//! Copies on a schedule: where they go, how many stay, how often, and how old the last good one may be.

use std::path::PathBuf;
use std::time::Duration;

use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_core::{Time, duration};
use windlass_engine::backup::Shelf;

use super::Resolver;
use super::keys::Section;
use super::raw::{Origin, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) shelf: Shelf,
    /// An expression as schedules take it.
    pub(crate) every: String,
    pub(crate) verify: bool,
    pub(crate) alert_after: Duration,
}

/// Ticks looked at for the longest time between two of them: more than a week of daily ones.
const TICKS: usize = 10;

/// `None` where no folder is named.
pub(super) fn resolve(resolver: &mut Resolver) -> Option<Copies> {
    let said = resolver.text(Section::Backup, "every");
    let every = match duration::parse(&said) {
        Ok(period) => format!("every {}", duration::format(period)),
        Err(_) => said,
    };
    let between = longest_pause(&every).unwrap_or_else(|why| {
        let origin = resolver.raw.get(Section::Backup, None, "every").map(|(_, origin)| origin.clone());
        resolver.raw.problem(origin.unwrap_or(Origin::Default), format!("backup.every: {why}"));
        Duration::ZERO
    });
    let alert_after = match resolver.raw.get(Section::Backup, None, "alert_after") {
        Some((Value::Duration(after), _)) => *after,
        _ => between * 2,
    };
    let folder = resolver.raw.get(Section::Backup, None, "folder").map(|(folder, _)| folder.to_string())?;
    let keep = usize::try_from(resolver.count(Section::Backup, "keep")).unwrap_or(usize::MAX);
    Some(Copies {
        // A job may run anywhere in the process; its folder is where the process was started.
        shelf: Shelf { folder: std::path::absolute(&folder).unwrap_or(PathBuf::from(folder)), keep },
        every,
        verify: resolver.value(Section::Backup, "verify") == Value::Flag(true),
        alert_after,
    })
}

fn longest_pause(every: &str) -> Result<Duration, String> {
    let anchor = Time(0);
    let spec = ScheduleSpec {
        name: "backup".to_owned(),
        kind: "BACKUP".to_owned(),
        payload: b"{}".to_vec(),
        rules: vec![RuleSpec { expr: every.to_owned(), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    };
    let plan = spec.plan(anchor).map_err(|invalid| {
        let rules: Vec<String> = invalid.problems.into_iter().map(|problem| problem.rule).collect();
        format!("must be a duration such as 24h or a cron expression: {}", rules.join("; "))
    })?;
    let ticks: Vec<Time> =
        std::iter::successors(plan.next(anchor), |tick| plan.next(*tick)).take(TICKS).collect();
    Ok(ticks.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alarm_follows_the_longest_pause() {
        let hours = |n: u64| Ok(Duration::from_secs(n * 3_600));
        assert_eq!(longest_pause("every 6h"), hours(6));
        assert_eq!(longest_pause("30 2 * * *"), hours(24));
        assert_eq!(longest_pause("30 2 * * MON-FRI"), hours(72));
        assert!(longest_pause("now and then").unwrap_err().contains("a duration such as 24h"));
    }
}
