//! Random operations on a log in memory, a log in a folder that is opened again now and then, and a naive model of both.

use super::*;

/// The same numbers every time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A record, or a marker, with what became of its transaction.
struct Entry {
    seen: Option<Seen>,
    offset: i64,
    producer: Option<i64>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Open,
    Committed,
    Aborted,
}

#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    start: i64,
    end: i64,
    producers: BTreeMap<i64, Known>,
}

/// Epoch, next sequence, and the last batch with its place.
type Known = (i16, i32, Option<(Bytes, i64)>);

impl Model {
    /// The first open record's offset. Where its first records were deleted, a log that was opened again knows the transaction by the
    /// first of those that are left: what is before that one is decided.
    fn last_stable(&self) -> [i64; 2] {
        let mut open = self.entries.iter().filter(|entry| entry.fate == Fate::Open).map(|entry| entry.offset);
        let first = open.clone().next().map_or(self.end, |offset| offset.max(self.start));
        [first, open.find(|offset| *offset >= self.start).unwrap_or(self.end)]
    }

    fn seen(&self, isolation: Isolation, stable: i64) -> Vec<Seen> {
        let is_visible = |entry: &&Entry| {
            entry.offset >= self.start
                && (isolation == Isolation::ReadUncommitted || (entry.offset < stable && entry.fate == Fate::Committed))
        };
        self.entries.iter().filter(is_visible).filter_map(|entry| entry.seen.clone()).collect()
    }
}

struct Bench {
    random: Random,
    model: Model,
    logs: [PartitionLog; 2],
    config: TopicConfig,
    place: Place,
    now: Millis,
}

impl Bench {
    fn append(&mut self, producer: Option<i64>, transactional: bool) {
        let count = 1 + self.random.below(3);
        let records: Vec<_> = (0..count)
            .map(|number| {
                let key = format!("k{}", self.random.below(6));
                let value = (self.random.below(5) > 0).then(|| format!("{}", self.model.end + number as i64));
                (key, value)
            })
            .collect();
        let plain: Vec<_> = records.iter().map(|(key, value)| (Some(&key[..]), value.as_deref(), self.now)).collect();
        let writer = match producer {
            None => ANYONE,
            Some(id) => {
                let (epoch, next, _) = self.model.producers.entry(id).or_default();
                let writer = Writer { transactional, ..idempotent(id, *epoch, *next) };
                *next += count as i32;
                writer
            }
        };
        let sent = batch(Writer { codec: self.random.below(5) as i16, ..writer }, &plain);
        let base = self.model.end;
        self.both(|log, config, now| assert_eq!(log.append(sent.clone(), config, now).unwrap().base_offset, base));
        if let Some(id) = producer {
            self.model.producers.get_mut(&id).unwrap().2 = Some((sent, base));
        }
        for (key, value) in records {
            let offset = self.model.end;
            let fate = if transactional { Fate::Open } else { Fate::Committed };
            let seen = Some(Seen { offset, key: Some(key), value });
            self.model.entries.push(Entry { seen, offset, producer, fate });
            self.model.end += 1;
        }
    }

    fn end_transaction(&mut self, id: i64) {
        let commit = self.random.below(2) == 0;
        let is_fence = !commit && self.random.below(2) == 0;
        let known = self.model.producers.entry(id).or_default();
        if is_fence {
            *known = (known.0 + 1, 0, None);
        }
        let producer = Producer { id, epoch: known.0 };
        let offset = self.model.end;
        self.both(|log, _, now| assert_eq!(log.append_marker(producer, commit, now).unwrap(), offset));
        for entry in &mut self.model.entries {
            if entry.producer == Some(id) && entry.fate == Fate::Open {
                entry.fate = if commit { Fate::Committed } else { Fate::Aborted };
            }
        }
        self.model.entries.push(Entry { seen: None, offset, producer: None, fate: Fate::Committed });
        self.model.end += 1;
    }

    fn send_again(&mut self, id: i64) {
        // a producer whose records were all deleted may be forgotten
        if let Some((_, _, Some((sent, base)))) = self.model.producers.get(&id)
            && *base >= self.model.start
        {
            let (sent, base) = (sent.clone(), *base);
            self.both(|log, config, now| assert_eq!(log.append(sent.clone(), config, now).unwrap().base_offset, base));
        }
    }

    fn open_again(&mut self) {
        self.logs[1] = PartitionLog::open(&self.place, self.now).unwrap();
        self.logs[1].delete_before(self.model.start).unwrap();
    }

    fn both(&mut self, mut each: impl FnMut(&mut PartitionLog, &TopicConfig, Millis)) {
        self.logs.iter_mut().for_each(|log| each(log, &self.config, self.now));
    }

    fn check(&mut self) {
        let max_bytes = 1 + self.random.below(3000) as usize;
        for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
            for log in &self.logs {
                assert_eq!((log.start(), log.end()), (self.model.start, self.model.end));
                let stable = log.last_stable();
                assert!(self.model.last_stable().contains(&stable), "{stable} of {:?}", self.model.last_stable());
                let expected = self.model.seen(isolation, stable);
                let seen = consume(log, isolation, max_bytes);
                if !self.config.compact {
                    assert_eq!(seen, expected);
                } else {
                    assert!(seen.iter().all(|one| expected.contains(one)));
                }
                if isolation == Isolation::ReadCommitted {
                    assert_eq!(fold(&seen), fold(&expected));
                }
            }
            if !self.config.compact && self.logs[0].last_stable() == self.logs[1].last_stable() {
                let [one, other] =
                    [0, 1].map(|log: usize| self.logs[log].read(self.model.start, max_bytes, true, isolation).unwrap());
                assert_eq!(one.records, other.records);
            }
        }
    }
}

fn run(set: &[(&str, &str)], seed: u64, steps: usize) {
    let folder = Temporary::new();
    let place = Place::Folder(folder.path().to_owned());
    let logs = [Place::Memory, place.clone()].map(|place| PartitionLog::open(&place, NOW).unwrap());
    let random = Random(seed);
    let mut bench = Bench { random, model: Model::default(), logs, config: config(set), place, now: NOW };
    for _ in 0..steps {
        let producer = bench.random.below(3) as i64;
        match bench.random.below(20) {
            0..4 => bench.append(None, false),
            4..6 => bench.append(Some(10 + producer), false),
            6..11 => bench.append(Some(producer), true),
            11..15 => bench.end_transaction(producer),
            15 => bench.send_again(10 + producer),
            16 => bench.open_again(),
            17 if bench.random.below(4) == 0 => {
                let to = bench.model.start + bench.random.below(8) as i64;
                bench.model.start = to.min(bench.model.end);
                bench.both(|log, _, _| log.delete_before(to).unwrap());
            }
            _ => {
                bench.now += 10;
                bench.both(|log, config, now| while log.clean(config, now).unwrap() {});
            }
        }
        bench.check();
    }
    assert!(bench.model.end > steps as i64);
}

#[test]
fn a_log_is_what_the_model_says() {
    for seed in 1..5 {
        run(&[("segment.bytes", "900"), ("retention.ms", "-1")], seed * 0x9e37_79b9, 300);
    }
}

#[test]
fn a_compacted_log_folds_to_what_the_model_says() {
    let compact = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0"), ("delete.retention.ms", "50")];
    for seed in 1..5 {
        for segment_bytes in ["400", "3000"] {
            let set = [&compact[..], &[("segment.bytes", segment_bytes), ("segment.ms", "300")]].concat();
            run(&set, seed * 0x9e37_79b9, 300);
        }
    }
}
