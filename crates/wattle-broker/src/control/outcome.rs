//! What the hooks of one request do to it, before and after it is handled.

use kafka_protocol::messages::produce_request::TopicProduceData;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{RequestKind, ResponseKind};

use crate::api;
use crate::control::{Action, Controls};
use crate::core::Core;
use crate::types::Code;

/// Whether the request is handled.
pub(crate) enum Before {
    Handle,
    Answer(Box<ResponseKind>),
    Close,
}

/// What the client gets.
pub(crate) enum After {
    Answer(Box<ResponseKind>),
    Close,
}

/// The hooks that were chosen for a request.
pub(crate) struct Control<'a> {
    controls: &'a Controls,
    chosen: Vec<(u64, Action)>,
}

/// Whether the action means something for this request.
pub(super) fn can_apply(action: &Action, request: &RequestKind) -> bool {
    let Action::RefusePartition { topic, partition, .. } = action else { return true };
    let RequestKind::Produce(produce) = request else { return false };
    produce
        .topic_data
        .iter()
        .any(|data| data.name.as_str() == topic && data.partition_data.iter().any(|data| data.index == *partition))
}

impl<'a> Control<'a> {
    pub(super) fn new(controls: &'a Controls, chosen: Vec<(u64, Action)>) -> Self {
        Self { controls, chosen }
    }

    /// The request is needed again after it was handled.
    pub(crate) fn needs_request(&self) -> bool {
        self.chosen.iter().any(|(_, action)| matches!(action, Action::RefuseAfterwards(_)))
    }

    /// In the order of the hooks; ends with the first that decides.
    pub(crate) fn before(&self, core: &Core, request: &mut RequestKind, version: i16) -> Before {
        for (number, action) in &self.chosen {
            let fire = || self.controls.fire(*number);
            match action {
                Action::Observe => fire(),
                Action::Delay(time) => {
                    fire();
                    self.controls.delay(core, *time);
                }
                Action::Hold => {
                    fire();
                    self.controls.hold(core, *number);
                }
                Action::DropRequest => {
                    fire();
                    return Before::Close;
                }
                Action::Refuse(code) => {
                    fire();
                    return Before::Answer(Box::new(api::refused(request, version, *code)));
                }
                Action::RefusePartition { topic, partition, .. } => take_out(request, topic, *partition),
                Action::DelayAnswer(_) | Action::HoldAnswer | Action::DropAnswer | Action::RefuseAfterwards(_) => {}
            }
        }
        Before::Handle
    }

    /// `request` is as it was before, where [`Control::needs_request`].
    pub(crate) fn after(
        &self,
        core: &Core,
        request: Option<&RequestKind>,
        mut response: ResponseKind,
        version: i16,
    ) -> After {
        for (number, action) in &self.chosen {
            let fire = || self.controls.fire(*number);
            match action {
                Action::DelayAnswer(time) => {
                    fire();
                    self.controls.delay(core, *time);
                }
                Action::HoldAnswer => {
                    fire();
                    self.controls.hold(core, *number);
                }
                Action::DropAnswer => {
                    fire();
                    return After::Close;
                }
                Action::RefuseAfterwards(code) => {
                    fire();
                    let request = request.expect("it was kept, as this hook needs it");
                    response = api::refused(request, version, *code);
                }
                Action::RefusePartition { topic, partition, code } => {
                    fire();
                    put_in(&mut response, topic, *partition, *code);
                }
                Action::Observe | Action::Delay(_) | Action::Hold | Action::DropRequest | Action::Refuse(_) => {}
            }
        }
        After::Answer(Box::new(response))
    }
}

fn take_out(request: &mut RequestKind, topic: &str, partition: i32) {
    let RequestKind::Produce(produce) = request else { return };
    let of_topic = |data: &&mut TopicProduceData| data.name.as_str() == topic;
    for data in produce.topic_data.iter_mut().filter(of_topic) {
        data.partition_data.retain(|data| data.index != partition);
    }
}

fn put_in(response: &mut ResponseKind, topic: &str, partition: i32, code: Code) {
    let ResponseKind::Produce(produce) = response else { return };
    let of_topic = |answer: &&mut TopicProduceResponse| answer.name.as_str() == topic;
    for answer in produce.responses.iter_mut().filter(of_topic) {
        let refused = PartitionProduceResponse::default().with_index(partition).with_base_offset(-1);
        answer.partition_responses.push(refused.with_error_code(code.code()));
    }
}
