//! Metrics of parts.

use windlass_pack::metrics::{Measure, Metrics};

use super::text::Text;

/// Writes every declared series, even without samples. A part that cannot read its values is left out of this scrape.
pub(super) async fn add(text: &mut Text, metrics: &Metrics) {
    let samples = match (metrics.collect)().await {
        Ok(samples) => samples.0,
        Err(error) => {
            let series = metrics.series.first().map_or("", |series| series.name);
            return tracing::warn!(series, error, "the metrics of a part are left out");
        }
    };
    for series in &metrics.series {
        text.family(series.name, series.kind.name(), series.help);
        for sample in samples.iter().filter(|sample| sample.series == series.name) {
            let labels: Vec<(&str, &str)> =
                sample.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            match &sample.measure {
                Measure::Value(value) => text.sample(series.name, &labels, *value),
                Measure::Buckets { bounds, counts, sum } => {
                    text.buckets(series.name, &labels, bounds, counts, *sum);
                }
            }
        }
    }
}
