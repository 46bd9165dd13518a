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
                a_failed_end_marks_the_entity
                answers_follow_the_question
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
            idempotency {
                the_same_request_gets_the_same_job
                the_key_outlives_the_run
                another_payload_is_refused
                twice_in_one_call
                two_racing_calls_make_one_job
                the_winner_commits
                the_winner_rolls_back
            }
            model {
                random_operations_agree_with_the_model
            }
            moves {
                every_legal_move_can_be_made
                final_states_are_final
            }
            poll {
                an_idle_queue
                next_due_is_the_earliest
                a_running_job_is_not_due
                other_kinds_are_not_due
                a_suspect_is_announced
                live_settings_are_seen
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
                examine_names_a_remedy
            }
            registry {
                specs_there_and_back
                sync_is_idempotent
                two_processes_sync_at_once
                changed_specs_are_taken
                live_settings_survive_a_sync
                a_kind_never_moves
                unknown_ids
                depth_counts_waiting_jobs_up_to_the_cap
                figures_equal_the_table
            }
            report {
                the_last_progress_is_shown
                log_lines_in_order
                lost_leases_report_nothing
                rollups_there_and_back
                rollups_of_one_minute_add_up
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
