//! What is wrong with the settings of a changelog topic, and of the folder for states.

use super::{Delivery, WorkerConfig, topic_problem};

impl WorkerConfig {
    pub(super) fn changelog_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut say = |problem: String| problems.push(problem);
        let Some(changelog) = &self.changelog_topic else {
            if self.changelog_replication.is_some() || !self.changelog_properties.is_empty() {
                say("changelog_replication and changelog_property have no effect: the stage keeps no state".to_owned());
            }
            return problems;
        };
        if !matches!(self.delivery, Delivery::ExactlyOnce { .. }) {
            say("a stage that keeps state needs exactly once: its changes belong to a transaction".to_owned());
        }
        if let Some(problem) = topic_problem(changelog) {
            say(format!("changelog_topic: {changelog:?} is no name of a topic: {problem}"));
        }
        let others = self.topics.iter().chain(&self.output_topics).chain(&self.dead_letter_topic);
        if others.into_iter().any(|topic| topic == changelog) {
            say(format!(
                "changelog_topic {changelog} is an input, output or dead-letter topic too: choose another one"
            ));
        }
        if self.changelog_replication.is_some_and(|replicas| !(1..=i32::from(i16::MAX)).contains(&replicas)) {
            say("changelog_replication must be between 1 and 32767".to_owned());
        }
        if self.changelog_properties.contains_key("cleanup.policy") {
            say("changelog_property cleanup.policy cannot be set: only compact keeps the newest record of every key"
                .to_owned());
        }
        problems
    }

    pub(super) fn state_dir_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Some(folder) = &self.state_dir else { return problems };
        if self.changelog_topic.is_none() {
            problems.push("state_dir goes with a stage that keeps state, and this one does not".to_owned());
        }
        if folder.as_os_str().is_empty() || (folder.exists() && !folder.is_dir()) {
            problems.push(format!("state_dir ({}) must be a folder", folder.display()));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Delivery, WorkerConfig};
    use crate::error::Error;

    fn problems(change: impl FnOnce(&mut WorkerConfig)) -> Vec<String> {
        let delivery = Delivery::ExactlyOnce { transactional_id: "t".to_owned() };
        let mut config = WorkerConfig::new("n", "b", "g", ["a"], delivery);
        change(&mut config);
        match config.validate() {
            Err(Error::Config { problems }) => problems,
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_changelog_that_could_lose_state_is_refused() {
        let found = problems(|config| {
            config.changelog_topic = Some("a".to_owned());
            config.changelog_replication = Some(0);
            config.changelog_properties.insert("cleanup.policy".into(), "delete".into());
        });
        assert_eq!(found.len(), 3, "{found:?}");
        let found = problems(|config| {
            config.changelog_topic = Some("log".to_owned());
            config.dead_letter_topic = Some("log".to_owned());
        });
        assert!(found.len() == 1 && found[0].contains("dead-letter topic too"), "{found:?}");
    }

    #[test]
    fn settings_of_a_changelog_without_state_are_refused() {
        let found = problems(|config| config.changelog_replication = Some(3));
        assert!(found.len() == 1 && found[0].contains("keeps no state"), "{found:?}");
    }
}
