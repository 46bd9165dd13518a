//! The contract through PgBouncer in transaction mode. Each transaction may run in another session; having more
//! clients than sessions makes sure that it does.

use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::Store;
use windlass_store_postgres::{Options, PostgresStore};
use windlass_testkit::bouncer::Bouncer;
use windlass_testkit::conformance::{self, Harness};

use crate::conformance::Schema;
use crate::place::{fresh_schema, server};

fn options() -> Options {
    Options { pooler: true, pool_size: 8, ..Options::default() }
}

async fn harness() -> Harness {
    let folder = tempfile::tempdir().unwrap();
    let bouncer = Bouncer::start(&server(), folder.path());
    let schema = fresh_schema();
    let url = format!("{}?schema={schema}", bouncer.url);
    let handle = move || {
        let url = url.clone();
        async move { Arc::new(PostgresStore::connect(&url, options()).await.unwrap()) as Arc<dyn Store> }
    };
    let guard: (Schema, Bouncer, TempDir) = (Schema(schema), bouncer, folder);
    Harness::new(handle, guard).await
}

macro_rules! cases {
    ($($topic:ident { $($case:ident)* })*) => {
        $(mod $topic {
            use super::*;
            $(#[test]
            fn $case() {
                let name = concat!(stringify!($topic), "::", stringify!($case));
                conformance::run(name, harness, conformance::$topic::$case);
            })*
        })*
    };
}

// The cases that the engine and the index depend on. Wake-ups between processes do not work through a pooler.
cases! {
    enqueue { one_job_is_stored_whole many_in_order_with_growing_ids delayed_is_not_early two_handles_never_share_an_id }
    unique { replace_supersedes_the_waiting_job two_racing_enqueues_leave_one_waiting }
    idempotency { the_same_request_gets_the_same_job two_racing_calls_make_one_job }
    claim { priority_then_time_then_id eight_claimers_get_every_job_once only_handled_kinds the_attempt_is_counted_at_claim }
    settle {
        done_keeps_its_result retry_waits_and_keeps_its_attempt attempts_run_out a_mixed_batch_settles_the_others
        answers_are_in_the_order_of_the_request a_second_settlement_is_stale a_large_batch
    }
    fence { late_writes_after_reclaim late_writes_while_another_runs_it }
    poll { an_idle_queue_is_reported next_due_is_the_earliest live_settings_are_seen each_set_of_kinds_has_its_own_answer limits_in_force_are_reported }
    lane { one_of_a_key_at_a_time keys_take_turns keyed_jobs_in_a_callers_transaction }
    lane_race { eight_claimers_never_run_two_of_a_key }
    rate { tokens_are_granted_at_the_rate a_token_is_granted_once }
    resource { permits_in_use_equal_the_leases }
    worker { register_and_list a_heartbeat_extends_the_lease a_retired_worker_hands_its_jobs_back }
    transaction { commit_shows_the_jobs rollback_leaves_nothing settle_in_commits_with_the_effect }
    query { attempts_in_order by_state }
    schema { down_and_up_again }
    entity { versions_only_grow_across_a_tombstone listed_by_the_bytes_of_the_id }
    entity_write { a_thousand_in_one_call a_rollback_leaves_no_row_and_no_box }
    entity_box { a_new_text_gets_a_box a_newer_write_replaces_the_waiting_box }
    entity_index { an_embedded_box_is_indexed a_failed_box_marks_its_entity }
    entity_feed { each_change_is_shown_once_in_its_current_state a_reader_misses_nothing_during_writes }
}

/// Without the setting the error names it.
#[tokio::test]
async fn session_mode_needs_the_same_setting() {
    let folder = tempfile::tempdir().unwrap();
    let bouncer = Bouncer::by_session(&server(), folder.path());
    let schema = fresh_schema();
    let url = format!("{}?schema={schema}", bouncer.url);
    let refused = PostgresStore::connect(&url, Options { pooler: false, ..options() }).await;
    let said = refused.err().expect("PgBouncer refuses our settings").chain();
    assert!(
        said.contains("unsupported startup parameter") && said.contains("database.pooler = true"),
        "{said}"
    );
    let store = PostgresStore::connect(&url, options()).await.unwrap();
    store.migrate_up(None).await.unwrap();
    store.sync_registry(&[], &[windlass_core::KindSpec::new("k", "Q")], None).await.unwrap();
    assert_eq!(store.kinds().await.unwrap().len(), 1);
    store.close().await;
    crate::place::drop_schema(&schema).await;
}

/// The timeout is set in each transaction, because each may run in another session.
#[tokio::test]
async fn a_statement_has_its_timeout_through_the_pooler() {
    let folder = tempfile::tempdir().unwrap();
    let bouncer = Bouncer::start(&server(), folder.path());
    let schema = fresh_schema();
    let options = Options { statement_timeout: std::time::Duration::from_millis(300), ..options() };
    let url = format!("{}?schema={schema}", bouncer.url);
    let store = PostgresStore::connect(&url, options).await.unwrap();
    store.migrate_up(None).await.unwrap();
    crate::deadline::a_stuck_lock_ends_in_time(&store, &schema).await;
    store.close().await;
    crate::place::drop_schema(&schema).await;
}
