//! What a cluster holds of an application, looked at from outside: for an operator who asks where it stands, or wants it to begin anew.

mod local;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use serde::Serialize;

use crate::config::ClientProperties;
use crate::error::Error;
use crate::kafka::{self, Admin, Changelog, GroupView, Holder, Member, TopicPartition, Until};
use crate::state::{StateFolder, is_reserved};
use crate::worker::Stop;
pub use local::{LocalState, LocalTask};

/// One question to the broker.
const ASK: Duration = Duration::from_secs(10);
/// An answer about stable positions comes at once, or not before a transaction ends.
const STABLE: Duration = Duration::from_millis(500);

/// An application as its cluster knows it: a consumer group, and a changelog where it keeps state or cursors. Nothing is joined, created or
/// fenced by looking.
pub struct Application {
    group: String,
    admin: Admin,
    view: GroupView,
    stable: GroupView,
    changelog: Changelog,
}

/// Values by key.
type Entries = HashMap<Box<[u8]>, Box<[u8]>>;

/// What [`Application::inspect`] found.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The consumer group.
    pub group: String,
    /// Its members.
    pub members: Vec<MemberView>,
    /// Its committed positions, by topic and partition.
    pub positions: Vec<PositionView>,
    /// The changelog, by partition; empty where there is none.
    pub changelog: Vec<ChangelogView>,
    /// The changelog's topic, whether it is there or not.
    pub changelog_topic: String,
    /// What [`Application::local`] found, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalState>,
}

/// A member of the group.
#[derive(Clone, Debug, Serialize)]
pub struct MemberView {
    /// Its client id.
    pub client_id: String,
    /// Its address.
    pub host: String,
    /// The name of a static member.
    pub instance_id: Option<String>,
    /// What it has.
    pub partitions: Vec<(String, i32)>,
}

/// A committed position and its partition.
#[derive(Clone, Debug, Serialize)]
pub struct PositionView {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Next record to read.
    pub position: i64,
    /// Whether a transaction is open that has sent another one.
    pub pending: bool,
    /// First record that the partition still has.
    pub low: i64,
    /// End of what is committed: the last stable offset.
    pub stable: i64,
    /// End of the partition.
    pub high: i64,
    /// The transactional id that committed it, where it says so.
    pub transactional_id: Option<String>,
}

/// A partition of the changelog.
#[derive(Clone, Debug, Serialize)]
pub struct ChangelogView {
    /// The partition: the number of the task.
    pub partition: i32,
    /// Keys that have a state.
    pub keys: usize,
    /// Bytes of these keys and their states.
    pub bytes: usize,
    /// Entries that are not a state: timers and cursors.
    pub others: usize,
    /// First record that it still has.
    pub low: i64,
    /// End of what is committed: the last stable offset.
    pub stable: i64,
    /// End of the partition.
    pub high: i64,
}

impl From<Member> for MemberView {
    fn from(member: Member) -> Self {
        let Member { client_id, host, instance_id, partitions, .. } = member;
        MemberView { client_id, host, instance_id, partitions }
    }
}

impl PositionView {
    /// Committed records of the partition that are not processed; markers count.
    #[must_use]
    pub fn lag(&self) -> i64 {
        (self.stable - self.position).max(0)
    }
}

impl Application {
    /// The application of this consumer group, which a library's application has as its application id. `changelog`: its topic, where
    /// that is not `{group}-changelog`.
    ///
    /// # Errors
    /// [`Error::Config`] for properties that the client refuses. Nothing is asked yet.
    pub fn new(
        brokers: &str,
        group: &str,
        changelog: Option<&str>,
        properties: &ClientProperties,
    ) -> Result<Self, Error> {
        let name = "wattle";
        let topic = changelog.map_or_else(|| format!("{group}-changelog"), str::to_owned);
        let view = |isolation| GroupView::of(name, brokers, group, &topic, properties, isolation);
        Ok(Application {
            group: group.to_owned(),
            admin: Admin::new(name, brokers, properties)?,
            view: view("read_uncommitted")?,
            stable: view("read_committed")?,
            changelog: Changelog {
                name: name.to_owned(),
                brokers: brokers.to_owned(),
                properties: properties.clone(),
                topic,
            },
        })
    }

    /// Reads everything that is committed now. The whole changelog is read.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where no broker answers, [`Error::Kafka`] where one refuses.
    pub fn inspect(&self) -> Result<Inspection, Error> {
        let topics = self.admin.cluster()?.topics;
        let group = self.view.group(ASK).map_err(|source| self.failed("ask for the group", source))?;
        let partitions = self.changelog_partitions(&topics);
        Ok(Inspection {
            group: self.group.clone(),
            members: group.members.into_iter().map(MemberView::from).collect(),
            positions: self.positions(&topics)?,
            changelog: (0..partitions).map(|partition| self.changelog(partition)).collect::<Result<_, _>>()?,
            changelog_topic: self.changelog.topic.clone(),
            local: None,
        })
    }

    /// Gives every key that has a state to `each`, with the number of its task.
    ///
    /// # Errors
    /// As those of [`Application::inspect`].
    pub fn states(&self, mut each: impl FnMut(i32, &[u8], &[u8])) -> Result<(), Error> {
        let partitions = self.changelog_partitions(&self.admin.cluster()?.topics);
        for partition in 0..partitions {
            let entries = self.read(partition)?;
            let mut states: Vec<_> = entries.iter().filter(|(key, _)| !is_reserved(key)).collect();
            states.sort_unstable();
            states.into_iter().for_each(|(key, value)| each(partition, key, value));
        }
        Ok(())
    }

    /// Makes the application begin anew: removes the positions of its group, then its changelog, then the folder with a process's local state, if one is
    /// given and there. Outputs stay.
    ///
    /// # Errors
    /// [`Error::Topics`] while the group has members; [`Error::StateFolder`] while a process has the folder, and [`Error::Config`] where it is another
    /// application's: nothing is removed then. One that comes half way leaves no positions beside a state or without it, at which a
    /// start is refused or begins anew: the same call goes on.
    pub fn reset(&self, state_dir: Option<&Path>) -> Result<(), Error> {
        // Held until the end, so that no process takes it up in between.
        let folder = state_dir.map(|path| self.folder(path)).transpose()?.flatten();
        let group = self.view.group(ASK).map_err(|source| self.failed("ask for the group", source))?;
        if !group.members.is_empty() {
            let members: Vec<_> =
                group.members.iter().map(|member| format!("{} at {}", member.client_id, member.host)).collect();
            let text = format!("the group {} has members: stop {} first", self.group, members.join(", "));
            return Err(Error::Topics { text });
        }
        // The positions first: a state without positions is refused, positions without their state would go on with a wrong one.
        self.admin.delete_group(&self.group)?;
        if self.admin.cluster()?.topics.contains_key(&self.changelog.topic) {
            self.admin.delete_topic(&self.changelog.topic)?;
        }
        folder.map_or(Ok(()), StateFolder::remove)
    }

    fn positions(&self, topics: &BTreeMap<String, i32>) -> Result<Vec<PositionView>, Error> {
        let committed = self.view.all_committed(ASK).map_err(|source| self.failed("ask for the positions", source))?;
        let places: Vec<TopicPartition> =
            committed.iter().map(|one| (one.topic.as_str().into(), one.partition)).collect();
        let all_stable = places.is_empty() || self.is_stable(&places)?;
        let mut views = Vec::new();
        for (one, place) in committed.into_iter().zip(&places) {
            let (mut low, mut stable, mut high) = (0, 0, 0);
            if topics.get(&one.topic).is_some_and(|count| one.partition < *count) {
                (low, stable, high) = self.ends(place)?;
            }
            views.push(PositionView {
                pending: !all_stable && !self.is_stable(std::slice::from_ref(place))?,
                transactional_id: Holder::read(&one.metadata).map(|holder| holder.transactional_id),
                topic: one.topic,
                partition: one.partition,
                position: one.position,
                low,
                stable,
                high,
            });
        }
        views.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        Ok(views)
    }

    fn is_stable(&self, places: &[TopicPartition]) -> Result<bool, Error> {
        match self.stable.committed(places, STABLE) {
            Ok(_) => Ok(true),
            Err(error) if error.is_timeout() || error.code() == Some(Code::UnstableOffsetCommit) => Ok(false),
            Err(source) => Err(self.failed("ask for stable positions", source)),
        }
    }

    fn changelog(&self, partition: i32) -> Result<ChangelogView, Error> {
        let place = (self.changelog.topic.as_str().into(), partition);
        let (low, stable, high) = self.ends(&place)?;
        let entries = self.read(partition)?;
        let states = || entries.iter().filter(|(key, _)| !is_reserved(key));
        Ok(ChangelogView {
            partition,
            keys: states().count(),
            bytes: states().map(|(key, value)| key.len() + value.len()).sum(),
            others: entries.len() - states().count(),
            low,
            stable,
            high,
        })
    }

    /// The newest committed value of every key that has one.
    fn read(&self, partition: i32) -> Result<Entries, Error> {
        let mut entries = Entries::new();
        self.changelog.read(partition, Until::LastStable, &Stop::new(), |key, value| match value {
            Some(value) if !value.is_empty() => drop(entries.insert(key.into(), value.into())),
            _ => drop(entries.remove(key)),
        })?;
        Ok(entries)
    }

    /// The first offset that a partition still has, its last stable offset, and its high watermark.
    fn ends(&self, (topic, partition): &TopicPartition) -> Result<(i64, i64, i64), Error> {
        let ask = |view: &GroupView| {
            let ends = view.watermarks(topic, *partition, ASK);
            ends.map_err(|source| self.failed(&format!("ask for the ends of {topic}/{partition}"), source))
        };
        let ((low, high), (_, stable)) = (ask(&self.view)?, ask(&self.stable)?);
        Ok((low, stable, high))
    }

    /// How many partitions the changelog has; 0 where it is not there.
    fn changelog_partitions(&self, topics: &BTreeMap<String, i32>) -> i32 {
        topics.get(&self.changelog.topic).copied().unwrap_or_default()
    }

    fn failed(&self, what: &str, source: kafka::Error) -> Error {
        Error::Kafka { what: format!("{}: {what}", self.group), source }
    }
}
