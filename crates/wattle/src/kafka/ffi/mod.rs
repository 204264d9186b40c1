//! What rdkafka has no safe call for. The one place where `unsafe` is allowed; each use says why it is sound.
#![allow(unsafe_code)]

mod describe;

use std::ffi::{CStr, CString};
use std::ptr;
use std::time::Duration;

use rdkafka::error::{IsError as _, RDKafkaErrorCode as Code};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka_sys as sys;

pub use describe::Rights;
pub(crate) use describe::{
    Committed, Group, Member, all_committed, answers, group, group_rights, topic_ids, topic_rights,
};

use super::error::{Error, Flags};

/// A client handle. The caller keeps the client alive for as long as it uses it.
pub(crate) type Handle = *mut sys::rd_kafka_t;

/// Who we are in the consumer group at one moment: it goes with the positions into a transaction, and a broker refuses it once
/// the group has moved on.
pub(crate) struct GroupToken(*mut sys::rd_kafka_consumer_group_metadata_t);

// SAFETY: the pointee is plain data that nobody changes after its creation.
unsafe impl Send for GroupToken {}

impl GroupToken {
    /// The token now; `None` while the consumer is not a member. A broker would accept a token without a generation, and it
    /// would fence nothing.
    pub(crate) fn take(consumer: Handle) -> Option<GroupToken> {
        // SAFETY: the handle is alive; the result is ours and freed in `drop`.
        let pointer = unsafe { sys::rd_kafka_consumer_group_metadata(consumer) };
        if pointer.is_null() {
            return None;
        }
        let token = GroupToken(pointer);
        (token.generation() > 0 && !token.member_id().is_empty()).then_some(token)
    }

    pub(crate) fn generation(&self) -> i32 {
        // SAFETY: valid until `drop`.
        unsafe { sys::rd_kafka_consumer_group_metadata_generation_id(self.0) }
    }

    pub(crate) fn member_id(&self) -> String {
        // SAFETY: valid until `drop`; the string lives as long.
        unsafe { text(sys::rd_kafka_consumer_group_metadata_member_id(self.0)) }
    }
}

impl Drop for GroupToken {
    fn drop(&mut self) {
        // SAFETY: created by us, freed once.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.0) }
    }
}

/// Begins a transaction. rdkafka's own call needs the producer, which its caller may have lent out.
pub(crate) fn begin_transaction(producer: Handle) -> Result<(), Error> {
    // SAFETY: the handle is alive over the call; the error is freed by `taken`.
    unsafe { taken(sys::rd_kafka_begin_transaction(producer)) }
}

/// Adds positions to the open transaction of a producer.
pub(crate) fn send_offsets(
    producer: Handle,
    positions: &TopicPartitionList,
    token: &GroupToken,
    timeout: Duration,
) -> Result<(), Error> {
    // SAFETY: all three are alive over the call; the error is freed by `taken`.
    unsafe {
        let error = sys::rd_kafka_send_offsets_to_transaction(producer, positions.ptr(), token.0, millis(timeout));
        taken(error)
    }
}

/// Fills in the consumer's positions: for each partition of the list the offset behind what the application has taken, markers
/// included; invalid where it has taken nothing yet.
pub(crate) fn position(consumer: Handle, partitions: &TopicPartitionList) -> Result<(), Error> {
    // SAFETY: both are alive over the call.
    let code = unsafe { sys::rd_kafka_position(consumer, partitions.ptr()) };
    match code {
        sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        code => Err(Error::of(code.into())),
    }
}

/// Makes the client know a partition, so that it can be paused before it is assigned.
pub(crate) fn introduce(consumer: Handle, topic: &str, partition: i32) {
    let Ok(topic) = CString::new(topic) else { return };
    // SAFETY: the handle is alive; the reference to the queue is given back at once.
    unsafe {
        let queue = sys::rd_kafka_queue_get_partition(consumer, topic.as_ptr(), partition);
        if !queue.is_null() {
            sys::rd_kafka_queue_destroy(queue);
        }
    }
}

/// One delivery report.
pub(crate) struct Report {
    /// What was given to `send`.
    pub(crate) opaque: usize,
    pub(crate) partition: i32,
    /// Negative where it is not known.
    pub(crate) offset: i64,
    /// Key and value.
    pub(crate) bytes: usize,
    /// Why it was refused, if it was.
    pub(crate) failure: Option<Code>,
}

/// The headers of a message in their order: name and value. rdkafka's own reader panics at a name that is not UTF-8. A name ends at
/// its first zero byte, here as in librdkafka.
pub(crate) fn headers(message: &BorrowedMessage<'_>) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut headers = ptr::null_mut();
    // SAFETY: the message is alive over the call, and owns what is found in it; everything is copied before we return.
    unsafe {
        if sys::rd_kafka_message_headers(message.ptr(), &raw mut headers).is_error() {
            return found;
        }
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        while !sys::rd_kafka_header_get_all(headers, found.len(), &raw mut name, &raw mut value, &raw mut size)
            .is_error()
        {
            let bytes = (!value.is_null()).then(|| std::slice::from_raw_parts(value.cast::<u8>(), size).to_vec());
            found.push((CStr::from_ptr(name).to_bytes().to_vec(), bytes));
        }
    }
    found
}

/// A producer's event queue. rdkafka's own poll sleeps to the end of its timeout even if everything has arrived.
pub(crate) struct Events(*mut sys::rd_kafka_queue_t);

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for Events {}

impl Events {
    pub(crate) fn of(producer: Handle) -> Self {
        // SAFETY: the handle is alive; the reference is given back in `drop`.
        Events(unsafe { sys::rd_kafka_queue_get_main(producer) })
    }

    /// Waits for one event, at most for `timeout`, and hands on the delivery reports in it. Returns an error that the client
    /// reported, which is news and not the outcome of anything: the transactional calls return what matters.
    pub(crate) fn poll(&self, timeout: Duration, mut report: impl FnMut(Report)) -> Option<Error> {
        // SAFETY: the event is ours until it is destroyed below; its messages live as long, and are only read.
        unsafe {
            let event = sys::rd_kafka_queue_poll(self.0, millis(timeout));
            if event.is_null() {
                return None;
            }
            let mut error = None;
            match sys::rd_kafka_event_type(event) {
                sys::RD_KAFKA_EVENT_DR => loop {
                    let message = sys::rd_kafka_event_message_next(event);
                    if message.is_null() {
                        break;
                    }
                    let message = &*message;
                    let failure = match message.err {
                        sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => None,
                        code => Some(code.into()),
                    };
                    report(Report {
                        opaque: message._private as usize,
                        partition: message.partition,
                        offset: message.offset,
                        bytes: message.len + message.key_len,
                        failure,
                    });
                },
                sys::RD_KAFKA_EVENT_ERROR => {
                    let code: Code = sys::rd_kafka_event_error(event).into();
                    error = Some(Error::new(code, text(sys::rd_kafka_event_error_string(event)), Flags::default()));
                }
                _ => {}
            }
            sys::rd_kafka_event_destroy(event);
            error
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: the reference from `of`, given back once.
        unsafe { sys::rd_kafka_queue_destroy(self.0) }
    }
}

/// Turns an error object into a value and frees it. Null is success.
unsafe fn taken(error: *mut sys::rd_kafka_error_t) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, ours, and not used after its destruction.
    unsafe {
        let flags = Flags {
            abortable: sys::rd_kafka_error_txn_requires_abort(error) != 0,
            retriable: sys::rd_kafka_error_is_retriable(error) != 0,
        };
        let code: Code = sys::rd_kafka_error_code(error).into();
        let result = Error::new(code, text(sys::rd_kafka_error_string(error)), flags);
        sys::rd_kafka_error_destroy(error);
        Err(result)
    }
}

/// Copies a C string; null becomes empty.
unsafe fn text(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: not null, ends with a zero, and lives over this call.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

fn millis(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}
