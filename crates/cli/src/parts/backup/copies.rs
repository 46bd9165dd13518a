//! Scheduled backups: where they go, how many are kept, how often, and how old the last good one may be.

use std::path::PathBuf;
use std::time::Duration;

use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_core::{Time, duration};
use windlass_engine::backup::BackupFolder;

use windlass_pack::settings::{Form, Section, Setting, SettingValue, Settings};

const BACKUP: Section =
    Section::plain("backup").about("Copies of the database on a schedule; `windlass backup` shows them.");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) shelf: BackupFolder,
    /// A schedule expression.
    pub(crate) every: String,
    pub(crate) verify: bool,
    pub(crate) alert_after: Duration,
}

/// Number of ticks examined to find the longest interval: more than a week of daily ones.
const TICKS: usize = 10;

pub(super) fn declared() -> Vec<Setting> {
    let folder = "Folder for scheduled backups; processes without it make none";
    let keep = "Number of newest backups to keep; the last verified one is always kept";
    let every = "How often a backup is made: a duration, or a cron expression in UTC";
    let verify = "Restore each backup to a scratch database and compare every table";
    let alert_after = "Age of the last verified backup that raises an alert";
    let count = Form::Count { min: 1, max: 10_000 };
    let age = "twice the longest time between two backups";
    vec![
        Setting::new(BACKUP, "folder", Form::Text, "none: no backups are made", folder).example("./backups"),
        Setting::new(BACKUP, "keep", count, "7", keep),
        Setting::new(BACKUP, "every", Form::Text, "24h", every)
            .checked(|value| longest_pause(&expression(&value.to_string())).map(drop)),
        Setting::new(BACKUP, "verify", Form::Flag, "true", verify),
        Setting::new(BACKUP, "alert_after", Form::Duration { min_ms: 1 }, age, alert_after).example("2d"),
    ]
}

/// `None` if no folder is configured.
pub(super) fn read(settings: &Settings) -> Option<Copies> {
    let folder = settings.configured(BACKUP, None, "folder").map(SettingValue::to_string)?;
    let every = expression(&settings.text(BACKUP, "every").unwrap_or_default());
    let between = longest_pause(&every).unwrap_or_default();
    let keep = settings.count(BACKUP, "keep").unwrap_or_default();
    Some(Copies {
        // Made absolute, because a relative folder refers to where the process was started.
        shelf: BackupFolder {
            folder: std::path::absolute(&folder).unwrap_or(PathBuf::from(folder)),
            keep: usize::try_from(keep).unwrap_or(usize::MAX),
        },
        every,
        verify: settings.flag(BACKUP, "verify"),
        alert_after: settings.duration(BACKUP, "alert_after").unwrap_or(between * 2),
    })
}

/// As a schedule expression.
fn expression(text: &str) -> String {
    match duration::parse(text) {
        Ok(period) => format!("every {}", duration::format(period)),
        Err(_) => text.to_owned(),
    }
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
    fn the_alert_follows_the_longest_interval() {
        let hours = |n: u64| Ok(Duration::from_secs(n * 3_600));
        assert_eq!(longest_pause("every 6h"), hours(6));
        assert_eq!(longest_pause("30 2 * * *"), hours(24));
        assert_eq!(longest_pause("30 2 * * MON-FRI"), hours(72));
        assert!(longest_pause("now and then").unwrap_err().contains("a duration such as 24h"));
    }

    #[test]
    fn backups_run_exactly_as_often_as_configured() {
        for (configured, every, alert_after) in
            [("25h1m", "every 1d1h1m", 2 * 90_060_000), ("90.5s", "every 1m30s500ms", 181_000)]
        {
            let mut settings = Settings::new(declared());
            settings.set_path("backup.folder", "copies").unwrap();
            settings.set_path("backup.every", configured).unwrap();
            let backup = read(&settings).unwrap();
            let expected = (every, Duration::from_millis(alert_after));
            assert_eq!((backup.every.as_str(), backup.alert_after), expected);
        }
        let mut settings = Settings::new(declared());
        assert_eq!(read(&settings), None, "no folder, no copies");
        assert!(settings.set_path("backup.every", "now and then").unwrap_err().contains("a duration"));
    }
}
