//! Records as HTTP requests, one after another. Each has a key made of the places that its records were read from: a repetition has the same.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::time::Duration;

use ureq::http::{HeaderValue, Request, StatusCode, header};
use wattle::{Batch, Error, Sent, Stop};

use super::outside::{Refusals, Target};
use super::retry::{Refusal, Retry, Written};
use crate::spec::{Body, HttpOutput, KEY};

/// Bytes of an answer that are read, so that its connection can be used again; a longer one costs a connection.
const ANSWER: u64 = 64 << 10;

pub(super) struct Post {
    output: HttpOutput,
    agent: ureq::Agent,
    retry: Retry,
    body: Vec<u8>,
    /// Of keys that are no places: what is pushed to an input has a place that the next process gives to something else.
    numbers: Option<Numbers>,
}

/// Keys of this process alone.
struct Numbers {
    process: u64,
    next: u64,
}

impl Post {
    /// `replays`: whether the input gives its records again with the same places.
    pub(super) fn new(output: HttpOutput, replays: bool, retry: Retry) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A redirected POST would become a GET.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(output.timeout))
            .user_agent(concat!("wattle/", env!("CARGO_PKG_VERSION")))
            .build();
        Post { output, agent: config.new_agent(), retry, body: Vec::new(), numbers: (!replays).then(Numbers::new) }
    }

    /// One request, again and again.
    fn send(&mut self, key: &str, messages: &[Sent<'_>], stop: &Stop) -> Written {
        self.body.clear();
        render(self.output.body, messages, &mut self.body);
        self.retry.run(stop, || self.attempt(key))
    }

    fn attempt(&self, key: &str) -> Result<(), Refusal> {
        let mut request = Request::builder().method(&self.output.method).uri(&self.output.url).header(KEY, key);
        if !self.output.headers.iter().any(|(name, _)| name == header::CONTENT_TYPE) {
            request = request.header(header::CONTENT_TYPE, self.output.body.content_type());
        }
        for (name, value) in &self.output.headers {
            request = request.header(name, value);
        }
        let request = request.body(&self.body[..]).expect("checked by the plan, and a key of visible ASCII");
        let mut answer = self.agent.run(request).map_err(|error| failed(&error))?;
        let read = answer.body_mut().with_config().limit(ANSWER).read_to_vec();
        tracing::trace!(length = ?read.map(|body| body.len()).ok(), "answered");
        judge(answer.status(), answer.headers().get(header::RETRY_AFTER))
    }
}

impl Numbers {
    fn new() -> Self {
        Numbers { process: RandomState::new().build_hasher().finish(), next: 0 }
    }

    fn key(&mut self) -> String {
        self.next += 1;
        format!("{:016x}-{}", self.process, self.next)
    }
}

impl Target for Post {
    fn write(
        &mut self,
        batch: &Batch,
        messages: &[Sent<'_>],
        refused: &mut Refusals,
        stop: &Stop,
    ) -> Result<bool, Error> {
        let keys = match &mut self.numbers {
            Some(numbers) => messages.iter().map(|_| numbers.key()).collect(),
            None => keys(batch, messages),
        };
        let mut from = 0;
        while from < messages.len() {
            let until = end(batch, messages, from, self.output.batch_size);
            let go_on = match self.send(&range(&keys[from..until]), &messages[from..until], stop) {
                Written::Yes => true,
                Written::Stopped => return Ok(false),
                // One of them is at fault, and the others are not.
                Written::Refused(_) if until > from + 1 => {
                    for index in from..until {
                        match self.send(&keys[index], &messages[index..=index], stop) {
                            Written::Yes => {}
                            Written::Stopped => return Ok(false),
                            Written::Refused(reason) | Written::GivenUp(reason) => {
                                if !refused.add(messages[index].source, reason) {
                                    return Ok(true);
                                }
                            }
                        }
                    }
                    true
                }
                Written::Refused(reason) | Written::GivenUp(reason) => {
                    messages[from..until].iter().all(|message| refused.add(message.source, reason.clone()))
                }
            };
            if !go_on {
                return Ok(true);
            }
            from = until;
        }
        Ok(true)
    }
}

/// Where the request that begins at `from` ends: it holds records of one partition, and all that became of a record as far as there is room.
fn end(batch: &Batch, messages: &[Sent<'_>], from: usize, most: usize) -> usize {
    let place = |message: &Sent<'_>| {
        let record = batch.get(message.source);
        (record.topic, record.partition)
    };
    let first = place(&messages[from]);
    let rest = messages[from..].iter().take(most);
    from + rest.take_while(|message| place(message) == first).count()
}

/// `topic-partition-offset` of the record that each message was made from; of several of one record the second ends in `-1`.
fn keys(batch: &Batch, messages: &[Sent<'_>]) -> Vec<String> {
    let mut keys = Vec::with_capacity(messages.len());
    let mut nth = 0;
    for (index, message) in messages.iter().enumerate() {
        nth = if index > 0 && messages[index - 1].source == message.source { nth + 1 } else { 0 };
        let record = batch.get(message.source);
        let mut key = format!("{}-{}-{}", visible(record.topic), record.partition, record.offset);
        if nth > 0 {
            key += &format!("-{nth}");
        }
        keys.push(key);
    }
    keys
}

/// The key of a request of these records.
fn range(keys: &[String]) -> String {
    match keys {
        [key] => key.clone(),
        _ => format!("{}..{}", keys[0], keys[keys.len() - 1]),
    }
}

/// Topics have such names anyway; paths of files may not.
fn visible(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn render(body: Body, messages: &[Sent<'_>], text: &mut Vec<u8>) {
    let values = messages.iter().map(|message| message.value.unwrap_or(b"null"));
    match body {
        Body::Record => values.for_each(|value| text.extend_from_slice(value)),
        Body::Array => {
            for (index, value) in values.enumerate() {
                text.push(if index == 0 { b'[' } else { b',' });
                text.extend_from_slice(value);
            }
            text.push(b']');
        }
        Body::Lines => {
            for value in values {
                push_line(value, text);
            }
        }
    }
}

/// Adds a JSON value as a line: its line breaks can only be white space.
pub(super) fn push_line(value: &[u8], text: &mut Vec<u8>) {
    text.extend(value.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    text.push(b'\n');
}

/// Which answers are worth another attempt.
fn judge(status: StatusCode, after: Option<&HeaderValue>) -> Result<(), Refusal> {
    let reason = format!("it answered {status}");
    match status.as_u16() {
        200..=299 => Ok(()),
        408 | 429 | 500..=599 => Err(Refusal::Later { reason, after: after.and_then(seconds) }),
        300..=399 => Err(Refusal::Never { reason: format!("{reason}, and redirects are not followed") }),
        _ => Err(Refusal::Never { reason }),
    }
}

/// A date, the other form of `Retry-After`, is left to the back-off.
fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// A request without an answer may have arrived; its key tells.
fn failed(error: &ureq::Error) -> Refusal {
    let reason = match error {
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
        ureq::Error::HostNotFound => "its host name is not known".to_owned(),
        other => other.to_string(),
    };
    Refusal::Later { reason, after: None }
}

#[cfg(test)]
mod tests {
    use wattle::{Message, Offset, Output, Record};

    use super::*;

    fn batch(places: &[(usize, i32, i64)]) -> Batch {
        let mut batch = Batch::new(vec!["a".to_owned(), "dir/ü".to_owned()]);
        for (topic, partition, offset) in places {
            let (partition, offset) = (*partition, Offset(*offset));
            let record = Record { topic: "", partition, offset, timestamp: None, key: None, value: None, headers: &[] };
            batch.push(*topic, &record);
        }
        batch
    }

    #[test]
    fn what_has_no_place_of_its_own_has_a_number_of_its_process() {
        let (mut one, mut other) = (Numbers::new(), Numbers::new());
        let keys: std::collections::BTreeSet<_> = (0..3).flat_map(|_| [one.key(), other.key()]).collect();
        assert_eq!(keys.len(), 6, "{keys:?}");
    }

    #[test]
    fn keys_are_places_and_requests_are_of_one_partition() {
        let batch = batch(&[(0, 1, 5), (0, 1, 7), (0, 2, 8), (1, 2, 8)]);
        let mut output = Output::default();
        output.send(Message::to("x"));
        let message = |source| Sent { source, ..output.get(0) };
        let messages = [message(0), message(0), message(1), message(2), message(3)];
        let keys = keys(&batch, &messages);
        assert_eq!(keys, ["a-1-5", "a-1-5-1", "a-1-7", "a-2-8", "dir/%C3%BC-2-8"]);
        let ends: Vec<_> = [0, 3, 4].map(|from| end(&batch, &messages, from, 100)).to_vec();
        assert_eq!(ends, [3, 4, 5]);
        assert_eq!(end(&batch, &messages, 0, 2), 2);
        assert_eq!((range(&keys[0..3]), range(&keys[3..4])), ("a-1-5..a-1-7".to_owned(), "a-2-8".to_owned()));
    }

    #[test]
    fn bodies_are_values_arrays_and_lines() {
        let mut output = Output::default();
        output.send(Message::to("x").value(&b"{\n\"a\": 1}"[..]));
        output.send(Message::to("x"));
        let messages: Vec<_> = output.iter().collect();
        let text = |body, messages: &[Sent<'_>]| {
            let mut text = Vec::new();
            render(body, messages, &mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(Body::Record, &messages[..1]), "{\n\"a\": 1}");
        assert_eq!(text(Body::Array, &messages), "[{\n\"a\": 1},null]");
        assert_eq!(text(Body::Lines, &messages), "{ \"a\": 1}\nnull\n");
    }

    #[test]
    fn busy_receivers_are_asked_again_and_others_are_not() {
        let after = HeaderValue::from_static("7");
        let later =
            |status: u16| matches!(judge(StatusCode::from_u16(status).unwrap(), None), Err(Refusal::Later { .. }));
        assert!([408, 429, 500, 502, 503, 504].into_iter().all(later));
        assert!(![200, 204, 301, 400, 401, 404, 409, 413, 422].into_iter().any(later));
        let Err(Refusal::Later { after, .. }) = judge(StatusCode::TOO_MANY_REQUESTS, Some(&after)) else {
            panic!("later")
        };
        assert_eq!(after, Some(Duration::from_secs(7)));
    }
}
