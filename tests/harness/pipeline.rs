//! A pipeline file, from the few things that differ between tests.

use std::fmt;

use super::mode::{Mode, Protocol, Scope};

/// One stream, Kafka to Kafka. The fields are the file's keys.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) mode: Mode,
    pub(crate) brokers: String,
    /// Those of the output, where they are others: then nothing is said of transactional offsets.
    pub(crate) output_brokers: Option<String>,
    pub(crate) topics: Vec<String>,
    pub(crate) consumer_group: String,
    pub(crate) topic: String,
    /// `None`: at least once.
    pub(crate) transactional_id: Option<String>,
    pub(crate) start_from_latest: bool,
    pub(crate) group_instance_id: Option<String>,
    /// Of the classic protocol; with the other one the broker decides: [`super::room::Room::set_session`].
    pub(crate) session_timeout_ms: u32,
    pub(crate) transaction_timeout: Option<&'static str>,
    pub(crate) error_output: Option<String>,
    /// Items of the list of processors, as YAML flow.
    pub(crate) processors: Vec<String>,
    /// `batch`, as YAML flow.
    pub(crate) batch: String,
    /// More of the input's `client`, as inside of a YAML flow map.
    pub(crate) consumer: &'static str,
    /// `client` of the output, as YAML flow.
    pub(crate) producer: &'static str,
}

impl Pipeline {
    /// A plain copy. Sessions are short, so that a killed member's partitions move soon.
    pub(crate) fn copy(mode: Mode, brokers: &str, name: &str, topics: &[&str], output: &str) -> Self {
        Pipeline {
            mode,
            brokers: brokers.to_owned(),
            output_brokers: None,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            consumer_group: name.to_owned(),
            topic: output.to_owned(),
            transactional_id: Some(name.to_owned()),
            start_from_latest: false,
            group_instance_id: None,
            session_timeout_ms: 3000,
            transaction_timeout: None,
            error_output: None,
            processors: Vec::new(),
            batch: "{}".to_owned(),
            consumer: "",
            producer: "{}",
        }
    }

    /// The same at least once.
    pub(crate) fn at_least_once(self) -> Self {
        Pipeline { transactional_id: None, transaction_timeout: None, ..self }
    }

    /// In another scope than the mode's.
    pub(crate) fn scope(self, scope: Scope) -> Self {
        Pipeline { mode: Mode { scope, ..self.mode }, ..self }
    }

    /// Under another group protocol than the mode's.
    pub(crate) fn protocol(self, protocol: Protocol) -> Self {
        Pipeline { mode: Mode { protocol, ..self.mode }, ..self }
    }

    /// With the transactional id [`Pipeline::id`]: in scope `worker` that of an instance, which has a random one otherwise.
    pub(crate) fn known_id(self) -> Self {
        let instance = self.mode.is_worker().then(|| "0".to_owned());
        Pipeline { group_instance_id: instance.or(self.group_instance_id), ..self }
    }

    /// The transactional id of partition 0, and that of the worker of [`Pipeline::known_id`].
    pub(crate) fn id(&self) -> String {
        format!("{}-0", self.transactional_id.as_deref().expect("it is exactly once"))
    }

    /// With a processor, as YAML flow.
    pub(crate) fn processor(mut self, yaml: &str) -> Self {
        self.processors.push(yaml.to_owned());
        self
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exactly_once = self.transactional_id.is_some();
        writeln!(f, "streams:\n  - id: copy\n    batch: {}\n    input:\n      type: kafka", self.batch)?;
        writeln!(f, "      brokers: [\"{}\"]\n      topics: {:?}", self.brokers, self.topics)?;
        writeln!(f, "      consumer_group: {}", self.consumer_group)?;
        writeln!(f, "      start_from_latest: {}", self.start_from_latest)?;
        let elsewhere = self.output_brokers.is_some();
        writeln!(f, "      transactional_offsets: {}", exactly_once && !elsewhere)?;
        if let Some(id) = &self.group_instance_id {
            writeln!(f, "      group_instance_id: {id}")?;
        }
        let (session, heartbeat) = (self.session_timeout_ms, self.session_timeout_ms / 6);
        let times = match self.mode.is_consumer() {
            true => String::new(), // they are the broker's
            false => format!("session.timeout.ms: {session}, heartbeat.interval.ms: {heartbeat}, "),
        };
        writeln!(f, "      client: {{{times}{}}}", self.consumer)?;
        if self.mode.is_consumer() {
            writeln!(f, "      group_protocol: consumer")?;
        }
        writeln!(f, "    pipeline:\n      processors: [{}]", self.processors.join(", "))?;
        let brokers = self.output_brokers.as_ref().unwrap_or(&self.brokers);
        writeln!(f, "    output:\n      type: kafka\n      brokers: [\"{brokers}\"]")?;
        writeln!(f, "      topic: {}\n      client: {}", self.topic, self.producer)?;
        if let Some(id) = &self.transactional_id {
            writeln!(f, "      exactly_once: true\n      transactional_id: {id}")?;
            if !elsewhere {
                writeln!(f, "      offset_commit_group: {}", self.consumer_group)?;
            }
        }
        if self.mode.is_worker() && exactly_once {
            writeln!(f, "      transaction_scope: worker")?;
        }
        if let Some(timeout) = self.transaction_timeout {
            writeln!(f, "      transaction_timeout: {timeout}")?;
        }
        if let Some(topic) = &self.error_output {
            writeln!(f, "    error_output: {{type: kafka, topic: {topic}}}")?;
        }
        Ok(())
    }
}
