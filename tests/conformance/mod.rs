//! What Wattle needs of a broker, seen by plain librdkafka clients: a broker that keeps these promises can be worked with.

mod client;
mod worker;

use std::process::ExitCode;

use crate::promise::promises;

/// If this process is a client that a test started: runs it to its end.
pub(crate) fn worker() -> Option<ExitCode> {
    worker::run()
}

promises! {
    visible:
        aborted_records_are_hidden_from_committed_readers,
        records_behind_an_open_transaction_are_not_stable,
        markers_take_offsets_that_readers_pass;
    fence:
        a_second_producer_aborts_and_fences_the_first,
        a_fenced_producer_can_neither_write_nor_abort,
        abandoned_generations_leave_nothing_visible;
    positions:
        positions_count_when_their_transaction_commits,
        positions_of_a_stale_generation_are_refused,
        positions_of_a_member_that_left_are_refused,
        pending_positions_of_a_fenced_producer_are_dropped;
    group:
        members_share_the_partitions_eagerly,
        members_share_the_partitions_cooperatively;
    restart:
        a_killed_broker_keeps_what_it_confirmed,
        an_open_transaction_outlives_the_broker,
        an_idempotent_producer_outlives_the_broker;
    sequence:
        a_batch_that_comes_twice_is_stored_once;
    timeout:
        a_transaction_that_outlives_its_timeout_is_aborted;
    compact:
        a_compacted_topic_takes_tombstones_and_no_records_without_keys,
        a_compacted_topic_forgets_old_values;
    content:
        records_of_every_codec_come_back,
        headers_and_timestamps_come_back_from_every_partition,
        offsets_are_found_by_time,
        an_empty_transaction_ends_either_way,
        an_unknown_topic_in_a_transaction_is_an_error;
    admin:
        a_topic_is_grown_and_changed,
        records_before_an_offset_are_deleted,
        a_topic_that_is_there_is_not_created,
        a_deleted_topic_is_gone,
        groups_and_the_cluster_are_described;
    exact:
        workers_that_are_killed_process_every_record_once,
        workers_process_every_record_once_beside_a_broker_that_is_killed;
}
