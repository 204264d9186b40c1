//! Decides when Kafka streams have nothing more to do. A stream is finished when everything that feeds it has ended, and the
//! group has committed up to the ends that its topics had then, those of transactions that were open included: what a stream before it has
//! committed may lie behind one of somebody else. Streams that feed each other in a circle end together, when
//! none of them finds anything new.

use wattle::{Lag, PartitionLag, Position};

/// What draining needs to know about a stream.
#[derive(Default)]
pub(crate) struct Link {
    /// Whether it ends by itself.
    pub(crate) is_finite: bool,
    /// Topics read, each with its brokers.
    pub(crate) reads: Vec<(String, String)>,
    /// Topics written, each with its brokers.
    pub(crate) writes: Vec<(String, String)>,
}

type Ends = Vec<(String, i32, Position)>;

pub(super) struct Drain {
    streams: Vec<Stream>,
}

struct Stream {
    is_finite: bool,
    /// Streams that write what this one reads.
    upstream: Vec<usize>,
    /// Itself and the streams that it is in a circle with.
    circle: Vec<usize>,
    /// Where it has to come; for a circle, what the last look saw.
    ends: Option<Ends>,
    stopped: bool,
}

impl Drain {
    pub(super) fn new(links: &[Link]) -> Self {
        let upstream: Vec<Vec<usize>> = links.iter().map(|link| writers(links, link)).collect();
        let streams = (0..links.len()).map(|i| Stream {
            is_finite: links[i].is_finite,
            circle: (0..links.len())
                .filter(|&other| other == i || (reaches(&upstream, i, other) && reaches(&upstream, other, i)))
                .collect(),
            upstream: upstream[i].clone(),
            ends: None,
            stopped: false,
        });
        Drain { streams: streams.collect() }
    }

    /// The streams that can be stopped now. `ended` says which threads have returned; `look` asks for a stream's lag, and is
    /// asked only where the answer matters.
    pub(super) fn step(&mut self, ended: &[bool], mut look: impl FnMut(usize) -> Option<Lag>) -> Vec<usize> {
        let waiting = self.streams.iter().zip(ended).any(|(stream, ended)| stream.is_finite && !ended);
        if waiting {
            return Vec::new();
        }
        let mut stop = Vec::new();
        for i in 0..self.streams.len() {
            // A circle is handled once, with its first stream.
            let is_first = self.streams[i].circle[0] == i;
            if is_first && !self.streams[i].is_finite && !self.streams[i].stopped && self.is_fed_no_more(i, ended) {
                let circle = self.streams[i].circle.clone();
                if self.circle_is_through(&circle, &mut look) {
                    circle.iter().for_each(|&member| self.streams[member].stopped = true);
                    stop.extend(circle);
                }
            }
        }
        stop
    }

    fn is_fed_no_more(&self, i: usize, ended: &[bool]) -> bool {
        let circle = &self.streams[i].circle;
        circle.iter().flat_map(|&member| &self.streams[member].upstream).all(|up| ended[*up] || circle.contains(up))
    }

    fn circle_is_through(&mut self, circle: &[usize], look: &mut impl FnMut(usize) -> Option<Lag>) -> bool {
        let mut through = true;
        for &member in circle {
            let Some(lag) = look(member) else { return false };
            let stream = &mut self.streams[member];
            let now: Ends = lag.partitions.iter().map(|p| (p.topic.clone(), p.partition, p.high)).collect();
            let stands_still = circle.len() == 1 || stream.ends.as_ref() == Some(&now);
            let ends = match (&stream.ends, circle.len()) {
                (Some(ends), 1) => ends,
                _ => stream.ends.insert(now),
            };
            through &= stands_still && has_reached(&lag.partitions, ends);
        }
        through
    }
}

fn has_reached(partitions: &[PartitionLag], ends: &Ends) -> bool {
    ends.iter().all(|(topic, partition, end)| {
        let found = partitions.iter().find(|p| p.topic == *topic && p.partition == *partition);
        found.is_some_and(|p| p.committed.unwrap_or(p.start) >= *end)
    })
}

fn writers(links: &[Link], reader: &Link) -> Vec<usize> {
    let feeds = |writer: &Link| writer.writes.iter().any(|topic| reader.reads.contains(topic));
    (0..links.len()).filter(|&i| feeds(&links[i])).collect()
}

/// Whether a path of upstream steps leads from one stream to another.
fn reaches(upstream: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; upstream.len()];
    let mut todo = upstream[from].clone();
    while let Some(next) = todo.pop() {
        if next == to {
            return true;
        }
        if !std::mem::replace(&mut seen[next], true) {
            todo.extend(&upstream[next]);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(is_finite: bool, reads: &[&str], writes: &[&str]) -> Link {
        let topics = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "b:1".to_owned())).collect();
        Link { is_finite, reads: topics(reads), writes: topics(writes) }
    }

    fn lag(committed: i64, end: i64) -> Option<Lag> {
        let committed = (committed >= 0).then_some(Position(committed));
        let (start, end) = (Position(0), Position(end));
        let partition = PartitionLag { topic: "t".into(), partition: 0, committed, start, end, high: end };
        Some(Lag { partitions: vec![partition] })
    }

    #[test]
    fn a_chain_ends_from_its_source_on() {
        let links = [link(true, &[], &["a"]), link(false, &["a"], &["b"]), link(false, &["b"], &[])];
        let mut drain = Drain::new(&links);
        assert!(drain.step(&[false; 3], |_| panic!("not before the finite input ended")).is_empty());
        let ended = [true, false, false];
        assert!(drain.step(&ended, |i| (i == 1).then(|| lag(3, 5)).flatten()).is_empty());
        assert_eq!(drain.step(&ended, |_| lag(5, 5)), [1]);
        assert!(drain.step(&ended, |_| panic!("stream 1 still runs")).is_empty());
        assert_eq!(drain.step(&[true, true, false], |_| lag(9, 9)), [2]);
    }

    #[test]
    fn records_that_come_later_are_not_waited_for() {
        let mut drain = Drain::new(&[link(false, &["t"], &[])]);
        assert!(drain.step(&[false], |_| lag(3, 5)).is_empty());
        assert_eq!(drain.step(&[false], |_| lag(6, 900)), [0]);
    }

    #[test]
    fn an_open_transaction_is_waited_for() {
        let mut drain = Drain::new(&[link(false, &["t"], &[])]);
        let pinned = |committed| {
            let mut lag = lag(committed, 0)?;
            lag.partitions[0].high = Position(4);
            Some(lag)
        };
        assert!(drain.step(&[false], |_| pinned(-1)).is_empty());
        assert_eq!(drain.step(&[false], |_| lag(4, 4)), [0]);
    }

    #[test]
    fn nothing_committed_is_enough_for_an_empty_topic_only() {
        let mut drain = Drain::new(&[link(false, &["t"], &[])]);
        assert!(drain.step(&[false], |_| None).is_empty());
        assert!(drain.step(&[false], |_| lag(-1, 1)).is_empty());
        let mut drain = Drain::new(&[link(false, &["t"], &[])]);
        assert_eq!(drain.step(&[false], |_| lag(-1, 0)), [0]);
    }

    #[test]
    fn a_circle_ends_together_when_it_stands_still() {
        let links = [link(false, &["a"], &["b"]), link(false, &["b"], &["a"])];
        let mut drain = Drain::new(&links);
        assert!(drain.step(&[false; 2], |i| lag(5, 5 + i as i64)).is_empty());
        assert!(drain.step(&[false; 2], |_| lag(6, 6)).is_empty());
        assert_eq!(drain.step(&[false; 2], |_| lag(6, 6)), [0, 1]);
    }
}
