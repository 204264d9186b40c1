//! Notices that an input topic was deleted and made anew: its positions mean nothing any more, and a consumer would go on at the old
//! number, past records that nobody has seen. The same thread looks at the group: for members of other products, and for ourselves.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Which of them is the changelog.
    pub(super) changelog: Option<String>,
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
            let (mut membership, mut looked) = (Membership::default(), false);
            while !stop.is_stopped() {
                stop.wait(INTERVAL);
                // Once, and not in the way of the start, which has questions of its own.
                if !std::mem::replace(&mut looked, true) && !stop.is_stopped() {
                    self.look_at_positions();
                }
                if let Err(error) = self.look_at_topics().and_then(|()| self.look_at_group(&mut membership)) {
                    fatal.raise(error);
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("identity".to_owned()).spawn(look);
        started.map(drop).map_err(|source| Error::Io { what: "start a thread".to_owned(), source })
    }

    /// Positions of a topic that is not ours: an earlier version has read it, or another application shares our id, and with it our state.
    fn look_at_positions(&self) {
        let Some(changelog) = &self.changelog else { return };
        let stream = &self.name;
        match self.view.all_committed(INTERVAL) {
            Ok(committed) => {
                let others: BTreeSet<_> = committed.into_iter().map(|one| one.topic).collect();
                let others: Vec<_> = others.into_iter().filter(|topic| !self.ids.contains_key(topic)).collect();
                if !others.is_empty() {
                    let others = others.join(", ");
                    tracing::warn!(
                        %stream,
                        "the group has positions of topics that this process does not read: {others}. If an earlier version has read them, their records \
                         are in the state; if another application has the same application_id, it writes to the same {changelog}: give one of them \
                         another id"
                    );
                }
            }
            Err(error) => tracing::debug!(%stream, "ask for the group's positions: {error}"),
        }
    }

    fn look_at_topics(&self) -> Result<(), Error> {
        let topics: Vec<String> = self.ids.keys().cloned().collect();
        match self.admin.topic_ids(&topics) {
            Ok(now) => {
                let text = changed(&self.ids, &now, self.changelog.as_deref());
                text.map_or(Ok(()), |text| Err(Error::Topics { text }))
            }
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

fn changed(
    known: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    changelog: Option<&str>,
) -> Option<String> {
    let (topic, id) = known.iter().find(|(topic, id)| now.get(*topic) != Some(id))?;
    let what = if now.contains_key(topic) { "deleted and made anew" } else { "deleted" };
    let remedy = if changelog == Some(topic) {
        "the state that belongs to the committed positions went with it. Bring the topic back, or begin anew (wattle reset), and start again"
    } else {
        "the committed positions are those of the old topic. Check what of the new one was processed, set the group's positions with \
         kafka-consumer-groups --reset-offsets, and start again"
    };
    Some(format!("topic {topic} was {what} while it was in use (its id was {id}); {remedy}"))
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
        assert_eq!(changed(&known, &known, Some("b")), None);
        let text = changed(&known, &ids(&[("a", "1"), ("b", "3")]), None).unwrap_or_default();
        assert!(text.contains("b was deleted and made anew") && text.contains("--reset-offsets"), "{text}");
        let text = changed(&known, &ids(&[("a", "1")]), Some("b")).unwrap_or_default();
        assert!(text.contains("b was deleted while") && text.contains("wattle reset"), "{text}");
    }
}
