//! The response of the route, and the rate of each queue between two responses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use windlass_core::Time;
use windlass_core::store::DEPTH_SHOWN;
use windlass_pack::api::{Api, ApiError, ApiRequest};

use super::pace::Pace;
use crate::api::answer::{Answered, ask};
use crate::failure::{During, Failure};
use crate::output::visible;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Reading {
    #[serde(deserialize_with = "moment")]
    pub(super) at: Time,
    pub(super) queues: Vec<QueueLine>,
    pub(super) workers: Vec<WorkerLine>,
    /// Newest first.
    pub(super) failures: Vec<FailureLine>,
}

fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct QueueLine {
    pub(super) name: String,
    pub(super) paused: bool,
    pub(super) depth: u64,
    pub(super) running: u64,
    pub(super) oldest_seconds: Option<f64>,
    pub(super) p95_seconds: Option<f64>,
    pub(super) sla_seconds: Option<f64>,
    pub(super) slots: Option<u64>,
    pub(super) global_concurrency: Option<u32>,
    /// In the last seconds: between two readings that differ, else in the current minute.
    pub(super) completed_per_s: f64,
    /// For each of the last minutes, newest last.
    pub(super) completed_by_minute: Vec<u64>,
    pub(super) completed_last_hour: u64,
}

impl QueueLine {
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.oldest_seconds.and_then(time).map(whole)
    }

    pub(super) fn p95(&self) -> Option<Duration> {
        self.p95_seconds.and_then(time)
    }

    pub(super) fn sla(&self) -> Option<Duration> {
        self.sla_seconds.and_then(time)
    }

    pub(super) fn breaks_sla(&self) -> bool {
        matches!((self.p95_seconds, self.sla_seconds), (Some(p95), Some(sla)) if p95 > sla)
    }

    pub(super) fn is_capped(&self) -> bool {
        self.depth >= DEPTH_SHOWN
    }

    pub(super) fn shown_depth(&self) -> String {
        if self.is_capped() { format!("{DEPTH_SHOWN}+") } else { self.depth.to_string() }
    }

    pub(super) fn state(&self) -> &'static str {
        match () {
            () if self.paused => "paused",
            () if self.breaks_sla() => "late",
            () if self.depth > 0 || self.running > 0 => "works",
            () => "idle",
        }
    }
}

/// Out-of-range values count as missing, because a server may send anything.
fn time(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// From one second on, ages are shown in whole seconds.
fn whole(time: Duration) -> Duration {
    match time.as_secs() {
        0 => Duration::from_millis(u64::from(time.subsec_millis())),
        seconds => Duration::from_secs(seconds),
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct WorkerLine {
    pub(super) process: String,
    pub(super) running: u64,
    /// Of all its queues together.
    pub(super) slots: u64,
    pub(super) resources: Vec<Held>,
    /// Running jobs by kind; not necessarily all.
    pub(super) kinds: Vec<KindCount>,
    pub(super) heard_seconds: f64,
    pub(super) up_seconds: f64,
}

impl WorkerLine {
    /// `browser 2/3`, for each resource.
    pub(super) fn permits(&self) -> String {
        let each =
            self.resources.iter().map(|of| format!("{} {}/{}", visible(&of.resource), of.in_use, of.permits));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Permits of a resource.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Held {
    pub(super) resource: String,
    pub(super) in_use: u64,
    pub(super) permits: u32,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct KindCount {
    pub(super) kind: String,
    pub(super) jobs: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct FailureLine {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) ago_seconds: f64,
    pub(super) error: String,
}

pub(super) struct Reader {
    api: Arc<dyn Api>,
    /// By queue: when its counts last changed, and what they were before.
    paces: HashMap<String, Pace>,
}

impl Reader {
    pub(super) fn new(api: Arc<dyn Api>) -> Reader {
        Reader { api, paces: HashMap::new() }
    }

    pub(super) fn api(&self) -> &dyn Api {
        self.api.as_ref()
    }

    /// The route's response.
    pub(super) async fn ask(&self) -> Result<Answered, ApiError> {
        ask(self.api(), ApiRequest::get("/v1/top", &[])).await
    }

    pub(super) async fn read(&mut self) -> Result<Reading, Failure> {
        let what = "cannot read the queues";
        let answer = self.ask().await.during(what)?;
        let mut reading: Reading = serde_json::from_str(&answer.text())
            .map_err(|error| Failure::new(what, format!("the answer cannot be read: {error}")))?;
        for queue in &mut reading.queues {
            let pace = self.paces.entry(queue.name.clone());
            pace.or_insert_with(|| Pace::new(queue, reading.at)).look(queue, reading.at);
        }
        Ok(reading)
    }
}
