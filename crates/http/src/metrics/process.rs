//! Process metrics from Linux. Left out on other systems, or if a file cannot be read.

use std::fs;

use super::text::Text;

/// The unit of times in `/proc`; the same on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn add(text: &mut Text) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process name may contain spaces and parentheses, so fields are counted after the last one: the third field
    // comes first.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        text.counter("process_cpu_seconds_total", "User and system time of this process.");
        text.sample("process_cpu_seconds_total", &[], (user + system) / TICKS_PER_SECOND);
    }
    if let Some(bytes) = field(23) {
        text.gauge("process_virtual_memory_bytes", "Virtual memory of this process.");
        text.sample("process_virtual_memory_bytes", &[], bytes);
    }
    if let Some(bytes) = resident() {
        text.gauge("process_resident_memory_bytes", "Resident memory of this process.");
        text.sample("process_resident_memory_bytes", &[], bytes);
    }
    if let (Some(started), Some(boot)) = (field(22), boot_time()) {
        text.gauge("process_start_time_seconds", "When this process started, since 1970.");
        text.sample("process_start_time_seconds", &[], boot + started / TICKS_PER_SECOND);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        text.gauge("process_open_fds", "Open file handles.");
        // One of them is the directory being read.
        text.sample("process_open_fds", &[], open.count().saturating_sub(1) as f64);
    }
    if let Some(most) = most_files() {
        text.gauge("process_max_fds", "Most file handles this process may open.");
        text.sample("process_max_fds", &[], most);
    }
    if let Some(threads) = field(20) {
        text.gauge("process_threads", "Threads of this process.");
        text.sample("process_threads", &[], threads);
    }
}

fn resident() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn most_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
