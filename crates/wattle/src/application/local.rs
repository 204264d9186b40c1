//! What a process has left of an application on this machine.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Application;
use crate::error::Error;
use crate::state::{Disk, Origin, StateFolder, now_ms};
use crate::worker::ChangelogFacts;

/// A folder with the local state of a process's tasks.
#[derive(Clone, Debug, Serialize)]
pub struct LocalState {
    /// The folder.
    pub folder: PathBuf,
    /// The process that has it, in its own words. Its databases cannot be read meanwhile, so nothing is known of the tasks.
    pub in_use_by: Option<String>,
    /// The tasks that have a store there.
    pub tasks: Vec<LocalTask>,
}

/// How far the local state of a task reaches.
#[derive(Clone, Debug, Serialize)]
pub struct LocalTask {
    /// The task: the partition's number.
    pub task: i32,
    /// The next record of the changelog that it needs; `None` where it cannot be read.
    pub position: Option<i64>,
    /// The last time at which it was known that nobody else had written behind that position, in milliseconds since 1970.
    pub owned_until: Option<i64>,
    /// Why a start would wipe it, and read the whole changelog; `None` where it would read on from `position`.
    pub distrusted: Option<String>,
}

impl Application {
    /// Looks at the folder of a process that is stopped; `None` where it is not there. Of one that is in use nothing but that is told. A process that is started
    /// while this looks is refused.
    ///
    /// # Errors
    /// [`Error::Config`] where it is no such folder, [`Error::Io`] where it cannot be read; also as those of [`Application::inspect`].
    pub fn local(&self, folder: &Path) -> Result<Option<LocalState>, Error> {
        let mut local = LocalState { folder: folder.to_owned(), in_use_by: None, tasks: Vec::new() };
        match StateFolder::existing(folder) {
            Ok(None) => return Ok(None),
            Ok(Some(found)) => local.tasks = self.tasks(&found)?,
            Err(Error::StateFolder { owner, .. }) => local.in_use_by = Some(owner),
            Err(error) => return Err(error),
        }
        Ok(Some(local))
    }

    fn tasks(&self, folder: &StateFolder) -> Result<Vec<LocalTask>, Error> {
        let topic = &self.changelog.topic;
        let partitions = self.changelog_partitions(&self.admin.cluster()?.topics);
        let mut facts = None;
        if partitions > 0 {
            let ids = self.admin.topic_ids(std::slice::from_ref(topic));
            let ids = ids.map_err(|source| self.failed("ask for the changelog's id", source))?;
            facts = Some(ChangelogFacts::of(&self.admin, topic, &ids));
        }
        let look = |task| {
            let (origin, checkpoint) = match Disk::look(&folder.task(task)) {
                Ok(found) => found,
                Err(reason) => {
                    let why = Some(format!("it cannot be read: {reason}"));
                    return Ok(LocalTask { task, position: None, owned_until: None, distrusted: why });
                }
            };
            let distrusted = match &facts {
                Some(facts) if task < partitions => {
                    let ours = Origin {
                        application: self.group.clone(),
                        topic: topic.clone(),
                        topic_id: facts.id.clone(),
                        partition: task,
                    };
                    let now = now_ms();
                    let (low, _, high) = self.ends(&(topic.as_str().into(), task))?;
                    let distrust = || checkpoint.distrust(low, high, facts.delete_retention, now);
                    origin.differs(&ours).or_else(distrust)
                }
                _ => Some(format!("there is no {topic}/{task}")),
            };
            let (position, owned_until) = (Some(checkpoint.position.0), Some(checkpoint.owned_until));
            Ok(LocalTask { task, position, owned_until, distrusted })
        };
        folder.tasks()?.into_iter().map(look).collect()
    }

    /// Locks a folder that is to be removed.
    pub(super) fn folder(&self, path: &Path) -> Result<Option<StateFolder>, Error> {
        let Some(folder) = StateFolder::existing(path)? else { return Ok(None) };
        let owner = folder.owner();
        // One that a reset has emptied half way has no owner any more.
        if owner.is_empty() || owner.ends_with(&format!("application id {}", self.group)) {
            return Ok(Some(folder));
        }
        let problem = format!("state_dir {} is not of {}, but was used by {owner}", path.display(), self.group);
        Err(Error::Config { problems: vec![problem] })
    }
}
