//! The lanes of a worker: made when a partition first comes, kept while it may come back, ended when it goes elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::shared::{Held, Shared, list};
use super::startup::uneven;
use crate::error::Error;
use crate::kafka::GroupToken;
use crate::lane::{Command, Lane};
use crate::stage::Transformer;

/// As much as a main thread has, since a stage may have been tried there. Memory is taken as it is needed.
const STACK: usize = 8 << 20;

/// How long a partition may be without those of the same number of the other topics.
const PARTIAL: Duration = Duration::from_secs(60);
const SAY_PARTIAL: Duration = Duration::from_secs(5);

pub(super) struct Lanes<S> {
    shared: Arc<Shared<S>>,
    running: BTreeMap<i32, Running>,
    /// Told to close, and not gone yet.
    closing: Vec<(i32, JoinHandle<()>)>,
    /// Tasks that are ours, and whose former lane is not gone yet. Two lanes of one task would take each other's permit, and the old
    /// one's end would take the wake-up of the queue from the new one.
    waiting: BTreeSet<i32>,
    partial: Option<Partial>,
}

/// Partitions that are ours without others of their number.
struct Partial {
    since: Instant,
    text: String,
    said: bool,
}

struct Running {
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

impl<S: Transformer> Lanes<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Lanes { shared, running: BTreeMap::new(), closing: Vec::new(), waiting: BTreeSet::new(), partial: None }
    }

    /// Starts the tasks whose partitions are all there and that do not run yet. Once the group has assigned what it wants to, the lanes of
    /// other tasks end.
    pub(super) fn follow(&mut self, held: &Held) -> Result<(), Error> {
        let all = self.shared.topics.len();
        let (complete, partial): (Vec<_>, Vec<_>) = held.topics.iter().partition(|(_, topics)| topics.len() == all);
        let complete: Vec<i32> = complete.into_iter().map(|(task, _)| *task).collect();
        self.refuse_added(&complete)?;
        let new = complete.iter().copied().filter(|task| !self.shared.assignment.owns(*task));
        self.waiting = new.collect();
        if held.assigned {
            self.log_assignment(&complete);
            let needed: BTreeSet<i32> = complete.iter().map(|task| self.shared.lane_of(*task)).collect();
            let gone: Vec<i32> = self.running.keys().filter(|lane| !needed.contains(lane)).copied().collect();
            for lane in gone {
                self.close(lane);
            }
        }
        self.start_waiting()?;
        self.note_partial(&partial);
        Ok(())
    }

    /// A partition that was added to the input since the start has none in the changelog, where its state would be.
    fn refuse_added(&self, complete: &[i32]) -> Result<(), Error> {
        let partitions = self.shared.topology.partitions;
        match (&self.shared.config.changelog_topic, complete.iter().max()) {
            (Some(changelog), Some(last)) if *last >= partitions => {
                Err(uneven(changelog, partitions, format_args!("at least {}", last + 1)))
            }
            _ => Ok(()),
        }
    }

    fn log_assignment(&self, complete: &[i32]) {
        let token = self.shared.consumer.token();
        let new: Vec<i32> = self.waiting.iter().copied().collect();
        let kept: Vec<i32> = complete.iter().copied().filter(|task| !self.waiting.contains(task)).collect();
        tracing::info!(
            stream = %self.shared.config.name,
            member = token.as_ref().map(GroupToken::member_id),
            generation = token.as_ref().map(GroupToken::generation),
            kept = (!kept.is_empty()).then(|| list(&kept)),
            "was assigned {}",
            list(&new)
        );
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
                .stack_size(STACK)
                .spawn(move || lane.run())
                .map_err(|source| Error::Io { what: format!("start the thread of lane {number}"), source })?;
            self.running.insert(number, Running { commands, thread });
        }
        let lane = &self.running[&number];
        let (incarnation, cancel) = self.shared.assignment.assign(task);
        // A lane that has died has raised its error, which the worker's loop finds next.
        if lane.commands.send(Command::Start { task, incarnation, cancel }).is_ok() {
            lane.thread.thread().unpark();
            self.shared.desk.add(task, lane.commands.clone(), lane.thread.thread().clone());
        }
        Ok(())
    }

    /// The parts of a task may come one after the other, so that an assignment which stays incomplete is said only after a while.
    fn note_partial(&mut self, partial: &[(&i32, &BTreeSet<String>)]) {
        let partial = (!partial.is_empty()).then(|| {
            let all: Vec<&str> = self.shared.topics.iter().map(AsRef::as_ref).collect();
            let there = |topics: &BTreeSet<String>| topics.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let list: Vec<_> = partial.iter().map(|(n, topics)| format!("{n} of {}", there(topics))).collect();
            format!(
                "was assigned partition {} without the same numbers of all of {}; a task needs them together. A member with other \
                 topics in the same group, or topics whose partition counts differ, cause this",
                list.join("; "),
                all.join(", ")
            )
        });
        self.partial = partial.map(|text| match self.partial.take() {
            Some(known) if known.text == text => known,
            _ => Partial { since: Instant::now(), text, said: false },
        });
    }

    /// Says that an assignment is incomplete, and refuses one that stays so.
    pub(super) fn check_partial(&mut self) -> Result<(), Error> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        if partial.since.elapsed() > PARTIAL {
            return Err(Error::Topics { text: partial.text.clone() });
        }
        if partial.since.elapsed() > SAY_PARTIAL && !std::mem::replace(&mut partial.said, true) {
            tracing::warn!(stream = %self.shared.config.name, "{}; waiting for the group to become even", partial.text);
        }
        Ok(())
    }

    fn close(&mut self, lane: i32) {
        let Some(running) = self.running.remove(&lane) else { return };
        self.shared.desk.keep(|task| self.shared.lane_of(task) != lane);
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
