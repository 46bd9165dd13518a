//! All statements as they are sent, in one file: a change of SQL shows as a diff of `golden/statements.sql`, including
//! composed parts. WINDLASS_BLESS=1 rewrites it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use windlass_core::Store;
use windlass_store_postgres::PostgresStore;
use windlass_testkit::conformance::{
    Harness, act, audit_act, backup, budget_call, budget_change, cancel, claim, enqueue, entity_box,
    entity_feed, entity_index, global, idempotency, lane, lane_handover, order, poll, prune, query, rate,
    registry, report, resource, run, schedule, schedule_tick, settle, suspect, transaction, unique,
    unique_finished, unique_return, unique_window, worker, workflow, workflow_failure,
};

use crate::conformance::Schema;
use crate::place::{fresh_schema, open};

type Opened = Arc<Mutex<Vec<Arc<PostgresStore>>>>;

async fn recorded(opened: &Opened) -> Harness {
    let schema = fresh_schema();
    let (name, opened) = (schema.clone(), opened.clone());
    let handle = move || {
        let (name, opened) = (name.clone(), opened.clone());
        async move {
            let store = Arc::new(open(&name).await);
            opened.lock().unwrap().push(store.clone());
            store as Arc<dyn Store>
        }
    };
    Harness::new(handle, Schema(schema)).await
}

macro_rules! record {
    ($($case:path),* $(,)?) => {{
        let opened = Opened::default();
        $( run(stringify!($case), || recorded(&opened), $case); )*
        let opened = opened.lock().unwrap();
        opened.iter().flat_map(|store| store.statements()).collect::<BTreeSet<String>>()
    }};
}

#[test]
fn statements_are_the_golden_ones() {
    let sent = record!(
        act::retry_of_each_state,
        act::delete_removes_everything,
        act::change_reorders_waiting_jobs,
        audit_act::a_record_of_one_job_has_its_states,
        backup::a_restore_has_every_row_of_the_export,
        budget_call::reserved_then_settled,
        budget_change::a_live_limit_can_be_removed,
        cancel::a_running_job_is_asked_to_stop,
        claim::priority_then_time_then_id,
        enqueue::one_job_is_stored_whole,
        entity_box::a_newer_write_replaces_the_waiting_box,
        entity_feed::each_change_is_shown_once_in_its_current_state,
        entity_index::an_embedded_box_is_indexed,
        global::never_more_than_the_limit,
        idempotency::the_same_request_gets_the_same_job,
        lane::one_of_a_key_at_a_time,
        lane_handover::a_settlement_gives_the_slot_to_the_next_job,
        order::late_jobs_are_claimed_by_due_time_not_priority,
        poll::live_settings_are_seen,
        prune::finished_jobs_and_dead_letters_are_pruned_separately,
        query::every_filter_is_applied,
        rate::tokens_are_granted_at_the_rate,
        registry::specs_are_stored_and_read,
        report::log_lines_in_order,
        resource::permits_in_use_equal_the_leases,
        unique_return::a_reclaimed_job_is_superseded,
        schedule::every_field_is_stored_and_read,
        schedule_tick::a_tick_advances_the_schedule_and_enqueues,
        settle::retry_waits_and_keeps_its_attempt,
        suspect::a_trial_is_one_job,
        transaction::commit_shows_the_jobs,
        unique::replace_supersedes_the_waiting_job,
        unique_finished::a_replay_takes_its_key_again,
        unique_window::a_finished_job_holds_its_key_during_the_window,
        worker::a_heartbeat_extends_the_lease,
        workflow::results_reach_the_children,
        workflow_failure::every_end_without_success_stops,
    );
    let found: String = sent.iter().map(|statement| format!("{}\n;\n\n", dedent(statement))).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/statements.sql");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(golden == found, "the statements differ from {path}; WINDLASS_BLESS=1 rewrites it");
}

/// Removes the indentation of the source.
fn dedent(statement: &str) -> String {
    let lines = || statement.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let least = lines().skip(1).map(indent).min().unwrap_or(0);
    let cut = |line: &str| line[indent(line).min(least)..].trim_end().to_owned();
    lines().map(cut).collect::<Vec<_>>().join("\n")
}
