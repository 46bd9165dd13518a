//! The statements as they are sent, in one file: a change of SQL shows as a diff of `golden/statements.sql`, composed parts and
//! all. WINDLASS_BLESS=1 rewrites it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use windlass_core::Store;
use windlass_store_postgres::PostgresStore;
use windlass_testkit::conformance::{
    Harness, act, audit_act, backup, budget_call, budget_change, cancel, claim, enqueue, entity_box,
    entity_feed, entity_index, global, idempotency, lane, lane_hand, order, poll, prune, query, rate,
    registry, report, resource, returning, run, schedule, schedule_tick, settle, suspect, transaction,
    unique, unique_finished, unique_window, worker, workflow, workflow_failure,
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
        audit_act::one_job_s_line_says_how_it_stood,
        backup::everything_there_and_back,
        budget_call::reserved_then_settled,
        budget_change::a_live_limit_can_be_taken_away,
        cancel::the_worker_is_asked,
        claim::priority_then_time_then_id,
        enqueue::one,
        entity_box::a_newer_write_takes_the_place_of_the_waiting_box,
        entity_feed::each_change_once_as_it_is_now,
        entity_index::an_embedded_box_is_indexed,
        global::never_more_than_the_limit,
        idempotency::the_same_request_gets_the_same_job,
        lane::one_of_a_key_at_a_time,
        lane_hand::the_next_in_line_gets_the_slot,
        order::the_longest_due_come_first_whatever_their_priority,
        poll::live_settings_are_seen,
        prune::finished_and_dead_letters_apart,
        query::by_everything_else,
        rate::tokens_come_at_the_rate,
        registry::specs_there_and_back,
        report::log_lines_in_order,
        resource::in_use_is_what_is_leased,
        returning::reclaim_meets_its_twin,
        schedule::everything_said_comes_back,
        schedule_tick::a_tick_moves_on_and_enqueues,
        settle::retry_waits_and_keeps_its_attempt,
        suspect::a_suspect_is_claimed_alone,
        transaction::commit_shows_the_jobs,
        unique::replace_supersedes_the_waiting_one,
        unique_finished::a_replay_takes_its_key_again,
        unique_window::a_finished_one_is_still_the_one,
        worker::heartbeat_moves_on,
        workflow::results_reach_the_children,
        workflow_failure::every_bad_end_stops,
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

/// Statements begin wherever the source has them.
fn dedent(statement: &str) -> String {
    let lines = || statement.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let least = lines().skip(1).map(indent).min().unwrap_or(0);
    let cut = |line: &str| line[indent(line).min(least)..].trim_end().to_owned();
    lines().map(cut).collect::<Vec<_>>().join("\n")
}
