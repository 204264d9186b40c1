//! Questions about states from other threads of the process. A question goes into the inbox of the task's lane, which answers between two
//! batches: no lock is held over a batch, and what is not committed is never seen.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use crate::error::{Error, Unanswered};
use crate::kafka::partition_of;
use crate::lane::Command;
use crate::stage::Codec;
use crate::state::is_reserved;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The committed states of the tasks that run in this process, for other threads: a web server's, for example. It is cheap to clone, and valid before the
/// application runs, while it does, and after.
///
/// ```no_run
/// use wattle::{App, Stop};
/// # use wattle::{Next, Output, Record, StageError, StatefulTransformer};
/// # struct Count;
/// # impl StatefulTransformer for Count {
/// #     type State = u64;
/// #     async fn transform(&self, _: &Record<'_>, n: Option<u64>, _: &mut Output) -> Result<Next<u64>, StageError> {
/// #         Ok(Next::Set(n.unwrap_or(0) + 1))
/// #     }
/// # }
///
/// # fn main() -> Result<(), wattle::Error> {
/// let app = App::builder().application_id("counter").brokers("127.0.0.1:9092").input_topics(["clicks"]).build_stateful(Count)?;
/// let states = app.states();
/// std::thread::spawn(move || match states.get_by_key("ada") {
///     Ok(count) => println!("ada has clicked {} times", count.unwrap_or(0)),
///     Err(error) => println!("{error}"), // another process has her partition, for example
/// });
/// app.run(&Stop::new())
/// # }
/// ```
pub struct States<S> {
    desk: Arc<Desk>,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for States<S> {
    fn clone(&self) -> Self {
        States { desk: self.desk.clone(), state: PhantomData }
    }
}

impl<S: Codec> States<S> {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        States { desk, state: PhantomData }
    }

    /// The committed state of a key of this partition; `None` where it has none. The lane answers when its batch is done, within 5 s. Blocks, so
    /// a stage must not ask: it would wait for itself.
    ///
    /// # Errors
    /// [`Error::Query`], which says why there is no answer: the task is not in this process, or is starting, or is busy.
    pub fn get(&self, partition: i32, key: impl AsRef<[u8]>) -> Result<Option<S>, Error> {
        let failed = |why| Error::Query { of: format!("task {partition}"), why };
        let bytes = self.desk.ask(partition, key.as_ref(), PATIENCE).map_err(failed)?;
        let state = bytes.filter(|bytes| !S::is_no_state(bytes)).map(|bytes| S::decode(&bytes)).transpose();
        state.map_err(|reason| failed(Unanswered::Unreadable { reason: reason.to_string() }))
    }

    /// The same of the partition in which producers put the records of this key, by its murmur2 hash. It is the state's where the key of a state is its
    /// record's.
    ///
    /// # Errors
    /// As those of [`States::get`].
    pub fn get_by_key(&self, key: impl AsRef<[u8]>) -> Result<Option<S>, Error> {
        let partitions = self.desk.open().partitions;
        match partitions {
            // It does not run yet, and how many partitions there are is not known.
            0 => Err(Error::Query { of: "the key's task".to_owned(), why: Unanswered::NotOurs }),
            partitions => self.get(partition_of(key.as_ref(), partitions), key),
        }
    }
}

/// A question about the committed state of a key.
pub(crate) struct Question {
    pub(crate) task: i32,
    pub(crate) key: Box<[u8]>,
    pub(crate) reply: SyncSender<Answer>,
}

/// The bytes of the state, if there is one.
pub(crate) type Answer = Result<Option<Vec<u8>>, Unanswered>;

/// Knows the lanes that can be asked.
#[derive(Default)]
pub(crate) struct Desk(Mutex<Open>);

#[derive(Default)]
struct Open {
    /// Of each input topic; 0 before it is known.
    partitions: i32,
    /// By task.
    lanes: BTreeMap<i32, (Sender<Command>, Thread)>,
}

impl Desk {
    pub(super) fn begin(&self, partitions: i32) {
        self.open().partitions = partitions;
    }

    pub(super) fn add(&self, task: i32, lane: Sender<Command>, thread: Thread) {
        self.open().lanes.insert(task, (lane, thread));
    }

    /// Forgets the tasks of a lane that ends.
    pub(super) fn keep(&self, keep: impl Fn(i32) -> bool) {
        self.open().lanes.retain(|task, _| keep(*task));
    }

    fn ask(&self, task: i32, key: &[u8], patience: Duration) -> Answer {
        // Nobody's state, though a store may have something there.
        if is_reserved(key) {
            return Ok(None);
        }
        let (reply, answer) = sync_channel(1);
        // Not held while waiting: the worker comes here to start and end lanes.
        match self.open().lanes.get(&task) {
            Some((lane, thread)) if lane.send(Command::Ask(Question { task, key: key.into(), reply })).is_ok() => {
                thread.unpark();
            }
            _ => return Err(Unanswered::NotOurs),
        }
        match answer.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(Unanswered::Late { within: patience }),
            // The lane has ended with the question in its inbox.
            Err(RecvTimeoutError::Disconnected) => Err(Unanswered::NotOurs),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn why(answer: Result<Option<u64>, Error>) -> String {
        answer.expect_err("no answer").to_string()
    }

    #[test]
    fn a_lane_answers_for_its_tasks_and_who_asks_for_another_is_told() {
        let desk = Arc::new(Desk::default());
        let states: States<u64> = States::new(desk.clone());
        assert!(why(states.get_by_key("a")).contains("the key's task"));
        let (lane, inbox) = channel();
        let thread = thread::spawn(move || {
            while let Ok(Command::Ask(Question { key, reply, .. })) = inbox.recv() {
                let known = (&*key == b"abc").then(|| b"7".to_vec());
                reply.send(Ok(known)).expect("somebody waits");
            }
        });
        desk.begin(4);
        desk.add(3, lane.clone(), thread.thread().clone());
        assert_eq!(states.get(3, "abc").expect("an answer"), Some(7));
        assert_eq!(states.get(3, "abd").expect("an answer"), None);
        assert_eq!(states.get(3, "\0wattle.timer").expect("an answer"), None);
        assert_eq!(states.clone().get_by_key("abc").expect("its partition is 3"), Some(7));
        assert!(why(states.get(2, "abc")).contains("task 2 cannot be asked for: this process does not have"));
        lane.send(Command::Close).expect("it runs");
        thread.join().expect("it ends");
        assert!(why(states.get(3, "abc")).contains("does not have"));
        desk.keep(|task| task != 3);
        assert!(why(states.get(3, "abc")).contains("does not have"));
    }

    #[test]
    fn a_question_waits_no_longer_than_it_is_told() {
        let desk = Desk::default();
        let (lane, inbox) = channel();
        desk.add(0, lane, thread::current());
        let late = desk.ask(0, b"a", Duration::from_millis(1));
        assert!(matches!(late, Err(Unanswered::Late { .. })));
        drop(inbox);
    }
}
