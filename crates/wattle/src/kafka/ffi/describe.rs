//! Questions to the cluster: topics and groups as they are.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::ptr;
use std::time::Duration;

use rdkafka::error::{IsError as _, RDKafkaErrorCode as Code};
use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use super::{Error, Flags, Handle, millis, text};

/// The longest that librdkafka allows. When it gives up on a question whose coordinator it is still looking for, and finds it later, it
/// touches what it has freed (2.12: `rd_kafka_admin_coord_request`, then `rd_kafka_admin_coord_response_parse`).
const NEVER: Duration = Duration::from_secs(3600);

/// A consumer group as its coordinator knows it, of either group protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Neither rebalancing nor empty.
    pub(crate) stable: bool,
    pub(crate) members: Vec<Member>,
}

/// A member of a consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) client_id: String,
    pub(crate) host: String,
    /// Where it is a static member.
    pub(crate) instance_id: Option<String>,
    pub(crate) partitions: Vec<(String, i32)>,
}

/// Asks for the brokers of the cluster, which any of them answers, and about no topic.
pub(crate) fn answers(client: Handle, timeout: Duration) -> Result<(), Error> {
    let mut metadata = ptr::null();
    // SAFETY: the client is alive over the call; what it hands out is destroyed once.
    unsafe {
        let code = sys::rd_kafka_metadata(client, 0, ptr::null_mut(), &raw mut metadata, millis(timeout));
        if !metadata.is_null() {
            sys::rd_kafka_metadata_destroy(metadata);
        }
        match Code::from(code) {
            Code::NoError => Ok(()),
            code => Err(Error::of(code)),
        }
    }
}

/// The ids of topics: a topic that is deleted and made again has another one. A topic that is not there is left out.
pub(crate) fn topic_ids(
    client: Handle,
    topics: &[String],
    timeout: Duration,
) -> Result<BTreeMap<String, String>, Error> {
    // SAFETY: the client is alive; a description is read while it lives.
    unsafe {
        describe_topics(client, topics, timeout, false, |topic| {
            let error = sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(topic));
            let id = || text(sys::rd_kafka_Uuid_base64str(sys::rd_kafka_TopicDescription_topic_id(topic)));
            (!error.is_error()).then(id)
        })
    }
}

/// What a user may do with a topic or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// To read it; of a group: to be a member.
    pub read: bool,
    /// To write to it.
    pub write: bool,
}

/// What we may do with topics; those of which the broker does not tell are left out.
pub(crate) fn topic_rights(
    client: Handle,
    topics: &[String],
    timeout: Duration,
) -> Result<BTreeMap<String, Rights>, Error> {
    // SAFETY: the client is alive; a description is read while it lives.
    unsafe {
        describe_topics(client, topics, timeout, true, |topic| {
            let mut count = 0;
            let operations = sys::rd_kafka_TopicDescription_authorized_operations(topic, &raw mut count);
            rights(operations, count)
        })
    }
}

/// What we may do with a group; `None` where the broker does not tell, as of one that does not exist.
pub(crate) fn group_rights(client: Handle, name: &str, timeout: Duration) -> Result<Option<Rights>, Error> {
    // SAFETY: the client is alive; everything is read while the event lives.
    unsafe {
        describe_group(client, name, timeout, true, |event| {
            let mut count = 0;
            let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event);
            let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
            if count == 0 || !sys::rd_kafka_ConsumerGroupDescription_error(*groups).is_null() {
                return Ok(None);
            }
            let operations = sys::rd_kafka_ConsumerGroupDescription_authorized_operations(*groups, &raw mut count);
            Ok(rights(operations, count))
        })
    }
}

/// `None` where there are none: the broker has not told.
///
/// # Safety
/// `operations` is null, or `count` of them are there.
unsafe fn rights(operations: *const sys::rd_kafka_AclOperation_t, count: usize) -> Option<Rights> {
    use sys::rd_kafka_AclOperation_t::{
        RD_KAFKA_ACL_OPERATION_ALL as ALL, RD_KAFKA_ACL_OPERATION_READ as READ, RD_KAFKA_ACL_OPERATION_WRITE as WRITE,
    };
    if operations.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let operations = unsafe { std::slice::from_raw_parts(operations, count) };
    let may = |operation| operations.iter().any(|one| *one == operation || *one == ALL);
    Some(Rights { read: may(READ), write: may(WRITE) })
}

/// A consumer group. One that does not exist has no members, and so has one whose coordinator is loading it under the classic protocol.
pub(crate) fn group(client: Handle, name: &str, timeout: Duration) -> Result<Group, Error> {
    // SAFETY: the client is alive; the event is the answer.
    unsafe { describe_group(client, name, timeout, false, |event| described(event)) }
}

/// What `read` takes of each topic; one of which it takes nothing is left out.
///
/// # Safety
/// `client` is alive, and `read` reads a description no longer than it is called.
unsafe fn describe_topics<T>(
    client: Handle,
    topics: &[String],
    timeout: Duration,
    with_rights: bool,
    read: impl Fn(*const sys::rd_kafka_TopicDescription_t) -> Option<T>,
) -> Result<BTreeMap<String, T>, Error> {
    let names: Vec<CString> = topics.iter().filter_map(|topic| CString::new(topic.as_str()).ok()).collect();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: the client is alive; the collection outlives its use, and is destroyed once; everything is read while the event lives.
    unsafe {
        let collection = sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        let found = ask(
            client,
            Op::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            (timeout, timeout + Duration::from_secs(1)),
            |options, queue| {
                ask_for_rights(options, with_rights);
                sys::rd_kafka_DescribeTopics(client, collection, options, queue);
            },
            |event| {
                let mut count = 0;
                let result = sys::rd_kafka_event_DescribeTopics_result(event);
                let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
                let one = |index| {
                    let topic = *topics.add(index);
                    Some((text(sys::rd_kafka_TopicDescription_name(topic)), read(topic)?))
                };
                Ok((0..count).filter_map(one).collect())
            },
        );
        sys::rd_kafka_TopicCollection_destroy(collection);
        found
    }
}

/// # Safety
/// `client` is alive, and `read` reads the answer to a `DescribeConsumerGroups`.
unsafe fn describe_group<T>(
    client: Handle,
    name: &str,
    timeout: Duration,
    with_rights: bool,
    read: impl FnOnce(*mut sys::rd_kafka_event_t) -> Result<T, Error>,
) -> Result<T, Error> {
    let name = CString::new(name).map_err(|_| Error::text("a group's name holds a zero byte"))?;
    let mut names = [name.as_ptr()];
    // SAFETY: the client and the name are alive over the call.
    unsafe {
        ask(
            client,
            Op::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
            (NEVER, timeout),
            |options, queue| {
                ask_for_rights(options, with_rights);
                sys::rd_kafka_DescribeConsumerGroups(client, names.as_mut_ptr(), 1, options, queue);
            },
            read,
        )
    }
}

/// # Safety
/// `options` are those of a `Describe…`.
unsafe fn ask_for_rights(options: *mut sys::rd_kafka_AdminOptions_t, with_rights: bool) {
    if with_rights {
        // SAFETY: as the caller says.
        unsafe { sys::rd_kafka_AdminOptions_set_include_authorized_operations(options, 1) };
    }
}

/// A position that a group has committed, and the text that was committed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) position: i64,
    pub(crate) metadata: String,
}

/// All committed positions of a group, whatever transactions are under way.
pub(crate) fn all_committed(client: Handle, group: &str, timeout: Duration) -> Result<Vec<Committed>, Error> {
    let group = CString::new(group).map_err(|_| Error::text("a group's name holds a zero byte"))?;
    // SAFETY: the client and the name are alive over the call; the question outlives its use, and is destroyed once.
    unsafe {
        let mut question = sys::rd_kafka_ListConsumerGroupOffsets_new(group.as_ptr(), ptr::null());
        let answer = ask(
            client,
            Op::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
            (NEVER, timeout),
            |options, queue| sys::rd_kafka_ListConsumerGroupOffsets(client, &raw mut question, 1, options, queue),
            |event| committed(event),
        );
        sys::rd_kafka_ListConsumerGroupOffsets_destroy(question);
        answer
    }
}

/// Asks, and reads the answer. The client gives the question up after `give_up`; an answer that comes after `listen` is dropped.
///
/// # Safety
/// `client` is alive, `call` begins the operation `op` of it, and `read` reads the event that answers that.
unsafe fn ask<T>(
    client: Handle,
    op: Op,
    (give_up, listen): (Duration, Duration),
    call: impl FnOnce(*mut sys::rd_kafka_AdminOptions_t, *mut sys::rd_kafka_queue_t),
    read: impl FnOnce(*mut sys::rd_kafka_event_t) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: what is created here is destroyed here, in the opposite order; the answer lives as long as its event.
    unsafe {
        let queue = sys::rd_kafka_queue_new(client);
        let options = sys::rd_kafka_AdminOptions_new(client, op);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, millis(give_up), ptr::null_mut(), 0);
        call(options, queue);
        let event = sys::rd_kafka_queue_poll(queue, millis(listen));
        let answer = if event.is_null() {
            Err(Error::of(Code::OperationTimedOut))
        } else {
            match sys::rd_kafka_event_error(event).into() {
                Code::NoError => read(event),
                code => Err(Error::new(code, text(sys::rd_kafka_event_error_string(event)), Flags::default())),
            }
        };
        if !event.is_null() {
            sys::rd_kafka_event_destroy(event);
        }
        sys::rd_kafka_AdminOptions_destroy(options);
        sys::rd_kafka_queue_destroy(queue);
        answer
    }
}

/// # Safety
/// `event` is the answer to a `ListConsumerGroupOffsets` for one group.
unsafe fn committed(event: *mut sys::rd_kafka_event_t) -> Result<Vec<Committed>, Error> {
    // SAFETY: everything is read while the event lives; every pointer that may be null is looked at.
    unsafe {
        let mut count = 0;
        let result = sys::rd_kafka_event_ListConsumerGroupOffsets_result(event);
        let groups = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(result, &raw mut count);
        if count == 0 {
            return Err(Error::of(Code::OperationTimedOut));
        }
        let error = sys::rd_kafka_group_result_error(*groups);
        if !error.is_null() {
            let code = sys::rd_kafka_error_code(error).into();
            return Err(Error::new(code, text(sys::rd_kafka_error_string(error)), Flags::default()));
        }
        let list = sys::rd_kafka_group_result_partitions(*groups);
        let count = if list.is_null() { 0 } else { usize::try_from((*list).cnt).unwrap_or_default() };
        let elements = (0..count).map(|index| &*(*list).elems.add(index)).filter(|element| element.offset >= 0);
        Ok(elements
            .map(|element| Committed {
                topic: text(element.topic),
                partition: element.partition,
                position: element.offset,
                metadata: match element.metadata.is_null() {
                    true => String::new(),
                    false => {
                        let bytes = std::slice::from_raw_parts(element.metadata.cast::<u8>(), element.metadata_size);
                        String::from_utf8_lossy(bytes).into_owned()
                    }
                },
            })
            .collect())
    }
}

/// # Safety
/// `event` is the answer to a `DescribeConsumerGroups` for one group.
unsafe fn described(event: *mut sys::rd_kafka_event_t) -> Result<Group, Error> {
    // SAFETY: everything is read while the event lives; every pointer that may be null is looked at.
    unsafe {
        let mut count = 0;
        let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event);
        let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
        if count == 0 {
            return Err(Error::of(Code::OperationTimedOut));
        }
        let group = *groups;
        let error = sys::rd_kafka_ConsumerGroupDescription_error(group);
        if !error.is_null() {
            return match sys::rd_kafka_error_code(error).into() {
                Code::GroupIdNotFound => Ok(Group { stable: false, members: Vec::new() }),
                code => Err(Error::new(code, text(sys::rd_kafka_error_string(error)), Flags::default())),
            };
        }
        let state = sys::rd_kafka_ConsumerGroupDescription_state(group);
        let members = 0..sys::rd_kafka_ConsumerGroupDescription_member_count(group);
        Ok(Group {
            stable: state == sys::rd_kafka_consumer_group_state_t::RD_KAFKA_CONSUMER_GROUP_STATE_STABLE,
            members: members.map(|index| member(sys::rd_kafka_ConsumerGroupDescription_member(group, index))).collect(),
        })
    }
}

/// # Safety
/// `member` is alive.
unsafe fn member(member: *const sys::rd_kafka_MemberDescription_t) -> Member {
    // SAFETY: all of it is owned by the member.
    unsafe {
        let instance_id = text(sys::rd_kafka_MemberDescription_group_instance_id(member));
        let mut partitions = Vec::new();
        let assignment = sys::rd_kafka_MemberDescription_assignment(member);
        let list =
            if assignment.is_null() { ptr::null() } else { sys::rd_kafka_MemberAssignment_partitions(assignment) };
        if !list.is_null() {
            for index in 0..usize::try_from((*list).cnt).unwrap_or_default() {
                let element = &*(*list).elems.add(index);
                partitions.push((text(element.topic), element.partition));
            }
        }
        Member {
            id: text(sys::rd_kafka_MemberDescription_consumer_id(member)),
            client_id: text(sys::rd_kafka_MemberDescription_client_id(member)),
            host: text(sys::rd_kafka_MemberDescription_host(member)),
            instance_id: (!instance_id.is_empty()).then_some(instance_id),
            partitions,
        }
    }
}
