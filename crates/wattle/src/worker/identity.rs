//! Notices that an input topic was deleted and made anew: its positions mean nothing any more, and a consumer would go on at the old
//! number, past records that nobody has seen. The same thread looks for members of other products.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::fatal::Fatal;
use super::members::OwnGroup;
use super::stop::Stop;
use crate::error::Error;
use crate::kafka::{Admin, GroupView};

/// What is read from a topic that was made anew less than this ago can be past its first records.
const INTERVAL: Duration = Duration::from_secs(5);

/// Looks at the topics' ids, and at the members of a group that is to be ours alone, every few seconds, from a thread of its own, until
/// `stop`.
pub(super) fn watch(
    name: &str,
    admin: Arc<Admin>,
    known: BTreeMap<String, String>,
    group: Option<(OwnGroup, Arc<GroupView>)>,
    fatal: Arc<Fatal>,
    stop: Stop,
) -> Result<(), Error> {
    let name = name.to_owned();
    let look = move || {
        let topics: Vec<String> = known.keys().cloned().collect();
        while !stop.is_stopped() {
            stop.wait(INTERVAL);
            match admin.topic_ids(&topics) {
                Ok(now) => {
                    if let Some(text) = changed(&known, &now) {
                        fatal.raise(Error::Topics { text });
                        return;
                    }
                }
                Err(error) => tracing::debug!(stream = %name, "ask for the topics' ids: {error}"),
            }
            match group.as_ref().map_or(Ok(()), |(group, view)| group.check(view)) {
                Err(error @ Error::BrokerSetting { .. }) => {
                    fatal.raise(error);
                    return;
                }
                Err(error) => tracing::debug!(stream = %name, "{error}"),
                Ok(()) => {}
            }
        }
    };
    let started = thread::Builder::new().name("identity".to_owned()).spawn(look);
    started.map(drop).map_err(|source| Error::Io { what: "start a thread".to_owned(), source })
}

fn changed(known: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<String> {
    let (topic, id) = known.iter().find(|(topic, id)| now.get(*topic) != Some(id))?;
    let what = if now.contains_key(topic) { "deleted and made anew" } else { "deleted" };
    Some(format!(
        "topic {topic} was {what} while it was read (its id was {id}); the committed positions are those of the old topic. Check \
         what of the new one was processed, set the group's positions with kafka-consumer-groups --reset-offsets, and start again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(topic, id)| ((*topic).to_owned(), (*id).to_owned())).collect()
    }

    #[test]
    fn a_topic_with_another_id_is_another_topic() {
        let known = ids(&[("a", "1"), ("b", "2")]);
        assert_eq!(changed(&known, &known), None);
        assert!(
            changed(&known, &ids(&[("a", "1"), ("b", "3")]))
                .is_some_and(|text| text.contains("b was deleted and made"))
        );
        assert!(changed(&known, &ids(&[("a", "1")])).is_some_and(|text| text.contains("b was deleted while")));
    }
}
