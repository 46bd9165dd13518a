//! The only list of cases. The tests of each store, [`CASES`] and the check below are generated from it.

/// Calls `$each! { ($args…) topic { case … } … }` with all cases. A topic is the name of a module.
#[macro_export]
macro_rules! conformance_cases {
    ($each:ident $($args:tt)*) => {
        $crate::$each! { ($($args)*)
            act {
                retry_gives_fresh_attempts
                retry_runs_a_scheduled_job_now
                retry_of_each_state
                cancel_of_each_state
                delete_of_each_state
                delete_removes_everything
                act_keeps_to_its_filter_and_limit
                jobs_in_the_wrong_state_are_counted_as_skipped
                change_reorders_waiting_jobs
                change_can_bring_a_job_forward
                only_waiting_jobs_can_be_changed
            }
            audit_act {
                a_record_of_one_job_has_its_states
                a_dead_letter_has_its_own_act
                a_cancel_of_a_running_job_is_recorded_once
                a_record_of_run_now_has_both_times
                a_replay_that_meets_a_duplicate_is_recorded_as_superseded
                a_bulk_record_has_the_filter_and_the_counts
                many_named_dead_letters_have_one_record
                the_records_of_a_large_act_add_up
                a_record_of_a_change_has_the_differences
                no_record_without_a_change_or_an_actor
            }
            audit_put {
                records_of_a_schedule_have_the_differences
                records_of_a_workflow_have_its_states
                a_record_of_a_type_has_the_differences
                a_kind_registered_by_an_operator_is_recorded
                a_change_without_effect_is_not_recorded
                recorded_bounds_are_those_in_force
                a_clean_up_is_recorded_once
                a_callers_record_belongs_to_its_transaction
                the_audit_is_filtered_by_actor_act_subject_and_time
            }
            backup {
                a_restore_has_every_row_of_the_export
                leased_jobs_are_exported_as_waiting
                two_leased_duplicates_are_restored_as_one_waiting_job
                an_offered_slot_is_offered_again_after_restore
                an_export_is_a_snapshot
                only_an_empty_database_can_be_restored_into
                an_unfinished_import_leaves_nothing
                new_ids_are_above_restored_ones
                restored_entities_appear_in_the_feed
                backups_are_recorded
                tables_of_packs_are_exported
                new_ids_in_pack_tables_are_above_restored_ones
                an_unknown_pack_is_refused
                a_pack_with_undeclared_columns_is_refused
                a_pack_of_another_version_is_refused
            }
            budget {
                specs_are_stored_and_read
                a_new_limit_applies_to_this_month
                a_live_limit_survives_a_sync
                booked_money_keeps_its_currency
                several_processes_sync_at_once
                history_is_newest_first_and_bounded
                an_unknown_budget_is_none
                the_state_follows_usage
            }
            budget_alert {
                each_alert_fires_once_a_month
                racing_calls_fire_once
                a_charge_above_its_estimate_fires
                a_changed_limit_fires_and_rearms
                a_sweep_does_not_lose_an_alert
                alerts_of_other_processes_can_be_read
            }
            budget_call {
                reserved_then_settled
                ledger_and_sums_agree_to_the_millionth
                a_stale_lease_reserves_nothing
                refused_by_state_and_by_size
                a_refusal_names_the_next_month_when_all_is_settled
                a_token_limit_refuses_calls
                racing_reservations_never_exceed_the_limit
                a_call_may_cost_more_than_was_reserved
                settling_twice_is_reported
                leaked_reservations_are_booked_in_full
                a_late_charge_before_the_sweep_is_booked
                sweeping_races_settling
                a_reservation_belongs_to_the_month_it_was_made_in
                a_tag_marks_a_call_as_manual
                costs_by_kind_user_and_provider
            }
            budget_change {
                a_raised_limit_counts_at_once
                a_lowered_limit_stops_at_once
                a_token_limit_can_be_set_live
                a_live_limit_can_be_removed
                a_reset_clears_the_month
                budget_changes_are_audited
                a_past_month_cannot_be_changed
                a_future_month_can_be_changed
            }
            cancel {
                waiting_jobs_end_at_once
                a_running_job_is_asked_to_stop
                an_obeyed_cancel_ends_cancelled
                a_returned_job_ends_cancelled
                a_job_that_ends_before_seeing_the_cancel_stays_done
                a_lost_job_ends_cancelled
                a_job_of_a_retired_worker_ends_cancelled
                a_finished_job_is_skipped
                a_replayed_job_is_not_cancelled
                cancel_races_claim
            }
            claim {
                priority_then_time_then_id
                the_lease_carries_the_job
                never_more_than_asked
                eight_claimers_get_every_job_once
                only_handled_kinds
                unhandled_kinds_do_not_hide_handled_ones
                a_paused_queue_gives_nothing
                only_the_requested_queue_is_claimed
                an_unknown_worker_leases_nothing
                the_attempt_is_counted_at_claim
                tokens_increase
            }
            clock {
                the_offset_moves_one_handle
                expired_follows_the_clock
                a_beat_extends_the_lease_from_its_own_time
                an_hour_ahead_takes_no_lease
                an_hour_back_takes_no_lease
                a_new_heartbeat_prevents_reclaim_whatever_the_clock
                due_times_follow_the_clock
                jobs_enqueued_across_a_clock_jump_all_run
            }
            enqueue {
                one_job_is_stored_whole
                none_is_no_error
                many_in_order_with_growing_ids
                delayed_is_not_early
                a_fixed_time_is_kept
                a_past_time_is_now
                one_refused_job_refuses_the_batch
                two_handles_never_share_an_id
            }
            entity {
                types_are_stored_and_replaced
                adding_a_type_does_not_overwrite_it
                versions_only_grow_across_a_tombstone
                an_expected_version_must_match
                expected_absent_accepts_a_tombstone
                a_patch_sets_and_removes
                a_refused_write_does_not_affect_the_others
                listed_by_the_bytes_of_the_id
                entities_are_found_by_number
                pending_is_counted_to_the_cap
            }
            entity_box {
                a_new_text_gets_a_box
                the_same_text_keeps_its_vector
                a_newer_write_replaces_the_waiting_box
                a_newer_write_gets_fresh_attempts
                the_more_urgent_strategy_wins
                a_returned_box_is_superseded_by_a_newer_one
                a_sync_write_is_indexed_at_once
                a_delete_ends_the_waiting_box
                the_next_write_replaces_a_cancelled_box
            }
            entity_outcome {
                a_cancelled_box_fails_its_entity_until_a_replay
                a_cancelled_run_fails_its_entity
                a_box_settled_outside_the_index_fails_its_entity
                a_box_that_kills_its_worker_fails_its_entity
                an_older_box_does_not_change_the_entity
                a_deleted_box_leaves_its_entity_failed
                a_job_that_is_no_box_does_not_change_the_entity
                many_boxes_end_in_one_call
                ends_race_writes
            }
            entity_feed {
                a_new_reader_gets_every_entity_and_no_tombstone
                each_change_is_shown_once_in_its_current_state
                a_delete_is_shown_as_a_tombstone
                a_delete_during_the_first_read_is_shown
                a_vector_is_a_change
                a_late_commit_is_not_missed
                a_reader_misses_nothing_during_writes
                small_pages_show_everything
            }
            entity_index {
                an_embedded_box_is_indexed
                each_space_has_its_own_vector
                a_delete_while_its_box_runs_leaves_no_vector
                a_delete_removes_the_vector
                a_stale_lease_writes_nothing
                an_outdated_vector_is_not_written
                the_time_to_searchable_is_reported_once
                a_failed_box_marks_its_entity
                answers_are_in_the_order_of_the_request
            }
            entity_key {
                a_repeated_write_gets_the_first_answer
                a_repeated_write_keeps_the_generated_id
                every_kind_of_write_can_be_repeated
                another_write_with_the_key_is_refused
                jobs_and_entities_share_one_key_space
                a_refused_write_leaves_its_key_free
                a_key_twice_in_one_call
                two_racing_writes_with_one_key_write_once
                the_second_write_waits_for_a_commit
                the_second_write_proceeds_after_a_rollback
                a_replaced_answer_is_returned
                a_key_outlives_its_box_and_is_pruned_by_age
            }
            entity_race {
                two_racing_writers_are_serialised
                racing_writes_get_distinct_versions
                one_of_two_creators_wins
                indexing_waits_for_an_open_write
                indexing_races_writing
            }
            entity_write {
                the_same_entity_twice_in_one_call
                created_deleted_and_created_again_in_one_call
                a_thousand_in_one_call
                any_id_and_any_script_is_accepted
                a_rollback_leaves_no_row_and_no_box
                a_commit_shows_rows_and_boxes
                a_box_wakes_its_queue
            }
            fence {
                late_writes_after_reclaim
                late_writes_while_another_runs_it
                late_writes_after_another_finished_it
                late_writes_of_an_earlier_claim
                late_writes_after_retirement
                another_claims_token
                late_writes_to_a_deleted_job
                rescue_races_completion
            }
            global {
                never_more_than_the_limit
                other_queues_are_not_limited
                the_limit_can_be_changed_live
                a_live_limit_overrides_the_configuration
                the_poll_reports_the_limit
                every_end_of_a_lease_frees_a_slot
                a_leased_suspect_counts
                lanes_keep_their_own_limit
                eight_claimers_never_lease_more
            }
            idempotency {
                the_same_request_gets_the_same_job
                the_key_outlives_the_run
                another_payload_is_refused
                a_key_twice_in_one_call
                two_racing_calls_make_one_job
                the_second_enqueue_waits_for_a_commit
                the_second_enqueue_proceeds_after_a_rollback
            }
            lane {
                one_of_a_key_at_a_time
                at_most_key_concurrency_jobs_run
                a_live_limit_overrides_the_configuration_until_removed
                other_keys_and_jobs_without_a_key_are_not_blocked
                a_key_of_another_kind_is_another_lane
                blocked_jobs_are_ordered_by_priority_time_and_id
                keys_take_turns
                a_blocked_job_is_shown_as_waiting
                a_scheduled_job_joins_its_lane_when_due
                a_key_does_not_change_the_order_in_a_free_lane
                a_raised_limit_applies_at_once_and_a_lowered_one_as_jobs_end
                a_blocked_job_holds_its_unique_key
                a_paused_queue_promotes_no_job
                a_claim_promotes_only_lanes_of_its_kinds
                keyed_jobs_in_a_callers_transaction
            }
            lane_end {
                done_frees_the_slot
                a_retry_frees_the_slot
                a_snooze_frees_the_slot
                a_failure_frees_the_slot
                a_retry_waits_behind_jobs_due_earlier
                a_hand_back_keeps_its_slot
                a_lost_job_keeps_its_slot
                a_dead_letter_frees_the_slot
                a_cancelled_job_frees_the_slot
                a_lost_and_cancelled_job_frees_the_slot
                a_replayed_job_is_blocked_again
                a_scheduled_job_with_a_key_can_be_run_now
                a_replaced_job_frees_the_slot
                a_postponed_ready_job_frees_the_slot
                a_postponed_blocked_job_is_skipped
                plain_and_keyed_jobs_settle_in_one_batch
                a_stale_settlement_frees_nothing
            }
            lane_handover {
                a_settlement_gives_the_slot_to_the_next_job
                each_slot_stays_in_its_lane
                a_job_that_is_not_due_is_not_promoted
                a_job_that_is_not_due_blocks_no_other
                a_slot_above_a_lowered_limit_is_dropped
                a_stale_settlement_hands_nothing_over
                a_cancelled_job_is_skipped
                a_superseded_job_gives_its_slot_on
                every_job_behind_a_full_lane_runs
                a_changed_priority_applies_at_once
            }
            lane_race {
                eight_claimers_never_run_two_of_a_key
                eight_claimers_never_run_more_than_three_of_a_key
                many_lanes_at_once
                claimers_racing_keep_the_order
                blocking_races_freeing
                freeing_races_freeing
                cancelling_races_promoting
                changing_races_promoting
                replacing_races_promoting
                a_sweep_races_settling
            }
            lane_unique {
                a_retry_is_superseded
                a_snooze_is_superseded
                a_hand_back_is_superseded
                a_settlement_in_a_transaction_is_superseded
                a_reclaimed_job_is_superseded
                a_job_of_a_retired_worker_is_superseded
                a_replay_is_superseded
            }
            model {
                random_operations_agree_with_the_model
            }
            moves {
                every_legal_move_can_be_made
                final_states_are_final
            }
            order {
                late_jobs_are_claimed_by_due_time_not_priority
                late_jobs_are_settled_like_others
                late_jobs_respect_global_concurrency
                a_paused_queue_gives_no_late_jobs
                boost_after_is_set_per_queue
                boost_after_can_be_changed_live
                low_priority_is_served_in_time_under_urgent_load
                without_boost_low_priority_starves
                low_priority_is_served_in_time_inside_one_lane
                low_priority_is_served_beside_the_most_urgent
                a_delayed_job_of_the_lane_changes_nothing
                without_boost_low_priority_starves_inside_one_lane
                an_overdue_job_rises_one_priority_at_a_time
                overdue_jobs_rise_in_every_lane
            }
            pack {
                up_down_and_up_again
                several_processes_step_at_once
                older_newer_and_changed_steps_are_distinguished
                unknown_packs_are_left_alone
                the_record_of_steps_stays_while_tables_exist
                a_failed_step_leaves_nothing
                each_database_gets_its_own_text
                without_the_schema_there_are_no_packs
            }
            poll {
                an_idle_queue_is_reported
                next_due_is_the_earliest
                a_running_job_is_not_due
                other_kinds_are_not_due
                suspects_are_reported_by_level
                live_settings_are_seen
                each_set_of_kinds_has_its_own_answer
                limits_in_force_are_reported
                an_enqueue_wakes_every_handle
                an_enqueue_wakes_every_listener
            }
            prune {
                finished_jobs_and_dead_letters_are_pruned_separately
                a_dry_run_counts_and_changes_nothing
                age_counts_from_the_end
                many_are_pruned_in_one_call
                idempotency_keys_by_their_age
                rollups_by_their_minute
            }
            query {
                an_unknown_job_is_none
                attempts_in_order
                newest_first_with_a_cursor
                excerpts_with_whole_sizes
                one_list_over_all_states
                by_state
                every_filter_is_applied
                a_rare_match_is_found
                dead_letters_are_counted_by_queue
                examine_names_a_remedy
            }
            limit {
                every_limit_of_a_queue_is_told_as_it_is_in_force
                every_limit_of_a_kind_is_told_as_it_is_in_force
                changes_at_once_lose_nothing
            }
            rate {
                without_a_rate_every_token_is_granted
                tokens_are_granted_at_the_rate
                no_more_than_wanted
                unspent_tokens_come_back
                a_token_is_granted_once
                kinds_have_their_own_tokens
                a_raised_rate_is_in_force_at_once
                a_live_rate_survives_a_sync
            }
            registry {
                specs_are_stored_and_read
                sync_is_idempotent
                two_processes_sync_at_once
                changed_specs_are_stored
                live_settings_survive_a_sync
                an_operator_can_remove_configured_bounds
                every_live_value_can_be_removed
                a_kind_cannot_change_its_queue
                unknown_ids
                depth_counts_waiting_jobs_up_to_the_cap
                figures_equal_the_counted_rows
                the_backlog_counts_due_jobs
                the_backlog_counts_jobs_with_an_offered_slot
            }
            report {
                the_last_progress_is_shown
                log_lines_in_order
                lost_leases_report_nothing
                rollups_are_stored_and_read
                rollups_of_one_minute_add_up
            }
            resource {
                kinds_share_the_permits_of_a_resource
                a_queues_resource_applies_to_its_kinds
                live_permits_survive_a_sync
                permits_in_use_equal_the_leases
                a_dead_worker_reports_nothing
            }
            unique_return {
                a_retry_is_superseded
                a_snooze_is_superseded
                a_hand_back_is_superseded
                a_settlement_in_a_transaction_is_superseded
                a_reclaimed_job_is_superseded
                a_job_of_a_retired_worker_is_superseded
                a_replay_is_superseded
                three_duplicates_settled_in_one_batch
                three_duplicates_reclaimed_together
                three_duplicates_retired_together
                three_duplicates_replayed_together
            }
            schedule {
                a_new_schedule_starts_now
                every_field_is_stored_and_read
                putting_the_same_schedule_writes_nothing
                a_changed_schedule_keeps_its_last_tick
                listed_by_the_bytes_of_the_name
                deleting_a_schedule_keeps_its_jobs
                a_paused_schedule_is_not_due_until_resumed
                unknown_names
                processes_put_the_same_schedule_at_once
            }
            schedule_tick {
                due_schedules_are_ordered_and_limited
                a_tick_advances_the_schedule_and_enqueues
                a_stale_tick_enqueues_nothing_and_blocks_no_other
                processes_tick_the_same_schedules_at_once
                a_refused_job_rolls_back_its_tick
                a_unique_key_keeps_the_waiting_job
                many_schedules_in_one_call
                a_schedule_without_a_next_tick_is_never_due
                the_poll_reports_the_next_tick
                ticks_and_changes_wake_every_handle
            }
            schema {
                migrating_twice_changes_nothing
                down_and_up_again
                several_processes_migrate_at_once
                a_closed_handle_fails
            }
            settle {
                none_is_no_error
                done_keeps_its_result
                retry_waits_and_keeps_its_attempt
                retry_after_is_honoured
                a_snooze_costs_no_attempt
                a_hand_back_costs_no_attempt_and_keeps_its_time
                fail_is_final
                attempts_run_out
                one_claim_is_settled_in_parts_and_any_order
                answers_are_in_the_order_of_the_request
                a_second_settlement_is_stale
                a_mixed_batch_settles_the_others
                a_large_batch
            }
            sql {
                every_value_is_stored_and_read
                a_null_fits_every_column
                rows_changed_are_counted
                returning_answers
                on_conflict_decides
                literals_are_left_alone
                errors_name_wrong_columns_and_types
                wrong_statements_are_refused
                a_unique_violation_is_reported_as_such
                reads_cannot_write
                reads_see_what_is_committed
                rows_and_jobs_are_one_commit
                a_rollback_leaves_nothing
                statements_in_a_callers_transaction
            }
            suspect {
                the_first_death_costs_neither_time_nor_an_attempt
                the_second_death_delays_and_keeps_it_from_ordinary_claims
                a_trial_is_one_job
                a_claim_of_suspects_keeps_to_its_kinds
                three_deaths_alone_end_as_dead_letter
                a_death_beside_other_jobs_proves_nothing_on_trial
                an_explained_death_is_not_blamed_on_the_jobs
                a_settle_clears_the_suspicion
                a_suspect_handed_back_keeps_its_level
                a_suspect_keeps_its_due_time
                a_job_that_runs_at_most_once_is_not_run_again
                a_stop_is_announced
                reclaim_refuses_a_worker_that_beats
                reclaim_races_heartbeat
                two_sweepers_reclaim_a_worker_once
            }
            transaction {
                commit_shows_the_jobs
                rollback_leaves_nothing
                dropping_rolls_back
                a_refused_enqueue_in_says_why
                only_a_commit_wakes_workers
                settle_in_commits_with_the_effect
                settle_in_rolls_back_with_the_effect
                settle_in_returns_a_job
                a_foreign_connection_is_refused
            }
            unique {
                one_job_may_wait_while_another_runs
                keep_returns_the_waiting_job
                a_scheduled_job_counts_as_waiting
                reject_names_the_waiting_job
                replace_supersedes_the_waiting_job
                replace_keeps_the_earlier_time
                duplicates_in_one_call_are_handled_in_order
                a_running_job_does_not_hold_its_key
                a_finished_job_frees_its_key
                a_returned_job_holds_its_key
                two_racing_enqueues_leave_one_waiting
                racing_replacements_leave_one_waiting
                replacing_races_claiming
            }
            unique_finished {
                a_running_job_keeps_its_key
                a_key_is_free_when_its_job_ends
                a_retry_keeps_its_key
                keep_returns_the_holder_of_the_key
                replace_supersedes_only_a_waiting_holder
                duplicates_in_one_call_are_handled_in_order
                a_replay_takes_its_key_again
                a_rolled_back_enqueue_leaves_no_key
                racing_enqueues_accept_one
                both_kinds_of_unique_key_exclude_each_other
            }
            unique_window {
                a_finished_job_holds_its_key_during_the_window
                a_new_job_is_accepted_after_the_window
                no_job_waits_behind_a_running_one
                a_cancelled_job_holds_its_key_and_a_deleted_one_does_not
                replacing_a_waiting_job_keeps_its_window
                a_replacement_takes_over_both_the_key_and_the_window
                a_job_that_waits_beyond_its_window_holds_its_key
                an_enqueue_without_a_window_ignores_windows
                duplicates_in_one_call
                a_rollback_opens_no_window
                an_idempotency_key_remembers_the_duplicate
                two_racing_enqueues_make_one_job
                old_windows_are_pruned
            }
            worker {
                register_and_list
                a_heartbeat_extends_the_lease
                a_heartbeat_of_an_unknown_worker_is_refused
                a_retired_worker_hands_its_jobs_back
                a_reclaimed_worker_is_dead
                an_idle_worker_is_reclaimed_without_jobs
                unknown_leases_are_handed_back
                reclaim_takes_only_unsettled_jobs
            }
            workflow {
                a_child_waits_for_all_its_parents
                one_batch_ends_jobs_of_many_workflows
                a_retry_of_a_parent_keeps_the_child_waiting
                results_reach_the_children
                a_blocked_child_cannot_be_run_now
                a_delay_starts_at_the_release
                a_released_job_joins_its_lane
                a_workflow_in_a_callers_transaction
                listed_newest_first_and_by_state
                jobs_are_not_pruned_before_their_workflow_ends
                a_missed_end_is_repaired
                the_largest_workflows_complete
            }
            workflow_failure {
                stop_cancels_descendants
                every_end_without_success_stops
                continue_runs_the_children_with_the_failure
                one_job_may_override_stop
                compensate_undoes_in_reverse_order
                a_failed_undo_can_be_retried
                retrying_a_job_revives_its_cancelled_descendants
                a_whole_workflow_can_be_cancelled_and_retried
                a_deleted_parent_counts_as_ended
            }
            workflow_race {
                the_last_of_two_racing_parents_releases_the_child
                batches_that_share_workflows_do_not_deadlock
                ends_race_cancels_and_retries
            }
        }
    };
}

/// One test per case, in a module per topic. `$factory` is a path to an `async fn() -> Harness`.
#[macro_export]
macro_rules! conformance_suite {
    ($factory:path) => {
        $crate::conformance_cases! { conformance_tests $factory }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    (($factory:path) $($topic:ident { $($case:ident)* })*) => {
        $(mod $topic {
            #[allow(unused_imports)]
            use super::*;
            $(#[test]
            fn $case() {
                let name = concat!(stringify!($topic), "::", stringify!($case));
                $crate::conformance::run(name, $factory, $crate::conformance::$topic::$case);
            })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_names {
    (() $($topic:ident { $($case:ident)* })*) => {
        &[$((stringify!($topic), &[$(stringify!($case)),*])),*]
    };
}

/// Every topic with its cases, by name.
pub const CASES: &[(&str, &[&str])] = crate::conformance_cases! { conformance_names };

#[cfg(test)]
mod tests {
    use super::CASES;

    /// A case that is not listed would not run.
    #[test]
    fn every_written_case_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance");
        let mut written: Vec<(String, String)> = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let topic = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let cases = text.lines().filter_map(|line| {
                line.strip_prefix("pub async fn ")?.strip_suffix("(h: Harness) {").map(str::to_owned)
            });
            written.extend(cases.map(|case| (topic.clone(), case)));
        }
        let mut listed: Vec<(String, String)> = CASES
            .iter()
            .flat_map(|(topic, cases)| cases.iter().map(|case| ((*topic).to_owned(), (*case).to_owned())))
            .collect();
        written.sort();
        listed.sort();
        assert_eq!(written, listed);
    }
}
