//! The one list of cases. A store's tests, [`CASES`] and the check below are all made from it.

/// Calls `$each! { ($args…) topic { case … } … }` with every case by its topic, which is also its module.
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
                by_filter_and_no_further
                what_does_not_fit_is_counted
                change_reorders_waiting_jobs
                change_can_bring_a_job_forward
                change_fits_only_waiting_jobs
            }
            audit_act {
                one_job_s_line_says_how_it_stood
                a_dead_letter_s_line_has_its_own_word
                a_running_job_s_cancel_is_told_once
                a_hurried_job_s_line_has_its_times
                a_replay_that_meets_its_twin_is_told_as_it_ended
                an_act_on_many_tells_the_filter_and_the_counts
                dead_letters_have_one_word_and_many_names_one_line
                the_lines_of_a_large_act_add_up
                a_changed_job_s_line_has_what_differs
                what_changes_nothing_or_has_no_actor_leaves_no_line
            }
            audit_put {
                a_schedule_s_lines_have_what_differs
                a_workflow_s_lines_have_its_states
                a_type_s_line_has_what_differs
                a_kind_registered_by_hand_is_told
                a_queue_s_or_kind_s_change_that_changes_nothing_is_not_told
                bounds_are_told_as_they_are_in_force
                a_clean_up_is_told_once
                a_caller_s_line_is_of_its_transaction
                the_audit_is_asked_by_who_what_whom_and_when
            }
            backup {
                everything_there_and_back
                leased_jobs_wait_again
                two_leased_twins_come_back_as_one
                what_was_offered_is_offered_anew
                an_export_is_of_one_moment
                only_an_empty_database_is_restored_to
                what_is_not_finished_leaves_nothing
                numbers_go_on_above_everything
                restored_entities_are_changes
                copies_are_remembered
                tables_of_packs_come_along
                numbers_of_packs_go_on
                an_unknown_pack_is_refused
                what_a_pack_forgot_is_refused
                a_pack_of_another_version_is_refused
            }
            budget {
                specs_there_and_back
                a_new_limit_holds_from_this_month_on
                a_live_limit_survives_a_sync
                booked_money_keeps_its_currency
                several_processes_sync_at_once
                history_is_newest_first_and_bounded
                nothing_is_known_of_an_unknown_budget
                the_state_follows_what_is_used
            }
            budget_alert {
                each_fires_once_a_month
                racing_calls_fire_once
                a_charge_above_its_estimate_fires
                a_changed_limit_fires_and_rearms
                a_sweep_swallows_no_alert
                what_fired_elsewhere_can_be_read
            }
            budget_call {
                reserved_then_settled
                books_agree_to_the_cent
                a_lease_that_is_not_live_reserves_nothing
                refused_by_state_and_by_size
                when_everything_is_settled_the_next_month_is_next
                tokens_bound_a_budget_too
                a_race_at_the_limit_never_passes_it
                a_call_may_cost_more_than_was_reserved
                settling_twice_says_so
                leaks_are_booked_in_full
                a_charge_that_comes_before_the_sweep_is_booked
                sweeping_races_settling
                a_reservation_belongs_to_the_month_it_was_made_in
                a_tag_says_that_a_person_asked
                costs_by_kind_user_and_provider
            }
            budget_change {
                a_raised_limit_counts_at_once
                a_lowered_limit_stops_at_once
                tokens_are_limited_live_too
                a_live_limit_can_be_taken_away
                a_reset_begins_the_month_anew
                the_audit_says_who_changed_what
                a_month_that_is_over_is_closed
                a_month_ahead_can_be_prepared
            }
            cancel {
                waiting_jobs_end_at_once
                the_worker_is_asked
                an_obeyed_cancel_ends_cancelled
                a_return_ends_cancelled
                done_before_it_was_seen_stays_done
                a_lost_one_ends_cancelled
                a_retired_one_ends_cancelled
                a_finished_job_is_skipped
                a_replay_forgets_the_request
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
                another_queue_is_left_alone
                an_unknown_worker_leases_nothing
                the_attempt_is_counted_at_claim
                tokens_grow
            }
            clock {
                the_offset_moves_one_handle
                expired_follows_the_clock
                a_beat_extends_the_lease_from_its_own_time
                an_hour_ahead_takes_no_lease
                an_hour_back_takes_no_lease
                a_moved_beat_outweighs_the_clock
                due_times_follow_the_clock
                jobs_made_across_a_jump_all_run
            }
            enqueue {
                one
                none_is_no_error
                many_in_order_with_growing_ids
                delayed_is_not_early
                a_fixed_time_is_kept
                a_past_time_is_now
                a_refused_member_refuses_all
                two_handles_never_share_an_id
            }
            entity {
                types_are_kept_and_replaced
                a_type_that_is_there_is_not_added_over
                versions_only_grow_across_a_tombstone
                a_match_must_be_the_version_found
                absent_means_nothing_or_a_tombstone
                a_patch_sets_and_removes
                a_refused_one_leaves_the_others
                listed_by_the_bytes_of_the_id
                numbers_find_what_is_there
                pending_is_counted_to_the_cap
            }
            entity_box {
                a_new_text_is_boxed
                the_same_text_keeps_its_vector
                a_newer_write_takes_the_place_of_the_waiting_box
                a_newer_write_starts_its_attempts_anew
                the_more_urgent_strategy_wins
                a_box_that_comes_back_meets_the_newer_one
                a_sync_write_is_indexed_at_once
                a_delete_ends_the_waiting_box
                a_cancelled_box_is_made_again_by_the_next_write
            }
            entity_fate {
                a_cancelled_box_fails_its_entity_and_a_replay_mends_it
                a_cancelled_run_fails_its_entity
                a_box_settled_outside_the_index_fails_its_entity
                a_box_that_kills_its_worker_fails_its_entity
                an_older_box_says_nothing
                a_deleted_box_leaves_it_failed_until_the_next_write
                a_job_that_is_no_box_says_nothing
                many_at_once
                ends_race_writes
            }
            entity_feed {
                it_begins_with_every_entity_and_no_tombstone
                each_change_once_as_it_is_now
                a_delete_is_shown_as_a_tombstone
                a_delete_while_it_begins_is_shown
                a_vector_is_a_change
                a_late_commit_is_not_missed
                a_follower_among_writers_misses_nothing
                small_pages_see_everything
            }
            entity_index {
                an_embedded_box_is_indexed
                each_space_has_its_own_vector
                a_delete_while_its_box_runs
                a_delete_takes_the_vector
                a_stale_lease_writes_nothing
                an_old_content_writes_nothing
                it_says_how_long_it_took_to_be_searchable
                a_failed_end_marks_the_entity
                answers_follow_the_question
            }
            entity_key {
                the_same_write_is_answered_again
                an_id_is_made_once
                every_sort_of_write_is_answered_again
                another_write_with_the_key_is_refused
                jobs_and_entities_share_the_keys
                a_refused_write_leaves_its_key_free
                a_key_twice_in_one_call
                two_racing_writes_are_one
                the_winner_commits
                the_winner_rolls_back
                a_restated_answer_is_given_again
                a_key_outlives_its_box_and_goes_with_its_age
            }
            entity_race {
                two_writers_racing_take_turns
                racing_writes_count_each_version
                one_of_two_creators_wins
                a_write_under_way_is_waited_for
                indexing_races_writing
            }
            entity_write {
                the_same_entity_twice_in_one_call
                made_deleted_and_made_again_in_one_call
                a_thousand_in_one_call
                any_id_and_every_script
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
                other_queues_go_on
                it_is_changed_live
                configuration_sets_it_and_the_operator_wins
                the_poll_tells
                whatever_ends_a_lease_makes_room
                a_suspect_counts_like_any_other
                lanes_keep_their_own_limit
                eight_claimers_never_lease_more
            }
            idempotency {
                the_same_request_gets_the_same_job
                the_key_outlives_the_run
                another_payload_is_refused
                twice_in_one_call
                two_racing_calls_make_one_job
                the_winner_commits
                the_winner_rolls_back
            }
            lane {
                one_of_a_key_at_a_time
                as_many_as_the_kind_says
                a_live_limit_wins_until_it_is_taken_back
                other_keys_and_jobs_without_one_go_on
                a_key_of_another_kind_is_another_lane
                in_line_by_priority_then_time_then_id
                keys_take_turns
                a_lined_job_waits_like_any_other
                a_scheduled_one_comes_in_time
                a_free_lane_costs_no_place
                more_room_is_used_at_once_and_less_in_time
                a_lined_job_holds_its_unique_key
                a_paused_queue_promotes_nobody
                lanes_of_other_kinds_are_left_to_others
                in_a_callers_transaction
            }
            lane_end {
                done_lets_the_next_run
                a_retry_blocks_nobody
                a_snooze_blocks_nobody
                a_failure_lets_the_next_run
                a_retry_goes_to_the_end_of_the_line
                a_hand_back_keeps_its_slot
                a_dead_workers_lanes_stay_taken
                a_crash_too_many_lets_the_next_run
                a_cancelled_head_lets_the_next_run
                a_lost_and_cancelled_one_lets_the_next_run
                a_replayed_one_gets_in_line
                a_scheduled_one_can_be_run_now
                a_replaced_head_gives_back_its_slot
                a_head_moved_ahead_goes_back_in_line
                a_lined_one_moved_ahead_is_passed
                a_mixed_batch
                a_stale_settlement_frees_nothing
            }
            lane_hand {
                the_next_in_line_gets_the_slot
                two_lanes_in_one_batch
                a_head_ahead_of_its_time_is_not_promoted
                one_ahead_of_its_time_holds_up_nobody
                a_slot_above_a_lowered_limit_goes
                a_stale_settlement_hands_nothing_over
                a_cancelled_one_is_passed_over
                a_superseded_one_hands_over
                everybody_behind_a_full_lane_is_served
                another_priority_counts_at_once
            }
            lane_race {
                eight_claimers_never_run_two_of_a_key
                eight_claimers_never_run_more_than_three_of_a_key
                many_lanes_at_once
                claimers_racing_keep_the_order
                parking_races_freeing
                freeing_races_freeing
                cancelling_races_promoting
                moving_races_promoting
                replacing_races_promoting
                a_sweep_races_settling
            }
            lane_twin {
                a_retry_meets_its_twin
                a_snooze_meets_its_twin
                a_hand_back_meets_its_twin
                settle_in_meets_its_twin
                a_sweep_meets_its_twin
                a_goodbye_meets_its_twin
                a_replay_meets_its_twin
            }
            model {
                random_operations_agree_with_the_model
            }
            moves {
                every_legal_move_can_be_made
                final_states_are_final
            }
            order {
                the_longest_due_come_first_whatever_their_priority
                late_jobs_are_settled_like_others
                a_limited_queue_stays_limited
                a_paused_queue_gives_no_late_jobs
                each_queue_has_its_own_patience
                patience_is_changed_live
                low_priority_is_served_within_its_bound_under_full_high_load
                without_a_boost_it_would_starve
                low_priority_is_served_within_its_bound_inside_one_lane
                low_priority_is_served_beside_the_most_urgent
                a_delayed_job_of_the_lane_changes_nothing
                without_a_boost_it_would_starve_inside_one_lane
                an_overdue_job_does_not_pass_a_more_urgent_one_at_once
                overdue_jobs_of_each_lane_go_first
            }
            pack {
                up_down_and_up_again
                several_processes_step_at_once
                older_newer_and_changed_are_told_apart
                packs_of_others_are_left_alone
                the_record_stays_while_tables_do
                a_step_that_fails_leaves_nothing
                each_database_gets_its_own_text
                without_the_schema_there_are_no_packs
            }
            poll {
                an_idle_queue
                next_due_is_the_earliest
                a_running_job_is_not_due
                other_kinds_are_not_due
                a_suspect_is_announced
                live_settings_are_seen
                each_set_of_kinds_has_its_own_answer
                limits_in_force_are_told
                an_enqueue_wakes_every_handle
                an_enqueue_wakes_every_listener
            }
            prune {
                finished_and_dead_letters_apart
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
                one_list_over_all_states
                by_state
                by_everything_else
                a_rare_match_is_found
                dead_letters_are_counted_by_queue
                examine_names_a_remedy
            }
            rate {
                without_a_rate_all_that_is_wanted
                tokens_come_at_the_rate
                no_more_than_wanted
                unspent_tokens_come_back
                a_token_goes_to_one_of_many
                kinds_have_their_own_tokens
                a_raised_rate_is_in_force_at_once
                an_operator_s_rate_outlives_a_sync
            }
            registry {
                specs_there_and_back
                sync_is_idempotent
                two_processes_sync_at_once
                changed_specs_are_taken
                live_settings_survive_a_sync
                an_operator_removes_bounds_that_are_configured
                every_live_value_goes_back_to_the_configuration
                a_kind_never_moves
                unknown_ids
                depth_counts_waiting_jobs_up_to_the_cap
                figures_equal_the_table
                the_backlog_is_what_is_due
                the_backlog_counts_who_is_offered_a_slot
            }
            report {
                the_last_progress_is_shown
                log_lines_in_order
                lost_leases_report_nothing
                rollups_there_and_back
                rollups_of_one_minute_add_up
            }
            resource {
                kinds_share_what_one_of_them_states
                a_queue_s_resource_is_its_kinds_
                an_operator_s_permits_outlive_a_sync
                in_use_is_what_is_leased
                a_dead_worker_reports_nothing
            }
            returning {
                retry_meets_its_twin
                snooze_meets_its_twin
                hand_back_meets_its_twin
                settle_in_meets_its_twin
                reclaim_meets_its_twin
                retire_meets_its_twin
                replay_meets_its_twin
                triplets_settled_in_one_batch
                triplets_reclaimed_together
                triplets_retired_together
                triplets_replayed_together
            }
            schedule {
                a_new_one_starts_now
                everything_said_comes_back
                the_same_again_writes_nothing
                a_changed_one_keeps_its_last_tick
                listed_by_the_bytes_of_the_name
                a_deleted_one_is_gone_and_its_jobs_stay
                a_paused_one_is_never_due_and_late_afterwards
                unknown_names
                many_put_the_same_at_once
            }
            schedule_tick {
                due_in_order_and_no_further_than_asked
                a_tick_moves_on_and_enqueues
                one_that_lost_enqueues_nothing_and_holds_nobody_up
                many_tick_the_same_at_once
                a_refused_job_moves_nothing
                a_unique_key_keeps_the_waiting_job
                many_schedules_in_one_call
                one_that_never_ticks_again
                the_poll_tells_the_next_tick
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
                snooze_burns_no_attempt
                hand_back_burns_nothing_and_keeps_its_place
                fail_is_final
                attempts_run_out
                one_claim_in_pieces_and_any_order
                answers_follow_the_question
                twice_is_stale
                a_mixed_batch_settles_the_others
                a_large_batch
            }
            sql {
                every_value_there_and_back
                a_null_fits_every_column
                rows_changed_are_counted
                returning_answers
                on_conflict_decides
                literals_are_left_alone
                wrong_columns_and_types_are_named
                wrong_statements_are_refused
                a_taken_key_is_told_apart
                reads_cannot_write
                reads_see_what_is_committed
                rows_and_jobs_are_one_commit
                a_rollback_leaves_nothing
                statements_in_a_callers_transaction
            }
            suspect {
                normal_claims_skip_suspects
                a_suspect_is_claimed_alone
                a_suspect_claim_keeps_to_its_kinds
                a_crash_in_company_costs_nothing
                lone_crashes_end_as_dead_letter
                lone_crashes_respect_max_attempts
                a_suspect_that_settles_is_clean
                a_suspect_handed_back_stays_one
                a_suspect_keeps_its_place
                reclaim_refuses_a_beating_heart
                reclaim_races_heartbeat
                two_sweepers_take_a_worker_once
            }
            transaction {
                commit_shows_the_jobs
                rollback_leaves_nothing
                dropping_rolls_back
                a_refused_enqueue_in_says_why
                only_a_commit_wakes
                settle_in_commits_with_the_effect
                settle_in_rolls_back_with_the_effect
                settle_in_returns_a_job
                a_foreign_connection_is_refused
            }
            unique {
                while_one_runs_exactly_one_waits_behind_it
                keep_answers_with_the_waiting_one
                a_scheduled_one_counts_as_waiting
                reject_refuses_and_names_the_waiting_one
                replace_supersedes_the_waiting_one
                replace_keeps_the_earlier_time
                twins_of_one_call_meet_in_order
                a_running_job_blocks_no_twin
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
                keep_answers_with_the_holder
                replace_takes_the_place_of_a_waiting_holder_only
                twins_of_one_call_meet_in_order
                a_replay_takes_its_key_again
                a_rolled_back_enqueue_leaves_no_key
                racing_enqueues_accept_one
                both_ways_of_holding_a_key_meet
            }
            unique_window {
                a_finished_one_is_still_the_one
                after_the_window_comes_the_next
                a_running_one_has_none_behind_it
                a_cancelled_one_counts_and_a_deleted_one_does_not
                a_waiting_one_is_replaced_without_a_new_window
                a_late_one_still_holds_its_key
                who_asks_for_no_window_meets_none
                twins_of_one_call
                a_rollback_opens_no_window
                an_idempotency_key_remembers_the_duplicate
                two_racing_enqueues_make_one
                old_windows_are_pruned
            }
            worker {
                register_and_list
                heartbeat_moves_on
                an_unknown_heart_does_not_beat
                retire_hands_back
                a_reclaimed_worker_is_dead
                an_idle_worker_is_reclaimed_with_nothing
                unknown_leases_are_handed_back
                reclaim_takes_only_what_is_left
            }
            workflow {
                a_child_waits_for_all_its_parents
                one_batch_ends_many
                a_retry_of_a_parent_keeps_the_child_waiting
                results_reach_the_children
                a_waiting_job_cannot_be_hurried
                a_delay_counts_from_the_release
                a_released_job_goes_into_its_lane
                a_callers_transaction_decides
                listed_newest_first_and_by_state
                retention_waits_for_the_workflow
                an_end_that_was_not_noticed_is_mended
                the_largest_run_to_their_end
            }
            workflow_failure {
                stop_cancels_what_comes_after
                every_bad_end_stops
                continue_runs_the_children_and_tells_them
                one_job_may_go_on
                compensate_undoes_from_the_end
                an_undo_that_fails_can_be_retried
                a_retried_job_revives_what_was_cancelled_below_it
                the_whole_is_cancelled_and_retried
                a_deleted_parent_is_not_waited_for
            }
            workflow_race {
                the_last_of_two_parents_releases
                batches_that_share_workflows_do_not_lock_each_other_up
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

    /// A case that is written but not listed would run nowhere.
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
