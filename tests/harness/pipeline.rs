//! A pipeline file, from the few things that differ between tests.

use std::fmt;

/// One stream, Kafka to Kafka. The fields are the file's keys.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) brokers: String,
    pub(crate) topics: Vec<String>,
    pub(crate) consumer_group: String,
    pub(crate) topic: String,
    /// `None`: at least once.
    pub(crate) transactional_id: Option<String>,
    pub(crate) start_from_latest: bool,
    pub(crate) group_instance_id: Option<String>,
    /// `None`: classic.
    pub(crate) group_protocol: Option<&'static str>,
    /// Of the classic protocol; with the other one the broker decides.
    pub(crate) session_timeout_ms: u32,
    pub(crate) transaction_scope: Option<&'static str>,
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
    pub(crate) fn copy(brokers: &str, name: &str, topics: &[&str], output: &str) -> Self {
        Pipeline {
            brokers: brokers.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            consumer_group: name.to_owned(),
            topic: output.to_owned(),
            transactional_id: Some(name.to_owned()),
            start_from_latest: false,
            group_instance_id: None,
            group_protocol: None,
            session_timeout_ms: 3000,
            transaction_scope: None,
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
        Pipeline { transactional_id: None, ..self }
    }

    /// With one transaction for all partitions of a process.
    pub(crate) fn scope_worker(self) -> Self {
        Pipeline { transaction_scope: Some("worker"), ..self }
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
        writeln!(f, "      transactional_offsets: {exactly_once}")?;
        if let Some(id) = &self.group_instance_id {
            writeln!(f, "      group_instance_id: {id}")?;
        }
        let (session, heartbeat) = (self.session_timeout_ms, self.session_timeout_ms / 6);
        let mut times = format!("session.timeout.ms: {session}, heartbeat.interval.ms: {heartbeat}, ");
        if let Some(protocol) = self.group_protocol {
            writeln!(f, "      group_protocol: {protocol}")?;
            if protocol == "consumer" {
                times.clear();
            }
        }
        writeln!(f, "      client: {{{times}{}}}", self.consumer)?;
        writeln!(f, "    pipeline:\n      processors: [{}]", self.processors.join(", "))?;
        writeln!(f, "    output:\n      type: kafka\n      brokers: [\"{}\"]", self.brokers)?;
        writeln!(f, "      topic: {}\n      client: {}", self.topic, self.producer)?;
        if let Some(id) = &self.transactional_id {
            writeln!(f, "      exactly_once: true\n      transactional_id: {id}")?;
            writeln!(f, "      offset_commit_group: {}", self.consumer_group)?;
        }
        if let Some(scope) = self.transaction_scope {
            writeln!(f, "      transaction_scope: {scope}")?;
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
