//! The lanes of a worker: made when a partition first comes, kept while it may come back, ended when it goes elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::shared::{Shared, list};
use crate::error::Error;
use crate::lane::{Command, Lane};
use crate::stage::Transformer;

/// How long a partition may be without those of the same number of the other topics.
const PARTIAL: Duration = Duration::from_secs(60);

pub(super) struct Lanes<S> {
    shared: Arc<Shared<S>>,
    running: BTreeMap<i32, Running>,
    /// Told to close, and not gone yet.
    closing: Vec<(i32, JoinHandle<()>)>,
    /// Tasks that are ours, and whose former lane is not gone yet. Two lanes of one task would take each other's permit, and the old
    /// one's end would take the wake-up of the queue from the new one.
    waiting: BTreeSet<i32>,
    /// Since when an assignment has been incomplete, and what is wrong with it.
    partial: Option<(Instant, String)>,
}

struct Running {
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

impl<S: Transformer> Lanes<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Lanes { shared, running: BTreeMap::new(), closing: Vec::new(), waiting: BTreeSet::new(), partial: None }
    }

    /// Starts the tasks of an assignment, and ends the lanes of others.
    pub(super) fn assign(&mut self, partitions: Vec<(String, i32)>) -> Result<(), Error> {
        let mut topics: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        for (topic, partition) in partitions {
            topics.entry(partition).or_default().push(topic);
        }
        let (complete, partial): (BTreeMap<_, _>, BTreeMap<_, _>) =
            topics.into_iter().partition(|(_, topics)| topics.len() == self.shared.topics.len());
        let needed: BTreeSet<i32> = complete.keys().map(|task| self.shared.lane_of(*task)).collect();
        let gone: Vec<i32> = self.running.keys().filter(|lane| !needed.contains(lane)).copied().collect();
        for lane in gone {
            self.close(lane);
        }
        self.waiting = complete.keys().copied().collect();
        self.start_waiting()?;
        self.note_partial(&partial);
        let tasks: Vec<i32> = complete.into_keys().collect();
        let token = self.shared.consumer.token();
        tracing::info!(
            stream = %self.shared.config.name,
            member = token.as_ref().map(crate::kafka::GroupToken::member_id),
            generation = token.as_ref().map(crate::kafka::GroupToken::generation),
            "was assigned {}",
            list(&tasks)
        );
        Ok(())
    }

    /// Nothing is ours any more.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Starts what waits, as far as former lanes are gone.
    pub(super) fn start_waiting(&mut self) -> Result<(), Error> {
        self.closing.retain(|(_, thread)| !thread.is_finished());
        for task in std::mem::take(&mut self.waiting) {
            if self.closing.iter().any(|(lane, _)| *lane == self.shared.lane_of(task)) {
                self.waiting.insert(task);
            } else {
                self.start(task)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, task: i32) -> Result<(), Error> {
        let number = self.shared.lane_of(task);
        if !self.running.contains_key(&number) {
            let (commands, inbox) = channel();
            let lane = Lane::new(number, self.shared.clone(), inbox)?;
            let thread = thread::Builder::new()
                .name(format!("lane-{number}"))
                .spawn(move || lane.run())
                .map_err(|source| Error::Io { what: format!("start the thread of lane {number}"), source })?;
            self.running.insert(number, Running { commands, thread });
        }
        let lane = &self.running[&number];
        let (incarnation, cancel) = self.shared.assignment.assign(task);
        // A lane that has died has raised its error, which the worker's loop finds next.
        if lane.commands.send(Command::Start { task, incarnation, cancel }).is_ok() {
            lane.thread.thread().unpark();
        }
        Ok(())
    }

    fn note_partial(&mut self, partial: &BTreeMap<i32, Vec<String>>) {
        self.partial = (!partial.is_empty()).then(|| {
            let all: Vec<&str> = self.shared.topics.iter().map(AsRef::as_ref).collect();
            let list: Vec<_> = partial.iter().map(|(n, topics)| format!("{n} of {}", topics.join(", "))).collect();
            let text = format!(
                "was assigned partition {} without the same numbers of all of {}; a task needs them together. A member with other \
                 topics in the same group, or topics whose partition counts differ, cause this",
                list.join("; "),
                all.join(", ")
            );
            tracing::warn!(stream = %self.shared.config.name, "{text}; waiting for the group to become even");
            (Instant::now(), text)
        });
    }

    /// Refuses an assignment that has stayed incomplete.
    pub(super) fn check_partial(&self) -> Result<(), Error> {
        match &self.partial {
            Some((since, text)) if since.elapsed() > PARTIAL => Err(Error::Topics { text: text.clone() }),
            _ => Ok(()),
        }
    }

    fn close(&mut self, lane: i32) {
        let Some(running) = self.running.remove(&lane) else { return };
        // A closed channel says the same.
        drop(running.commands.send(Command::Close));
        running.thread.thread().unpark();
        self.closing.push((lane, running.thread));
    }

    pub(super) fn threads(&self) -> Vec<thread::Thread> {
        self.running.values().map(|running| running.thread.thread().clone()).collect()
    }

    /// Ends every lane. Returns false where some did not end by `deadline`; they are left behind.
    pub(super) fn join(mut self, deadline: Instant) -> bool {
        let all: Vec<i32> = self.running.keys().copied().collect();
        for lane in all {
            self.close(lane);
        }
        for (_, thread) in self.closing {
            while !thread.is_finished() && Instant::now() < deadline {
                thread.thread().unpark();
                thread::sleep(Duration::from_millis(2));
            }
            // A panic was caught and raised by the lane itself.
            if !thread.is_finished() || thread.join().is_err() {
                return false;
            }
        }
        true
    }
}
