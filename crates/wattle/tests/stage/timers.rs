//! Timers of a key, by the stream's time and by the wall clock, and what is built on them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::yield_now;
use wattle::testing::{StageDriver, TestRecord};
use wattle::{
    Clock, Error, Message, Next, Output, Position, Record, StageError, StatefulTransformer, TimeToLive, Timer,
    transformer,
};

/// Gathers the records of a key until it was silent for 30 ms of the stream, or 1 s of the clock; then emits how many there were.
struct Sessions {
    waits: bool,
}

impl StatefulTransformer for Sessions {
    type State = u64;

    async fn transform(
        &self,
        record: &Record<'_>,
        count: Option<u64>,
        out: &mut Output,
    ) -> Result<Next<u64>, StageError> {
        if self.waits {
            yield_now().await;
        }
        match record.value {
            Some(b"again") => out.set_timer(Clock::Wall, "again", 0)?,
            Some(b"bad") => out.set_timer(Clock::Wall, "", 0)?,
            _ => {}
        }
        let time = record.timestamp.ok_or_else(|| StageError::new("no timestamp"))?;
        out.set_timer(Clock::Stream, "silent", time + 30)?;
        let now = out.now(Clock::Wall).expect("it has always a time");
        out.set_timer(Clock::Wall, "silent", now + 1000)?;
        Ok(Next::Set(count.unwrap_or(0) + 1))
    }

    async fn on_timer(&self, timer: &Timer<'_>, count: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
        if self.waits {
            yield_now().await;
        }
        if timer.name == "again" {
            out.set_timer(timer.clock, timer.name, timer.at)?;
        }
        out.clear_timer(Clock::Wall, "silent")?;
        out.clear_timer(Clock::Stream, "silent")?;
        out.send(Message::to("sessions").key(timer.key).json(&count)?);
        Ok(Next::Delete)
    }
}

fn driver() -> StageDriver<wattle::Stateful<Sessions>> {
    StageDriver::stateful(Sessions { waits: false })
}

fn record(key: &str, time: i64) -> TestRecord {
    TestRecord::of("in").key(key).timestamp(time)
}

/// Key, count and timestamp of what came out.
fn sessions<T: StatefulTransformer>(driver: &mut StageDriver<wattle::Stateful<T>>) -> Vec<(String, u64, i64)> {
    let messages = driver.take_messages().into_iter();
    let of = |key: Option<Vec<u8>>| String::from_utf8(key.expect("a key")).expect("text");
    messages.map(|m| (of(m.key.clone()), m.json().expect("a count"), m.timestamp.expect("its timer's"))).collect()
}

#[test]
fn a_stream_timer_fires_once_before_the_record_that_reaches_its_time() {
    let records = || [record("a", 0), record("a", 10), record("b", 20), record("a", 100), record("a", 101)];
    let wanted = [("a".to_owned(), 2, 40), ("b".to_owned(), 1, 50)];
    for waits in [false, true] {
        // All in one batch, or each in its own: a key sees the same.
        let mut driver = StageDriver::stateful(Sessions { waits });
        driver.pipe_batch(records()).expect("good records");
        let mut one = sessions(&mut driver);
        one.sort();
        assert_eq!(one, wanted, "waits: {waits}");
        assert_eq!((driver.state(0, "a"), driver.state(0, "b")), (Some(2), None));
        let mut driver = StageDriver::stateful(Sessions { waits });
        records().into_iter().for_each(|record| driver.pipe(record).expect("a good record"));
        let mut each = sessions(&mut driver);
        each.sort();
        assert_eq!(each, wanted, "waits: {waits}");
        // The stream's time does not go back: what a late record sets to a time that has passed fires at once, and nothing fires twice.
        driver.pipe(record("c", 50)).expect("a late record");
        assert_eq!(sessions(&mut driver), [("c".to_owned(), 1, 80)]);
    }
}

#[test]
fn a_wall_clock_timer_fires_without_records_and_moves_no_position() {
    let mut driver = driver();
    driver.pipe_batch([record("a", 5), record("b", 5).partition(1)]).expect("good records");
    driver.advance(Duration::from_millis(999)).expect("nothing is due");
    assert!(driver.take_messages().is_empty());
    driver.advance(Duration::from_millis(1)).expect("both are due");
    assert_eq!(sessions(&mut driver), [("a".to_owned(), 1, 1000), ("b".to_owned(), 1, 1000)]);
    assert_eq!((driver.state(0, "a"), driver.position("in", 0)), (None, Some(Position(1))));
    assert_eq!(driver.timers(0, "a"), [], "the other timer was cleared");
    driver.advance(Duration::from_secs(3600)).expect("nothing is left");
    assert!(driver.take_messages().is_empty());
}

#[test]
fn a_timer_that_is_set_again_moves() {
    let mut driver = driver();
    driver.pipe(record("a", 5)).expect("a good record");
    driver.advance(Duration::from_millis(600)).expect("nothing is due");
    driver.pipe(record("a", 6)).expect("a good record");
    assert_eq!(
        driver.timers(0, "a"),
        [(Clock::Stream, "silent".to_owned(), 36), (Clock::Wall, "silent".to_owned(), 1600)]
    );
    driver.advance(Duration::from_millis(600)).expect("nothing is due");
    assert!(driver.take_messages().is_empty());
}

#[test]
fn a_batch_that_fails_sets_no_timer_and_fires_none() {
    let mut driver = driver();
    driver.pipe(record("a", 0)).expect("a good record");
    let set = driver.timers(0, "a");
    // It would fire at 100, and be set by the record behind.
    driver.pipe_batch([record("a", 100), record("b", 100), TestRecord::of("in").key("c")]).expect_err("no timestamp");
    assert_eq!((driver.timers(0, "a"), driver.timers(0, "b").len(), driver.state(0, "a")), (set, 0, Some(1)));
    assert!(driver.take_messages().is_empty());
    driver.pipe(record("b", 1)).expect("a good record");
    assert!(driver.take_messages().is_empty(), "the stream stands at 1 again");
}

#[test]
fn what_a_timer_cannot_be_is_refused() {
    let mut driver = driver();
    let error = driver.pipe(record("a", 0).value("bad")).expect_err("no name").to_string();
    assert!(error.contains("name of a timer"), "{error}");
    let error = driver.pipe(record("a", 0).value("again")).expect_err("it would fire for ever");
    assert!(matches!(error, Error::Timer { task: 0, at: 0, .. }), "{error}");
    let stage = transformer(|_, out| out.set_timer(Clock::Wall, "x", 1));
    let error = StageDriver::new(stage).pipe(record("a", 0)).expect_err("no state").to_string();
    assert!(error.contains("keeps state"), "{error}");
}

/// Remembers the last value of a key for a minute of this clock, or for ever. The next version of the program may do otherwise.
#[derive(Clone)]
struct Cache(Arc<Mutex<Option<Clock>>>);

impl Cache {
    fn of(clock: Clock) -> Self {
        Cache(Arc::new(Mutex::new(Some(clock))))
    }

    fn change(&self, clock: Option<Clock>) {
        *self.0.lock().expect("nobody panics") = clock;
    }
}

impl StatefulTransformer for Cache {
    type State = String;

    fn time_to_live(&self) -> Option<TimeToLive> {
        let clock = *self.0.lock().expect("nobody panics");
        Some(TimeToLive { after: Duration::from_secs(60), clock: clock? })
    }

    async fn transform(
        &self,
        record: &Record<'_>,
        _: Option<String>,
        _: &mut Output,
    ) -> Result<Next<String>, StageError> {
        Ok(match record.value {
            Some(b"keep") => Next::Keep,
            None => Next::Delete,
            Some(value) => Next::Set(String::from_utf8_lossy(value).into_owned()),
        })
    }
}

#[test]
fn a_state_lives_as_long_as_it_is_set_again() {
    let mut driver = StageDriver::stateful(Cache::of(Clock::Wall));
    driver.pipe_batch([record("a", 0).value("1"), record("b", 0).value("1")]).expect("good records");
    driver.advance(Duration::from_secs(40)).expect("nothing is due");
    driver.pipe_batch([record("a", 0).value("2"), record("b", 0).value("keep")]).expect("good records");
    driver.advance(Duration::from_secs(40)).expect("b has expired");
    assert_eq!((driver.state(0, "a"), driver.state(0, "b")), (Some("2".to_owned()), None));
    assert!(driver.take_changes().iter().any(|change| change.key.as_deref() == Some(b"b") && change.value.is_none()));
    driver.pipe(record("a", 0)).expect("deleted");
    assert_eq!(driver.timers(0, "a"), []);
}

#[test]
fn a_state_can_live_by_the_time_of_the_stream() {
    let mut driver = StageDriver::stateful(Cache::of(Clock::Stream));
    driver.pipe_batch([record("a", 1_000).value("1"), record("b", 60_999).value("1")]).expect("good records");
    assert_eq!(driver.state(0, "a"), Some("1".to_owned()));
    driver.pipe(record("b", 61_000).value("keep")).expect("a good record");
    assert_eq!((driver.state(0, "a"), driver.state(0, "b")), (None, Some("1".to_owned())));
}

#[test]
fn the_end_that_an_earlier_version_has_set_to_a_state_says_nothing() {
    for clock in [None, Some(Clock::Stream)] {
        let cache = Cache::of(Clock::Wall);
        let mut driver = StageDriver::stateful(cache.clone());
        driver.pipe_batch([record("a", 0).value("1"), record("b", 0).value("1")]).expect("good records");
        cache.change(clock);
        driver.pipe(record("a", 0).value("2")).expect("a good record");
        driver.advance(Duration::from_secs(100)).expect("it is passed over");
        assert_eq!((driver.state(0, "a"), driver.state(0, "b")), (Some("2".to_owned()), Some("1".to_owned())));
    }
}

/// Two timers that wake each other.
struct Circle;

impl StatefulTransformer for Circle {
    type State = u64;

    async fn transform(&self, _: &Record<'_>, _: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
        out.set_timer(Clock::Stream, "a", 0)?;
        Ok(Next::Keep)
    }

    async fn on_timer(&self, timer: &Timer<'_>, _: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
        out.set_timer(Clock::Stream, if timer.name == "a" { "b" } else { "a" }, 0)?;
        Ok(Next::Keep)
    }
}

#[test]
fn timers_that_set_each_other_without_end_are_refused() {
    let mut driver = StageDriver::stateful(Circle);
    let records = [record("k", 0), record("k", 1)];
    let error = driver.pipe_batch(records).expect_err("the second record would never come");
    assert!(matches!(error, Error::Timer { task: 0, at: 0, .. }), "{error}");
    assert!(error.to_string().contains("Output::now"), "{error}");
}

/// Counts records; its timers wait for each other.
struct Meeting(tokio::sync::Barrier);

impl StatefulTransformer for Meeting {
    type State = u64;

    async fn transform(&self, _: &Record<'_>, _: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
        out.set_timer(Clock::Wall, "meet", 0)?;
        out.set_timer(Clock::Wall, "part", 0)?;
        Ok(Next::Set(0))
    }

    async fn on_timer(&self, timer: &Timer<'_>, met: Option<u64>, out: &mut Output) -> Result<Next<u64>, StageError> {
        let met = met.ok_or_else(|| StageError::new("the other timer of the key runs"))?;
        tokio::time::timeout(Duration::from_secs(60), self.0.wait()).await.map_err(|_| StageError::new("alone"))?;
        out.send(Message::to("met").key(timer.key).timestamp(timer.at).json(&met)?);
        Ok(Next::Set(met + 1))
    }
}

#[test]
fn timers_of_several_keys_wait_at_the_same_time_and_those_of_one_key_do_not() {
    let mut driver = StageDriver::stateful(Meeting(tokio::sync::Barrier::new(3)));
    driver.pipe_batch(["a", "b", "c"].map(|key| record(key, 0))).expect("three meet twice");
    let met = sessions(&mut driver);
    let mut counts: Vec<_> = met.iter().map(|(key, count, _)| (key.as_str(), *count)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]);
}
