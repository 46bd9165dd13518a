//! `bench`: figures of this machine, printed as one object.

pub(crate) mod queue;

/// What the bare loop of a store reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) enqueue_per_s: f64,
    pub(crate) drain_per_s: f64,
}

/// Of values sorted in ascending order.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted[place - 1]
}

/// Resident memory of this process now.
pub(crate) fn rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
    kib / 1024.0
}
