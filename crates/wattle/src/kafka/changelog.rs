//! A changelog topic: what a lane has to find again and no consumer group keeps. The newest record of a key counts, and it is
//! written in the transaction of the outputs that it belongs to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message as _;

use super::client::{self, LogGate};
use super::consumer::{TopicPartition, offset_in, unassigned, watermarks};
use super::error::Error;
use super::ffi;
use super::position::{Offset, Position};
use super::producer::position_list;
use crate::config::ClientProperties;
use crate::error::Error as WattleError;
use crate::worker::Stop;

/// One question to the broker.
const ASK: Duration = Duration::from_secs(10);
/// Longest time without an answer about the ends of a partition; a topic that was just created has no leader for a moment.
const PATIENCE: Duration = Duration::from_secs(60);
/// A reader that hears nothing for this long asks why.
const SILENCE: Duration = Duration::from_secs(1);
const REMIND: Duration = Duration::from_secs(60);
/// Longer than any transaction that a broker allows by default (15 minutes), which is what a reader waits for.
const GIVE_UP: Duration = Duration::from_secs(20 * 60);

/// A changelog topic, read one partition at a time.
pub(crate) struct Changelog {
    /// For logs.
    pub(crate) name: String,
    pub(crate) brokers: String,
    pub(crate) properties: ClientProperties,
    pub(crate) topic: String,
}

/// How far a partition is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// To its end, open transactions included: they are waited for. After the fence this is all that was ever written with the
    /// fenced id. The last stable offset would not do: somebody else's open transaction pins it below what is committed.
    HighWatermark,
    /// To what is committed now.
    LastStable,
}

impl Changelog {
    /// Gives the committed records of a partition to `apply`, key and value, oldest first. Returns false if `stop` came before the
    /// end.
    pub(crate) fn read(
        &self,
        partition: i32,
        until: Until,
        stop: &Stop,
        mut apply: impl FnMut(&[u8], Option<&[u8]>),
    ) -> Result<bool, WattleError> {
        let isolation = match until {
            Until::LastStable => "read_committed",
            Until::HighWatermark => "read_uncommitted",
        };
        let (low, end) = self.ends(&self.client(isolation)?, partition)?;
        let each = |_, key: &[u8], value: Option<&[u8]>| {
            apply(key, value);
            Ok(())
        };
        self.replay(partition, Position(low), end, stop, each).map(|reached| reached.is_some())
    }

    /// Gives the committed records of a partition from a position to `apply`: offset, key and value, oldest first. Ends with the position that is at or behind
    /// `end`, or with `None` if `stop` came before.
    pub(crate) fn replay(
        &self,
        partition: i32,
        from: Position,
        end: i64,
        stop: &Stop,
        mut apply: impl FnMut(Offset, &[u8], Option<&[u8]>) -> Result<(), WattleError>,
    ) -> Result<Option<Position>, WattleError> {
        if from.0 >= end {
            return Ok(Some(from));
        }
        let place = (Arc::from(self.topic.as_str()), partition);
        let reader = self.client("read_committed")?;
        // By number: for `Beginning` librdkafka would ask, and wait 500 ms where the connection is not there yet.
        let assigned = position_list(&[(place.clone(), from)]).and_then(|from| Ok(reader.assign(&from)?));
        assigned.map_err(|error| self.failed(partition, error))?;
        let mut silence = Silence::since(Instant::now());
        while !stop.is_stopped() {
            match reader.poll(Duration::from_millis(10)) {
                Some(Ok(message)) => {
                    apply(Offset(message.offset()), message.key().unwrap_or_default(), message.payload())?;
                    silence = Silence::since(Instant::now());
                }
                Some(Err(error)) => tolerated(error).map_err(|error| self.lost(partition, error))?,
                None => {
                    let position = self.position(&reader, &place)?.filter(|position| position.0 >= end);
                    if position.is_some() {
                        return Ok(position);
                    }
                    match silence.due(Instant::now()) {
                        Due::Nothing => {}
                        Due::Say => self.say_why(&reader, partition, end),
                        Due::GiveUp => {
                            let what = format!("{}: waiting for {}/{partition} up to {end}", self.name, self.topic);
                            return Err(WattleError::Stuck { what, within: GIVE_UP });
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    fn position(&self, reader: &Reader, place: &TopicPartition) -> Result<Option<Position>, WattleError> {
        let list = unassigned(std::slice::from_ref(place));
        let answer = ffi::position(reader.client().native_ptr(), &list);
        answer.and_then(|()| offset_in(&list, &place.0, place.1)).map_err(|error| self.failed(place.1, error))
    }

    fn ends(&self, client: &Reader, partition: i32) -> Result<(i64, i64), WattleError> {
        let started = Instant::now();
        loop {
            match watermarks(client, &self.topic, partition, ASK) {
                Ok(ends) => return Ok(ends),
                Err(error) if error.is_transient() && started.elapsed() < PATIENCE => {
                    tracing::debug!(stream = %self.name, "ask for the end of {}/{partition}: {error}", self.topic);
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) => return Err(self.failed(partition, error)),
            }
        }
    }

    fn say_why(&self, reader: &Reader, partition: i32, end: i64) {
        let (stream, topic) = (&self.name, &self.topic);
        match watermarks(reader, topic, partition, ASK) {
            Ok((_, stable)) if stable < end => tracing::warn!(
                %stream,
                "waits for {topic}/{partition}: a transaction is open in it, stable to {stable} of {end}"
            ),
            Ok(_) => tracing::warn!(%stream, "waits for the records of {topic}/{partition}, up to {end}"),
            Err(error) => tracing::warn!(%stream, "waits for {topic}/{partition}: {error}"),
        }
    }

    fn client(&self, isolation: &str) -> Result<Reader, WattleError> {
        let mut config = client::with_user(client::base(&self.name, &self.brokers), &self.properties);
        config
            // librdkafka wants a name here even where no group is joined.
            .set("group.id", &self.topic)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("allow.auto.create.topics", "false")
            // What was read so far would be older than the first record that is left: nothing may go on there.
            .set("auto.offset.reset", "error")
            // The position passes the marker at the end with the answer to one fetch more, which the broker would hold back for 500 ms.
            .set("fetch.wait.max.ms", "10")
            .set("isolation.level", isolation);
        BaseConsumer::from_config_and_context(&config, LogGate::new(&self.name)).map_err(client::refused)
    }

    fn lost(&self, partition: i32, source: Error) -> WattleError {
        if !source.is_out_of_range() {
            return self.failed(partition, source);
        }
        let what = format!(
            "{}: records of {}/{partition} were deleted while they were read, and without them it does not tell what is committed. A restart \
             reads what is left",
            self.name, self.topic
        );
        WattleError::Kafka { what, source }
    }

    fn failed(&self, partition: i32, source: Error) -> WattleError {
        WattleError::Kafka { what: format!("{}: read {}/{partition}", self.name, self.topic), source }
    }
}

type Reader = BaseConsumer<LogGate>;

/// A reader that hears nothing.
struct Silence {
    since: Instant,
    said: Option<Instant>,
}

/// What is to be done about it.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    Say,
    GiveUp,
}

impl Silence {
    fn since(since: Instant) -> Self {
        Silence { since, said: None }
    }

    fn due(&mut self, now: Instant) -> Due {
        let lasts = now.duration_since(self.since);
        if lasts >= GIVE_UP {
            return Due::GiveUp;
        }
        if lasts < SILENCE || self.said.is_some_and(|at| now.duration_since(at) < REMIND) {
            return Due::Nothing;
        }
        self.said = Some(now);
        Due::Say
    }
}

fn tolerated(error: KafkaError) -> Result<(), Error> {
    // librdkafka looks for the coordinator of the group that it was named, and nothing here needs one.
    if error.rdkafka_error_code() == Some(Code::GroupAuthorizationFailed) {
        return Ok(());
    }
    let error = Error::from(error);
    if error.is_transient() { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_hears_nothing_says_so_every_minute_and_gives_up() {
        let begin = Instant::now();
        let mut silence = Silence::since(begin);
        for (seconds, due) in [(0, Due::Nothing), (1, Due::Say), (60, Due::Nothing), (61, Due::Say), (1199, Due::Say)] {
            assert_eq!(silence.due(begin + Duration::from_secs(seconds)), due, "after {seconds} s");
        }
        assert_eq!(silence.due(begin + GIVE_UP), Due::GiveUp);
    }
}
