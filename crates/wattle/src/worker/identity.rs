//! Notices that an input topic was deleted and made anew: its positions mean nothing any more, and a consumer would go on at the old
//! number, past records that nobody has seen. The same thread looks at the group: for members of other products, and for ourselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::fatal::Fatal;
use super::members::{Membership, OwnGroup};
use super::stop::Stop;
use crate::error::Error;
use crate::kafka::{Admin, GroupView};

/// What is read from a topic that was made anew less than this ago can be past its first records.
const INTERVAL: Duration = Duration::from_secs(5);

/// What is looked at.
pub(super) struct Watch {
    pub(super) name: String,
    pub(super) admin: Arc<Admin>,
    /// The topics' ids at the start.
    pub(super) ids: BTreeMap<String, String>,
    pub(super) view: Arc<GroupView>,
    /// Where the group is to have our members only.
    pub(super) own: Option<OwnGroup>,
    /// Where it is to be looked for ourselves: who we believe to be.
    pub(super) member: Option<Member>,
}

/// A member id that the worker keeps up to date.
pub(super) type Member = Arc<Mutex<Option<String>>>;

impl Watch {
    /// Looks every few seconds, from a thread of its own, until `stop`.
    pub(super) fn start(self, fatal: Arc<Fatal>, stop: Stop) -> Result<(), Error> {
        let look = move || {
            let mut membership = Membership::default();
            while !stop.is_stopped() {
                stop.wait(INTERVAL);
                if let Err(error) = self.look_at_topics().and_then(|()| self.look_at_group(&mut membership)) {
                    fatal.raise(error);
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("identity".to_owned()).spawn(look);
        started.map(drop).map_err(|source| Error::Io { what: "start a thread".to_owned(), source })
    }

    fn look_at_topics(&self) -> Result<(), Error> {
        let topics: Vec<String> = self.ids.keys().cloned().collect();
        match self.admin.topic_ids(&topics) {
            Ok(now) => changed(&self.ids, &now).map_or(Ok(()), |text| Err(Error::Topics { text })),
            Err(error) => {
                tracing::debug!(stream = %self.name, "ask for the topics' ids: {error}");
                Ok(())
            }
        }
    }

    fn look_at_group(&self, membership: &mut Membership) -> Result<(), Error> {
        if self.own.is_none() && self.member.is_none() {
            return Ok(());
        }
        let group = match self.view.group(INTERVAL) {
            Ok(group) => group,
            Err(error) => {
                tracing::debug!(stream = %self.name, "ask for the group's members: {error}");
                *membership = Membership::default();
                return Ok(());
            }
        };
        if let Some(text) = self.own.as_ref().and_then(|own| own.foreign(&group)) {
            return Err(Error::BrokerSetting { text });
        }
        let Some(member) = &self.member else { return Ok(()) };
        let member = member.lock().unwrap_or_else(PoisonError::into_inner).clone();
        membership.look(&group, member.as_deref(), Instant::now())
    }
}

fn changed(known: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<String> {
    let (topic, id) = known.iter().find(|(topic, id)| now.get(*topic) != Some(id))?;
    let what = if now.contains_key(topic) { "deleted and made anew" } else { "deleted" };
    Some(format!(
        "topic {topic} was {what} while it was in use (its id was {id}); the committed positions, or the state, are those of the old topic. \
         Check what of a new input topic was processed, set the group's positions with kafka-consumer-groups --reset-offsets, and start again"
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
