//! Records of a key come one after another; those of other keys go on while the stage waits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::task::yield_now;
use wattle::testing::{StageDriver, TestRecord};
use wattle::{Error, Message, Next, Offset, Output, Record, StageError, StatefulTransformer, Transformer, transformer};

/// Waits as many times as a record's value says before it goes on, and notes what it sees.
#[derive(Default)]
struct Waits {
    running: AtomicUsize,
    most: AtomicUsize,
    log: Mutex<Vec<String>>,
}

/// Ends with its future, also where that is dropped.
struct Running<'a>(&'a Waits, String);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
        self.0.log.lock().expect("no panic").push(format!("-{}", self.1));
    }
}

impl Waits {
    fn begin(&self, record: &Record<'_>) -> Running<'_> {
        self.most.fetch_max(self.running.fetch_add(1, Relaxed) + 1, Relaxed);
        let name = format!("{}{}", record.key_text().unwrap_or("null"), record.offset);
        self.log.lock().expect("no panic").push(format!("+{name}"));
        Running(self, name)
    }
}

impl StatefulTransformer for &'static Waits {
    type State = u64;

    async fn transform(
        &self,
        record: &Record<'_>,
        count: Option<u64>,
        out: &mut Output,
    ) -> Result<Next<u64>, StageError> {
        let _running = self.begin(record);
        let count = count.unwrap_or(0) + 1;
        out.send(Message::to("out").key(record.key).json(&("before", count))?);
        let times: u64 = record.json()?;
        for _ in 0..times {
            yield_now().await;
        }
        if times == 13 {
            return Err(StageError::new("13"));
        }
        out.send(Message::to("out").key(record.key).json(&("behind", count))?);
        Ok(Next::Set(count))
    }
}

fn waits() -> &'static Waits {
    Box::leak(Box::default())
}

fn record(key: &str, times: u64) -> TestRecord {
    TestRecord::of("in").key(key).json(&times)
}

/// Records with times to wait that have nothing to do with their order.
fn mixed() -> Vec<TestRecord> {
    (0..300).map(|n: u64| record(&format!("k{}", n * 7 % 11), n * 31 % 7)).collect()
}

#[test]
fn outputs_and_counts_are_the_same_however_many_keys_run_at_once() {
    let run = |most: usize| {
        let waits = waits();
        let mut driver = StageDriver::stateful(waits).max_concurrent_keys(most);
        driver.pipe_batch(mixed()).expect("good records");
        let mut changes = driver.take_changes();
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        (driver.take_messages(), changes, waits.most.load(Relaxed))
    };
    let (messages, changes, most) = run(1);
    assert_eq!((messages.len(), changes.len(), most), (600, 11, 1));
    for most in [2, 5, 64] {
        let (same, same_changes, ran) = run(most);
        assert!(same == messages && same_changes == changes, "with {most} keys at once");
        assert_eq!(ran, most.min(11), "keys at once");
    }
}

#[test]
fn a_key_waits_for_itself_and_for_no_other() {
    let waits = waits();
    let mut driver = StageDriver::stateful(waits);
    driver.pipe_batch([record("a", 3), record("a", 0), record("b", 0), record("a", 0)]).expect("good records");
    let log = waits.log.lock().expect("no panic").join(" ");
    assert_eq!(log, "+a0 +b2 -b2 -a0 +a1 -a1 +a3 -a3");
    assert_eq!((driver.state(0, "a"), driver.state(0, "b")), (Some(3), Some(1)));
}

#[test]
fn the_same_key_of_two_partitions_is_two_keys() {
    let waits = waits();
    let mut driver = StageDriver::stateful(waits);
    driver.pipe_batch([record("a", 2), record("a", 1).partition(1)]).expect("good records");
    assert_eq!((waits.most.load(Relaxed), driver.state(0, "a"), driver.state(1, "a")), (2, Some(1), Some(1)));
}

#[test]
fn a_failing_record_cancels_the_others_of_its_batch() {
    let waits = waits();
    let mut driver = StageDriver::stateful(waits);
    let batch = [record("a", 1000), record("b", 13), record("c", 1000), record("c", 0)];
    let error = driver.pipe_batch(batch).expect_err("13");
    assert!(matches!(error, Error::Record { offset: Offset(1), .. }), "{error}");
    assert_eq!(waits.running.load(Relaxed), 0, "every future is dropped");
    let log = waits.log.lock().expect("no panic").join(" ");
    assert!(!log.contains("+c3"), "what comes behind is not begun: {log}");
    assert_eq!((driver.take_messages().len(), driver.take_changes().len(), driver.position("in", 0)), (0, 0, None));
    // Nothing of it is left over.
    driver.pipe(record("a", 0)).expect("a good record");
    assert_eq!(driver.state(0, "a"), Some(1));
}

#[test]
fn a_panic_names_the_record_that_the_stage_was_at() {
    struct Panics(bool);
    impl StatefulTransformer for Panics {
        type State = u64;

        async fn transform(
            &self,
            record: &Record<'_>,
            _: Option<u64>,
            _: &mut Output,
        ) -> Result<Next<u64>, StageError> {
            if self.0 {
                yield_now().await;
            }
            assert_ne!(record.key, Some(&b"b"[..]), "13");
            Ok(Next::Set(1))
        }
    }
    for waits in [false, true] {
        let mut driver = StageDriver::stateful(Panics(waits)).dead_letter_topic("dead");
        let error = driver.pipe_batch([record("a", 1), record("b", 2), record("c", 3)]).expect_err("a panic");
        assert!(matches!(error, Error::Panic { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("the stage, at in/0 offset 1 (key \"b\"), panicked: ") && text.contains("13"), "{text}");
        assert_eq!((driver.state(0, "a"), driver.take_messages().len(), driver.position("in", 0)), (None, 0, None));
    }
}

#[test]
fn a_dead_letter_keeps_the_place_of_its_record() {
    let mut driver = StageDriver::stateful(waits()).dead_letter_topic("dead");
    driver.pipe_batch([record("a", 3), record("b", 13), record("c", 0)]).expect("moved aside");
    let topics: Vec<String> = driver.take_messages().into_iter().map(|message| message.topic).collect();
    assert_eq!(topics, ["out", "out", "dead", "out", "out"]);
    assert_eq!((driver.state(0, "b"), driver.state(0, "c")), (None, Some(1)));
}

#[test]
fn a_stage_that_never_waits_sees_records_in_their_order() {
    let seen: &'static Mutex<Vec<i64>> = Box::leak(Box::default());
    let stage = transformer(move |record, _| {
        seen.lock().expect("no panic").push(record.offset.0);
        Ok(())
    });
    StageDriver::new(stage).pipe_batch(mixed()).expect("good records");
    assert!(seen.lock().expect("no panic").iter().copied().eq(0..300));
}

/// Without state, records of a key still come one at a time, and so do those without a key.
#[test]
fn records_without_a_key_come_one_at_a_time() {
    struct Slow(&'static Waits);
    impl Transformer for Slow {
        async fn transform(&self, record: &Record<'_>, _: &mut Output) -> Result<(), StageError> {
            let _running = self.0.begin(record);
            yield_now().await;
            Ok(())
        }
    }
    let waits = waits();
    let mut driver = StageDriver::new(Slow(waits));
    driver.pipe_batch([TestRecord::of("in"), TestRecord::of("in"), record("a", 0)]).expect("good records");
    assert_eq!(waits.log.lock().expect("no panic").join(" "), "+null0 +a2 -null0 +null1 -a2 -null1");
}
