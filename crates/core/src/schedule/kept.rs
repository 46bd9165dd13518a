//! The stored form of a schedule, next to its name and payload.
//!
//! Rows outlive the binary: add fields, never rename them. An unknown field is an error, because it may restrict when
//! the schedule ticks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{CalendarSpec, Misfire, RuleSpec, ScheduleSpec};
use crate::StoreError;
use crate::time::micros;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    kind: String,
    rules: Vec<RuleSpec>,
    misfire: Misfire,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calendars: Vec<CalendarSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    catch_up: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

impl ScheduleSpec {
    /// JSON text, read back by [`ScheduleSpec::from_kept`]. Equal specifications give equal text.
    pub fn to_kept(&self) -> String {
        let ScheduleSpec {
            name: _,
            payload: _,
            kind,
            priority,
            max_attempts,
            timeout,
            unique_key,
            concurrency_key,
            tags,
            rules,
            zone,
            calendars,
            misfire,
            catch_up,
        } = self.clone();
        let kept = Kept {
            kind,
            rules,
            misfire,
            zone,
            calendars,
            catch_up,
            priority,
            max_attempts,
            timeout_us: timeout.map(micros),
            unique_key,
            concurrency_key,
            tags,
        };
        // Serializing plain values cannot fail.
        serde_json::to_string(&kept).unwrap_or_default()
    }

    pub fn from_kept(name: &str, kept: &str, payload: &[u8]) -> Result<ScheduleSpec, StoreError> {
        let kept: Kept = serde_json::from_str(kept).map_err(|error| StoreError::Corrupt {
            what: format!("the schedule `{name}`, perhaps written by a newer windlass: {error}"),
        })?;
        let timeout = kept.timeout_us.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
        Ok(ScheduleSpec {
            name: name.to_owned(),
            kind: kept.kind,
            payload: payload.to_vec(),
            priority: kept.priority,
            max_attempts: kept.max_attempts,
            timeout,
            unique_key: kept.unique_key,
            concurrency_key: kept.concurrency_key,
            tags: kept.tags,
            rules: kept.rules,
            zone: kept.zone,
            calendars: kept.calendars,
            misfire: kept.misfire,
            catch_up: kept.catch_up,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Phase;

    #[test]
    fn a_stored_schedule_is_read_back() {
        let spec = ScheduleSpec {
            name: "refresh".to_owned(),
            kind: "STOCK_REFRESH".to_owned(),
            payload: b"{ \"a\":1 }".to_vec(),
            priority: Some(2),
            max_attempts: Some(3),
            timeout: Some(Duration::from_millis(1_500)),
            unique_key: Some("refresh".to_owned()),
            concurrency_key: Some("stocks".to_owned()),
            tags: vec!["x".to_owned()],
            rules: vec![RuleSpec {
                expr: "*/5 * * * *".to_owned(),
                zone: None,
                calendar: Some("tokyo".to_owned()),
                during: vec![Phase::Open],
            }],
            zone: Some("Asia/Tokyo".to_owned()),
            calendars: vec![CalendarSpec {
                name: "tokyo".to_owned(),
                zone: "Asia/Tokyo".to_owned(),
                ..CalendarSpec::default()
            }],
            misfire: Misfire::All,
            catch_up: Some(7),
        };
        let back = ScheduleSpec::from_kept("refresh", &spec.to_kept(), &spec.payload).unwrap();
        assert_eq!(back, spec);
    }

    /// Rows of an older binary must stay readable.
    #[test]
    fn the_smallest_stored_schedule_is_read() {
        let text = r#"{"kind":"NOOP","rules":[{"expr":"@daily"}],"misfire":"once"}"#;
        let spec = ScheduleSpec::from_kept("n", text, b"{}").unwrap();
        assert_eq!((spec.rules.len(), spec.misfire), (1, Misfire::Once));
        assert_eq!(spec.to_kept(), text);
        let newer = text.replace("}", ",\"jitter\":1}");
        let error = ScheduleSpec::from_kept("n", &newer, b"{}").unwrap_err().to_string();
        assert!(error.contains("newer windlass"), "{error}");
    }
}
