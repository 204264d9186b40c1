//! Making topics, for first runs, examples and tools. A run makes none but its changelog.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::admin::{NewTopic, TopicReplication};

use super::admin::Admin;
use crate::config::ClientProperties;
use crate::error::Error;

/// Until a broker knows what it has made.
const KNOWN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Topics to be made, all alike.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until they are created"]
pub struct NewTopics {
    partitions: i32,
    replication: Option<i32>,
    settings: BTreeMap<String, String>,
    properties: ClientProperties,
    exact: bool,
}

impl NewTopics {
    /// With so many partitions each, and the cluster's own settings.
    pub fn of(partitions: i32) -> Self {
        NewTopics {
            partitions,
            replication: None,
            settings: BTreeMap::new(),
            properties: ClientProperties::new(),
            exact: false,
        }
    }

    /// Sets the number of replicas.
    pub fn replication(mut self, replicas: impl Into<Option<i32>>) -> Self {
        self.replication = replicas.into();
        self
    }

    /// Adds a setting, `retention.ms` for example.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Sets librdkafka properties of the client that asks for them, those of TLS and SASL for example.
    pub fn client_properties(mut self, properties: ClientProperties) -> Self {
        self.properties = properties;
        self
    }

    /// Refuses topics that are there with another number of partitions.
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Creates those of the topics that are not there, and returns their names. Others stay as they are.
    ///
    /// # Errors
    /// [`Error::Unreachable`]; [`Error::Topics`] with all that do not fit, before any is created; [`Error::Kafka`] where the broker refuses a
    /// topic, and those before it are created.
    pub fn create<'a>(
        &self,
        brokers: &str,
        topics: impl IntoIterator<Item = &'a String>,
    ) -> Result<Vec<String>, Error> {
        let admin = Admin::new("topics", brokers, &self.properties)?;
        let there = admin.cluster()?.topics;
        let (old, new): (Vec<_>, Vec<_>) = topics.into_iter().partition(|topic| there.contains_key(*topic));
        if self.exact {
            self.check(old.into_iter().map(|topic| (topic, there[topic])))?;
        }
        let mut created = Vec::new();
        for topic in new {
            // -1: as many as the cluster sees fit.
            let replication = TopicReplication::Fixed(self.replication.unwrap_or(-1));
            let mut request = NewTopic::new(topic, self.partitions, replication);
            request.config.extend(self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            if admin.create_topic(self.what(topic), &request)? {
                created.push(topic.clone());
            }
        }
        // A broker that has said "created" may not know the topic for a moment yet, and whoever comes next would be told that it is not there.
        let deadline = Instant::now() + KNOWN;
        while !created.is_empty() && Instant::now() < deadline {
            let there = admin.cluster()?.topics;
            if created.iter().all(|topic| there.contains_key(topic)) {
                break;
            }
            thread::sleep(LOOK);
        }
        Ok(created)
    }

    /// What a refusal may be about.
    fn what(&self, topic: &str) -> String {
        let replication = self.replication.map(|replicas| ("replication-factor".to_owned(), replicas.to_string()));
        let settings = self.settings.iter().map(|(name, value)| (name.clone(), value.clone()));
        let more: String = replication.into_iter().chain(settings).map(|(name, to)| format!(", {name}={to}")).collect();
        format!("create the topic {topic} with partitions={}{more}", self.partitions)
    }

    fn check<'a>(&self, there: impl Iterator<Item = (&'a String, i32)>) -> Result<(), Error> {
        let others = there.filter(|(_, count)| *count != self.partitions);
        let others: Vec<_> = others.map(|(topic, count)| format!("{topic} with {count}")).collect();
        if others.is_empty() {
            return Ok(());
        }
        let text = format!(
            "topics that are there already, with another number of partitions than {}: {}. Ask for as many as are there, or give other names; \
             nothing was created",
            self.partitions,
            others.join(", ")
        );
        Err(Error::Topics { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_with_another_number_of_partitions_is_named_at_once() {
        let there = [("a", 3), ("b", 1), ("c", 6)].map(|(topic, count)| (topic.to_owned(), count));
        let there = || there.iter().map(|(topic, count)| (topic, *count));
        let error = NewTopics::of(3).check(there()).expect_err("two do not fit");
        assert!(error.to_string().contains("than 3: b with 1, c with 6."), "{error}");
        assert_eq!(error.code(), Some("W0003"));
        NewTopics::of(3).check(there().take(1)).expect("it fits");
    }

    #[test]
    fn a_refusal_names_what_was_asked_for() {
        let asked = NewTopics::of(3).replication(2).setting("retention.ms", "x");
        assert_eq!(asked.what("a"), "create the topic a with partitions=3, replication-factor=2, retention.ms=x");
    }
}
