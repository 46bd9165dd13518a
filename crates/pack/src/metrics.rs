//! Metric series of parts: declared once, read at each scrape.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use windlass_engine::meter::{Histogram, RUN_BUCKETS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    Gauge,
    Counter,
    Histogram,
}

impl SeriesKind {
    pub fn name(self) -> &'static str {
        match self {
            SeriesKind::Gauge => "gauge",
            SeriesKind::Counter => "counter",
            SeriesKind::Histogram => "histogram",
        }
    }
}

/// Name, type and help text of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    pub name: &'static str,
    pub kind: SeriesKind,
    pub help: &'static str,
}

impl Series {
    pub const fn gauge(name: &'static str, help: &'static str) -> Series {
        Series { name, kind: SeriesKind::Gauge, help }
    }

    /// The name must end in `_total`.
    pub const fn counter(name: &'static str, help: &'static str) -> Series {
        Series { name, kind: SeriesKind::Counter, help }
    }

    pub const fn histogram(name: &'static str, help: &'static str) -> Series {
        Series { name, kind: SeriesKind::Histogram, help }
    }
}

pub type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub enum Measure {
    Value(f64),
    Buckets { bounds: &'static [f64], counts: Vec<u64>, sum: f64 },
}

/// One value or histogram of a series.
#[derive(Clone, Debug)]
pub struct Sample {
    pub series: &'static str,
    pub labels: Labels,
    pub measure: Measure,
}

/// The samples of one scrape.
#[derive(Debug, Default)]
pub struct Samples(pub Vec<Sample>);

impl Samples {
    pub fn value(&mut self, series: &'static str, labels: Labels, value: f64) {
        self.0.push(Sample { series, labels, measure: Measure::Value(value) });
    }

    /// A histogram with the engine's usual buckets.
    pub fn times(&mut self, series: &'static str, labels: Labels, times: &Histogram) {
        let (counts, sum) = (times.buckets.to_vec(), times.time.as_secs_f64());
        let measure = Measure::Buckets { bounds: &RUN_BUCKETS, counts, sum };
        self.0.push(Sample { series, labels, measure });
    }
}

/// On an error, the part's series are left out of this scrape and the error is logged. A scrape never fails.
pub type Collect = Arc<dyn Fn() -> BoxFuture<'static, Result<Samples, String>> + Send + Sync>;

/// Series that are collected together.
#[derive(Clone)]
pub struct Metrics {
    pub series: Vec<Series>,
    pub collect: Collect,
}
