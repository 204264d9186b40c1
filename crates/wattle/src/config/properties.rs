//! Properties of Kafka clients, whose values may be secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Further librdkafka properties, by name. A map that never shows its values: they may be passwords.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientProperties(BTreeMap<String, String>);

impl ClientProperties {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The names.
impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Deref for ClientProperties {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for ClientProperties {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, String)> for ClientProperties {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        ClientProperties(pairs.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a ClientProperties {
    type Item = (&'a String, &'a String);
    type IntoIter = std::collections::btree_map::Iter<'a, String, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Delivery, WorkerConfig};

    #[test]
    fn no_debug_text_shows_a_value() {
        let secret = || ClientProperties::from_iter([("sasl.password".to_owned(), "hunter2".to_owned())]);
        let mut config =
            WorkerConfig::new("n", "b:1", "g", ["a"], Delivery::ExactlyOnce { transactional_id: "t".to_owned() });
        config.consumer_properties = secret();
        config.producer_properties = secret();
        let topics = crate::kafka::NewTopics::of(1).client_properties(secret());
        let shown = format!("{config:?} {topics:?} {:?}", secret());
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    }
}
