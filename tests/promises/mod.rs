//! What Wattle promises: one module a promise. A test's name is the promise's sentence.

use crate::promise::promises;

promises! {
    oracle:
        the_ledger_sees_missing_doubled_and_overtaken_records,
        open_and_aborted_transactions_are_seen,
        the_proxy_holds_what_it_is_told_to_hold,
        every_case_of_the_field_names_tests_that_are_there (embedded only: "nothing is run"),
        every_test_of_the_predecessor_names_promises_that_are_there (embedded only: "nothing is run");
    atomic (each scope):
        a_reader_never_sees_part_of_a_batch,
        an_aborted_batch_is_never_visible,
        outputs_and_positions_are_written_by_one_transaction (kafka only: "reads the log's files with Kafka's tool");
    zombie (each scope, each protocol):
        a_stopped_process_writes_nothing_when_it_goes_on,
        a_transaction_that_the_broker_timed_out_is_processed_again,
        a_quiet_time_longer_than_a_transaction_expires_none (plain only: "nothing is open, in any mode");
    handover (each scope, each protocol):
        a_late_commit_before_the_fence_is_not_repeated,
        a_late_commit_during_the_takeover_is_neither_lost_nor_doubled,
        a_late_commit_after_the_takeover_is_refused,
        late_positions_are_refused,
        late_outputs_are_refused,
        a_commit_that_is_late_never_ends_the_next_transaction,
        a_commit_that_was_sent_twice_never_ends_the_next_transaction;
    start (each scope, each protocol):
        a_new_group_that_crashes_before_its_first_batch_loses_nothing_after_its_first_start,
        a_position_before_the_first_record_is_loud,
        a_topic_whose_first_records_are_gone_starts_every_time,
        a_topic_that_is_made_again_under_a_running_process_is_loud,
        records_of_a_topic_that_was_made_again_are_not_skipped,
        a_missing_topic_is_named_and_not_created (plain only: "refused before it joins the group"),
        unequal_partition_counts_are_listed (plain only: "refused before it joins the group"),
        a_transaction_timeout_above_the_brokers_maximum_is_refused,
        a_broker_that_is_down_at_the_start_is_named_within_ten_seconds (plain only: "refused before it joins the group"),
        two_streams_with_one_transactional_id_are_refused (plain only: "refused before it joins the group"),
        a_limit_of_open_files_that_is_too_low_is_raised_or_refused_with_the_number (plain only: "it chooses the scopes"),
        every_mistake_of_a_file_is_reported_at_once (plain only: "refused before it joins the group");
    pending (each scope, each protocol):
        one_partition_held_by_a_foreign_transaction_stalls_that_task_only,
        many_partitions_held_by_a_foreign_transaction_stall_no_other_task (worker only: "a task's lane waits for itself alone");
    order (each scope):
        outputs_keep_the_order_of_their_input_partition,
        an_interrupted_batch_runs_again_before_newer_records (kafka only: "asks Kafka's tool for epochs"),
        two_applications_with_one_transactional_id_do_not_fight_for_ever,
        transactions_of_one_record_follow_each_other_quickly;
    kill (each scope, each protocol):
        any_number_of_kills_neither_loses_nor_doubles_a_record,
        several_kills_of_one_of_two_processes_in_a_transaction_are_exact,
        kills_of_a_worker_with_several_producers_are_exact (worker only: "each task has a producer anyway", classic only: "the promise restarts static members");
    rebalance (each scope, each protocol):
        a_second_process_joins_and_leaves_under_load (classic only: "the module protocol has its own"),
        a_static_member_that_restarts_keeps_its_partitions (classic only: "the broker keeps its place until its session ends"),
        a_static_member_that_is_there_twice_is_loud (classic only: "the broker keeps its place until its session ends"),
        a_partition_that_is_added_is_read_from_its_beginning,
        a_process_that_stops_hands_over_at_once,
        processes_that_stop_at_the_same_time_all_stop,
        a_clean_stop_and_a_start_emit_nothing,
        a_clean_stop_repeats_nothing_at_least_once (task only: "at least once has no transaction"),
        a_clean_stop_does_not_wait_for_a_buffer_to_fill (plain only: "nobody else is there"),
        positions_never_go_back_at_least_once (task only: "at least once has no transaction");
    orphan (each scope, each protocol):
        a_dead_workers_transaction_is_ended_by_its_successor (worker only: "a task's is fenced"),
        a_living_workers_transaction_is_waited_for (worker only: "a task's is fenced"),
        a_worker_that_was_expelled_and_came_back_is_not_ended (worker only: "a task's id is fenced by who has it"),
        a_group_that_another_product_shares_is_refused_in_scope_worker (worker only: "a task rests on its fence");
    scope (each scope):
        a_dead_task_is_taken_over_in_scope_worker (worker only: "the scope of the new owner"),
        a_dead_worker_is_taken_over_in_scope_task (task only: "the scope of the new owner"),
        a_stale_token_is_refused_and_the_records_are_processed_again (worker only: "a task's fence would refuse it"),
        one_failing_record_commits_nothing_of_its_workers_batch (worker only: "the batch of a task is its own"),
        transactional_ids_are_those_of_partitions_or_of_workers (kafka only: "asks Kafka's tool for transactional ids");
    protocol (each scope, each protocol):
        tasks_that_stay_go_on_while_others_move (consumer only: "the classic protocol takes all tasks away"),
        partitions_that_are_added_join_the_others (consumer only: "the classic protocol takes all tasks away"),
        a_static_member_keeps_its_place_until_its_session_ends (consumer only: "in the classic protocol a restart takes it"),
        nothing_is_missed_at_least_once_when_the_broker_divides (consumer only: "only the protocol differs", task only: "at least once has no transaction"),
        a_session_timeout_that_the_broker_decides_is_refused_with_the_remedy (consumer only: "a key of the other protocol", task only: "nothing is run"),
        a_broker_that_does_not_divide_is_named_at_the_start (embedded only: "it has the classic protocol", plain only: "the promise chooses it");
    outage (each scope):
        a_broker_that_is_killed_under_load_loses_and_doubles_nothing,
        at_least_once_misses_nothing_when_the_broker_is_killed (task only: "at least once has no transaction"),
        a_start_beside_a_starting_broker_repeats_nothing,
        a_broker_that_was_frozen_is_worked_with_again (kafka only: "freezes the process that the broker is");
    refused (each scope):
        a_refused_output_commits_nothing_and_names_the_record,
        a_refused_output_is_never_passed_at_least_once (task only: "at least once has no transaction"),
        a_record_that_cannot_be_processed_stops_its_stream_and_is_named,
        a_record_that_cannot_be_processed_moves_to_the_error_topic,
        a_record_that_is_too_large_for_its_topic_moves_to_the_error_topic,
        many_records_that_are_too_large_move_aside_one_after_another_over_a_kill,
        records_that_are_too_large_hardly_repeat_others_at_least_once (task only: "at least once has no transaction"),
        small_records_that_are_too_large_together_are_written (plain only: "the promise chooses the scopes"),
        a_stream_that_fails_ends_the_process;
    gather (each scope):
        groups_of_records_do_not_depend_on_how_batches_were_cut_over_kills,
        a_group_that_is_not_full_is_written_when_its_time_is_over,
        a_stop_commits_nothing_that_is_held (task only: "the scope has no part in it"),
        groups_of_lines_do_not_depend_on_how_batches_were_cut_over_kills (plain only: "a file has no scope"),
        an_array_that_only_the_broker_can_refuse_moves_to_the_error_topic (plain only: "the promise chooses the scopes"),
        groups_with_records_that_only_the_broker_can_refuse_go_on (plain only: "the scope has no part in it");
    routing (each scope):
        a_record_and_its_ways_are_one_transaction_over_kills,
        a_topic_that_is_not_listed_is_refused_with_the_record;
    post:
        kills_of_a_process_that_posts_lose_nothing_and_its_repetitions_have_the_same_key,
        a_receiver_that_is_away_is_waited_for_and_readiness_says_so,
        a_record_that_a_receiver_refuses_moves_aside_or_stops_its_stream,
        a_request_that_outlasts_the_poll_interval_costs_no_partition;
    access:
        a_right_that_is_missing_is_named_and_the_process_ends (kafka only: "the embedded broker has no rights to take away");
    limits:
        a_backlog_is_not_fetched_into_memory (embedded only: "it fetches alike"),
        records_with_very_many_outputs_are_written_in_bounded_memory (embedded only: "it writes alike");
    health:
        a_process_whose_broker_is_away_is_alive_and_not_ready (embedded only: "the outages are tested on both"),
        an_idle_process_whose_broker_is_away_is_not_ready (embedded only: "the outages are tested on both"),
        no_secret_is_in_an_answer_or_in_the_log (embedded only: "the texts are ours and the client's");
    source (each scope):
        only_committed_input_is_processed_and_in_order,
        a_topic_that_ends_in_markers_drains_to_lag_zero,
        a_compacted_topic_is_read_over_its_holes,
        input_that_is_all_filtered_out_still_commits;
    content (each scope):
        a_copy_is_the_same_byte_for_byte,
        numbers_keep_their_value,
        keys_land_where_java_producers_put_them,
        tail_prints_what_a_reader_of_committed_records_sees (plain only: "no pipeline");
    times:
        whatever_a_timestamp_is_the_record_is_processed;
    clusters:
        kills_between_two_clusters_neither_lose_nor_double_a_record,
        a_cursor_on_the_cluster_of_the_outputs_wins_over_the_groups_positions,
        a_stopped_process_between_two_clusters_writes_nothing_when_it_goes_on,
        two_addresses_of_one_cluster_are_one_cluster;
    cursor:
        a_file_whose_reader_is_killed_is_written_once,
        a_file_that_grew_is_read_on_and_one_that_changed_is_refused,
        a_last_line_without_end_is_neither_doubled_nor_cut,
        a_stopped_reader_of_a_file_writes_nothing_when_it_goes_on,
        two_readers_of_a_file_write_it_once,
        a_reader_of_a_file_that_was_fenced_once_goes_on,
        a_broker_that_is_killed_under_a_reader_of_a_file_loses_and_doubles_nothing,
        filtered_and_failed_lines_move_the_cursor,
        a_line_that_is_too_large_for_its_topic_moves_to_the_error_topic,
        a_start_waits_for_an_open_transaction_in_the_changelog,
        a_changelog_that_would_lose_the_cursor_is_refused,
        generated_records_go_on_behind_the_last_one,
        messages_of_the_file_go_on_behind_the_last_one (embedded only: "the source is what differs");
    tail:
        a_file_that_is_rotated_while_its_reader_is_killed_is_written_once,
        a_rotation_that_cannot_be_followed_is_refused (embedded only: "the file decides"),
        rows_of_csv_are_written_once_over_a_kill_and_wrong_ones_move_aside;
    segments:
        kills_of_a_process_that_writes_files_lose_nothing_and_show_no_part_of_a_file;
    sqlite:
        rows_in_sqlite_are_written_once_over_kills,
        a_stopped_process_writes_no_rows_to_sqlite_when_it_goes_on (kafka only: "the database decides"),
        a_file_is_written_to_sqlite_once_over_kills (embedded only: "no broker has a part in it"),
        rows_that_sqlite_refuses_go_to_the_error_topic_or_stop_the_stream (embedded only: "the database decides"),
        every_refused_record_of_one_request_is_a_dead_letter (embedded only: "the database decides"),
        a_locked_database_is_waited_for_and_given_up_on (embedded only: "the database decides");
    postgres:
        rows_in_postgres_are_written_once_over_kills (kafka only: "the database decides"),
        a_stopped_process_writes_no_rows_to_postgres_when_it_goes_on (kafka only: "the database decides"),
        a_database_that_is_restarted_loses_and_doubles_nothing (kafka only: "the database decides"),
        rows_that_postgres_refuses_go_to_the_error_topic_or_stop_the_stream (embedded only: "the database decides"),
        a_check_asks_a_database_what_may_be_written_and_writes_nothing (embedded only: "no broker has a part in it"),
        values_keep_what_they_are_and_an_upsert_keeps_the_last (embedded only: "no broker has a part in it");
    pushed:
        requests_that_were_answered_are_written_once_over_kills,
        requests_without_a_log_are_answered_when_the_output_has_them,
        a_log_that_is_full_refuses_requests_until_the_output_is_back,
        a_full_disk_refuses_requests_until_there_is_room (embedded only: "the disk is the log's"),
        a_log_belongs_to_one_process (embedded only: "nothing is written"),
        a_log_that_was_cut_short_goes_on_and_one_that_is_damaged_is_refused (embedded only: "the file is the log's"),
        stdin_goes_on_behind_what_its_log_has (embedded only: "the input is what differs"),
        durability_of_an_input_that_can_be_read_again_writes_no_log (embedded only: "nothing is written");
    mqtt:
        messages_that_were_acknowledged_are_written_over_kills,
        messages_without_a_log_are_acknowledged_when_the_output_has_them (embedded only: "what differs is the other broker"),
        a_broker_that_is_away_is_waited_for_and_repeats_nothing_of_qos_2 (embedded only: "what differs is the other broker"),
        a_session_that_the_broker_forgets_loses_nothing (embedded only: "what differs is the other broker"),
        a_log_that_is_full_holds_messages_back (embedded only: "the log is what is full"),
        a_broker_that_refuses_ends_the_stream_and_so_does_another_client_with_its_id (embedded only: "nothing is written");
    backlog:
        a_source_that_is_faster_than_its_output_is_held_back_in_bounded_memory (embedded only: "no broker has a part in it"),
        records_accepted_after_a_kill_are_not_taken_for_done (embedded only: "the log decides");
    hooks (each scope):
        a_refused_commit_is_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        a_commit_that_is_done_and_answered_with_an_error_is_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        a_commit_that_is_lost_or_late_is_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        a_commit_without_an_answer_until_the_transactions_timeout_is_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        refused_positions_are_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        positions_that_are_taken_and_answered_with_an_error_are_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        a_transaction_that_does_not_get_its_partitions_or_its_group_is_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        outputs_that_are_refused_in_part_are_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        outputs_without_an_answer_are_neither_lost_nor_doubled (embedded only: "it takes a hook"),
        a_start_with_coordinators_that_are_not_ready_loses_and_doubles_nothing (embedded only: "it takes a hook"),
        a_task_starts_with_its_fence_then_its_positions_then_its_state_then_its_records (embedded only: "it takes a hook"),
        two_rebalances_during_a_start_lose_and_double_nothing (embedded only: "it takes a hook"),
        a_member_that_hears_bad_news_loses_and_doubles_nothing (embedded only: "it takes a hook"),
        a_fetch_that_is_held_stops_no_other_member (embedded only: "it takes a hook"),
        records_of_a_transaction_that_expires_are_not_processed (embedded only: "it takes a hook"),
        a_member_whose_session_ends_in_a_commit_writes_nothing_more (embedded only: "it takes a hook"),
        a_transaction_that_expires_before_its_commit_is_processed_again (embedded only: "it takes a hook"),
        a_cursor_whose_commit_is_lost_late_or_fenced_is_neither_lost_nor_doubled (embedded only: "it takes a hook", plain only: "a source has no group");
    embedded:
        the_first_run_needs_no_broker_and_no_topic (embedded only: "the command starts it"),
        a_run_that_is_killed_with_its_broker_goes_on_at_once (embedded only: "the command starts it"),
        a_second_process_joins_the_broker_which_stays_until_it_has_ended (embedded only: "the command starts it"),
        a_signal_ends_a_process_that_stays_for_others (embedded only: "the command starts it"),
        a_process_whose_broker_has_ended_says_so_and_goes_on_with_the_next (embedded only: "the command starts it"),
        a_failed_run_that_stays_for_others_has_still_failed (embedded only: "the command starts it"),
        without_any_broker_the_embedded_one_is_mentioned (embedded only: "the command would start it"),
        the_environment_does_not_stop_the_embedded_broker (embedded only: "the command starts it");
    alone:
        a_broker_alone_serves_the_runs_of_its_folder (embedded only: "the command is the broker"),
        a_broker_that_cannot_be_is_refused_with_the_place (embedded only: "the command is the broker"),
        a_corrupt_journal_is_refused_with_the_byte (embedded only: "the command is the broker"),
        a_broker_process_that_is_killed_again_and_again_loses_and_doubles_nothing (embedded only: "the command is the broker");
    inspect:
        an_inspection_shows_where_an_application_stands_and_a_reset_lets_it_begin_anew,
        an_inspection_shows_how_far_local_state_reaches_and_a_reset_removes_it;
    takeover:
        a_stopped_flechtwerk_transformer_is_taken_over_in_place;
    ask:
        a_process_that_is_asked_answers_what_is_committed;
    night (each scope):
        counts_are_exact_whatever_becomes_of_processes_and_broker (classic only: "the example has no such option"),
        a_storm_of_faults_by_seed_is_exact (task only: "the counts are of each scope"),
        a_seed_repeats_its_plan (embedded only: "nothing is run", plain only: "nothing is run");
    state (each scope):
        counts_have_no_gap_and_no_repeat_over_kills (classic only: "the example has no such option"),
        counts_on_disk_have_no_gap_and_no_repeat_over_kills (classic only: "the example has no such option"),
        state_without_positions_is_refused (classic only: "the example has no such option"),
        a_killed_process_reads_only_the_tail_of_its_state_and_all_of_it_without_its_folder (classic only: "the example has no such option"),
        a_task_that_comes_back_reads_only_the_tail_of_its_state (classic only: "the example has no such option"),
        a_state_folder_in_use_is_refused_with_its_owner (classic only: "the example has no such option"),
        a_changelog_that_was_made_anew_is_followed (classic only: "the example has no such option"),
        an_application_with_the_id_of_another_is_refused (classic only: "the example has no such option"),
        positions_of_a_topic_that_is_read_no_more_are_named (classic only: "the example has no such option"),
        ten_thousand_deletes_are_compacted_away (classic only: "the example has no such option"),
        a_partition_that_is_added_to_the_input_of_a_stage_with_state_is_refused (classic only: "the example has no such option"),
        a_timer_fires_once_over_kills (classic only: "the example has no such option"),
        a_timer_on_disk_fires_once_over_kills (classic only: "the example has no such option"),
        keys_that_run_at_once_keep_their_counts_and_their_order_over_kills (classic only: "the example has no such option"),
        invalid_records_that_are_skipped_commit_their_positions (classic only: "the example has no such option");
    batch (each scope):
        outputs_state_and_position_of_a_batch_commit_in_one_transaction (classic only: "the example has no such option"),
        a_refused_output_or_state_commits_nothing_of_its_batch_and_is_named (classic only: "the example has no such option"),
        a_late_commit_of_a_batch_with_state_counts_once (classic only: "the example has no such option"),
        a_state_that_cannot_be_read_stops_the_records_of_its_key_alone (classic only: "the example has no such option");
    restore (each scope):
        a_restore_that_outlasts_the_session_settles_while_members_come_and_go (classic only: "the example has no such option"),
        a_restore_to_disk_that_is_interrupted_goes_on_where_it_was (plain only: "what is read is the same");
    changelog (each scope):
        a_changelog_is_restored_whatever_its_last_entries_are (plain only: "what is read is the same"),
        a_changelog_with_holes_at_its_end_is_restored (plain only: "what is read is the same"),
        a_changelog_without_records_above_zero_is_an_empty_state (plain only: "what is read is the same"),
        records_that_are_removed_during_a_restore_are_loud (classic only: "the example has no such option"),
        a_changelog_of_another_partition_count_is_refused (plain only: "refused before it joins the group");
    rolling (each scope):
        a_rolling_restart_during_batches_that_outlast_the_session_is_exact (classic only: "the example has no such option");
    examples:
        the_examples_load_and_filter_the_earthquakes;
}
