//! A day of sample jobs: the fourteen kinds of document 002 §2 in the proportions of their cadences.
//!
//! Owns what the sample jobs are and how they pretend to work. Payloads carry their own script (how long, how often
//! they fail), so one handler serves every kind.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::{Backoff, KindSpec};
use windlass_engine::{Completion, Context, Handlers, JobError, JobRequest, handler};

/// One kind: queue, jobs in a day, milliseconds of work, what it does.
struct Sample {
    kind: &'static str,
    queue: &'static str,
    jobs: u32,
    work_ms: u64,
    what: &'static str,
    /// One in so many fails its first attempt; 0 is never.
    fails_one_in: u32,
    error: &'static str,
}

const fn sample(
    kind: &'static str,
    queue: &'static str,
    jobs: u32,
    work_ms: u64,
    what: &'static str,
    (fails_one_in, error): (u32, &'static str),
) -> Sample {
    Sample { kind, queue, jobs, work_ms, what, fails_one_in, error }
}

const NEVER: (u32, &str) = (0, "");

/// Counts are one day: every 5 minutes in market hours, every minute for mail, 20 feeds at their intervals, and so on.
const DAY: [Sample; 14] = [
    sample(
        "STOCK_REFRESH",
        "HIGH",
        95,
        20,
        "refreshes quotes",
        (24, "429 Too Many Requests from the quote service"),
    ),
    sample("MESSAGE_RELAY", "HIGH", 420, 15, "relays an inquiry with masked addresses", NEVER),
    sample("RSS_FEED_REFRESH", "DEFAULT", 500, 10, "fetches a feed", (25, "connection timed out after 10s")),
    sample("WEATHER_REFRESH", "DEFAULT", 120, 10, "fetches forecast and alerts", (40, "502 Bad Gateway")),
    sample("LISTING_EXPIRATION", "DEFAULT", 1, 60, "expires old listings", NEVER),
    sample("RANK_RECALCULATION", "DEFAULT", 24, 40, "ranks sites anew", NEVER),
    sample("INBOUND_EMAIL", "DEFAULT", 1_440, 4, "looks for new mail", NEVER),
    sample("SOCIAL_REFRESH", "LOW", 48, 25, "fetches social posts", (16, "the token was refused; refreshed")),
    sample("LINK_HEALTH_CHECK", "LOW", 150, 15, "checks a link of the directory", NEVER),
    sample("SITEMAP_GENERATION", "LOW", 1, 120, "writes the sitemap", NEVER),
    sample("CLICK_ROLLUP", "LOW", 24, 20, "sums up clicks", NEVER),
    sample("AI_TAGGING", "BULK", 240, 30, "tags a batch of articles", (60, "the model server is overloaded")),
    sample("IMAGE_PROCESSING", "BULK", 600, 20, "resizes an image", NEVER),
    sample(
        "SCREENSHOT_CAPTURE",
        "SCREENSHOT",
        60,
        120,
        "captures a site",
        (20, "the page did not settle in time"),
    ),
];

#[derive(Debug, Deserialize, Serialize)]
struct Script {
    item: u32,
    work_ms: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    fail_times: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The error is not worth another attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hopeless: bool,
}

fn is_zero(times: &u16) -> bool {
    *times == 0
}

pub(super) fn handlers() -> Handlers {
    let mut handlers = Handlers::default();
    for sample in &DAY {
        // A retry within the demo's seconds instead of the usual half minute.
        let backoff = Backoff { base: Duration::from_millis(400), ..Backoff::default() };
        let spec = KindSpec {
            backoff,
            description: sample.what.to_owned(),
            ..KindSpec::new(sample.kind, sample.queue)
        };
        handlers.add(spec, handler(work));
    }
    handlers
}

async fn work(context: Context, script: Script) -> Result<Completion, JobError> {
    tokio::time::sleep(Duration::from_millis(script.work_ms)).await;
    let error = script.error.unwrap_or_default();
    if script.hopeless {
        context.log("gave up: another attempt would see the same");
        return Err(JobError::fail(error));
    }
    if context.attempt() <= script.fail_times {
        context.log(format!("attempt {} failed", context.attempt()));
        return Err(JobError::retry(error));
    }
    Completion::with(&serde_json::json!({ "item": script.item }))
}

pub(super) struct Day {
    pub(super) jobs: Vec<JobRequest>,
    /// How many of them are due tomorrow and stay scheduled.
    pub(super) tomorrow: u64,
}

/// All jobs of the day, marked with `tag`, in the order a day would bring them.
pub(super) fn jobs(tag: &str) -> Day {
    let mut due: Vec<(f64, JobRequest)> = Vec::new();
    for sample in &DAY {
        for item in 0..sample.jobs {
            let fails = sample.fails_one_in > 0 && item % sample.fails_one_in == sample.fails_one_in - 1;
            let script = Script {
                item,
                work_ms: sample.work_ms,
                fail_times: u16::from(fails),
                error: fails.then(|| sample.error.to_owned()),
                hopeless: false,
            };
            let moment = (f64::from(item) + 0.5) / f64::from(sample.jobs);
            due.push((moment, request(sample.kind, &script, tag)));
        }
    }
    due.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut jobs: Vec<JobRequest> = due.into_iter().map(|(_, request)| request).collect();
    jobs.extend(troubles(tag));
    let mut tomorrow = request("LISTING_EXPIRATION", &quiet(2), tag);
    tomorrow.delay = Some(Duration::from_secs(24 * 3_600));
    jobs.push(tomorrow);
    Day { jobs, tomorrow: 1 }
}

/// One job that fails for good at once, one that runs out of attempts.
fn troubles(tag: &str) -> [JobRequest; 2] {
    let corrupt = Script {
        hopeless: true,
        error: Some("listing-4711.jpg is not an image: unexpected end of file".to_owned()),
        ..quiet(4_711)
    };
    let unreachable = Script {
        fail_times: u16::MAX,
        error: Some("https://gone.example did not answer: no such host".to_owned()),
        ..quiet(404)
    };
    let mut screenshot = request("SCREENSHOT_CAPTURE", &unreachable, tag);
    screenshot.max_attempts = Some(3);
    [request("IMAGE_PROCESSING", &corrupt, tag), screenshot]
}

fn quiet(item: u32) -> Script {
    Script { item, work_ms: 10, fail_times: 0, error: None, hopeless: false }
}

fn request(kind: &str, script: &Script, tag: &str) -> JobRequest {
    let payload = serde_json::to_vec(script).unwrap_or_else(|_| b"{}".to_vec());
    JobRequest { tags: vec![tag.to_owned()], ..JobRequest::new(kind, payload) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realistic_day() {
        let day = jobs("demo");
        assert_eq!(day.jobs.len(), 3_726);
        assert_eq!(handlers().specs().len(), 14);
        let families = windlass_core::queue::families();
        for sample in &DAY {
            assert!(families.iter().any(|family| family.name == sample.queue), "{}", sample.kind);
        }
    }
}
