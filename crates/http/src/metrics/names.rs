//! Names of the engine's own series, so that no part can use one of them.

const NAMES: &[&str] = &[
    "ai_budget_percent_used",
    "dead_letter_queue_size",
    "job_budget_consumed_dollars",
    "job_execution_duration_seconds",
    "job_queue_backlog_total",
    "job_retry_total",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
    "screenshot_concurrency_utilization",
    "windlass_budget_alerts",
    "windlass_budget_alerts_total",
    "windlass_budget_limit_tokens",
    "windlass_budget_limit_units",
    "windlass_budget_percent_used",
    "windlass_budget_refusals_total",
    "windlass_budget_state",
    "windlass_budget_used_tokens",
    "windlass_budget_used_units",
    "windlass_dead_letters",
    "windlass_http_requests_total",
    "windlass_info",
    "windlass_job_retries_total",
    "windlass_job_run_seconds",
    "windlass_queue_concurrency",
    "windlass_queue_depth",
    "windlass_queue_desired_workers",
    "windlass_queue_latency_p95_seconds",
    "windlass_queue_oldest_due_age_seconds",
    "windlass_queue_paused",
    "windlass_queue_running",
    "windlass_queue_scheduled",
    "windlass_queue_sla_seconds",
    "windlass_resource_permits",
    "windlass_resource_permits_in_use",
    "windlass_store_up",
    "windlass_workers",
];

pub(crate) fn names() -> Vec<String> {
    NAMES.iter().map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list equals the literals that the other files of this folder pass to metric families.
    #[test]
    fn the_list_equals_the_series_in_the_source() {
        let sources = [include_str!("mod.rs"), include_str!("budgets.rs"), include_str!("process.rs")];
        let mut written: Vec<&str> = Vec::new();
        for word in sources.iter().flat_map(|source| source.split('"')) {
            let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            let prefixes = ["windlass_", "process_", "job_", "ai_", "dead_letter_", "screenshot_"];
            if is_name && word != "job_type" && prefixes.iter().any(|prefix| word.starts_with(prefix)) {
                written.push(word);
            }
        }
        written.sort_unstable();
        written.dedup();
        assert_eq!(written, NAMES);
    }
}
