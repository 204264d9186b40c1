//! Lives of a log that end in every way at any moment, against a model.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;

/// What must hold.
#[derive(Default)]
struct Model {
    /// Numbers that somebody was told, or read, with their entries.
    seen: BTreeMap<u64, String>,
    /// Accepted, and not lost by what `periodic` allows.
    owed: BTreeMap<u64, String>,
    /// The position that was committed with the results.
    committed: u64,
    appended: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Kill,
    PowerLoss,
    Close,
}

impl Model {
    fn saw(&mut self, number: u64, text: &str) {
        let former = self.seen.entry(number).or_insert_with(|| text.to_owned());
        assert_eq!(former, text, "number {number} was used twice");
    }

    /// Reads everything from the committed position on: what is owed is there, once, in order.
    fn check_all(&mut self, log: &Log) {
        let found = read(log, Some(Position(self.committed)));
        assert!(found.is_sorted_by(|a, b| a.0 < b.0));
        for (number, text) in &found {
            self.saw(*number, text);
        }
        let found: BTreeMap<_, _> = found.into_iter().collect();
        for (number, text) in self.owed.range(self.committed..) {
            assert_eq!(found.get(number), Some(text), "accepted, and not there");
        }
        let mut texts: Vec<_> = found.values().collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), found.len(), "an entry is there twice");
    }

    fn live(&mut self, log: &Log, rng: &mut Rng) {
        let mut reader = log.reader(Some(Position(self.committed))).unwrap();
        let mut waiting = Vec::new();
        for _ in 0..rng.usize(..60) {
            match rng.u8(..8) {
                0..=3 => {
                    let text = format!("entry {} {}", self.appended, "z".repeat(rng.usize(..600)));
                    self.appended += 1;
                    if let Ok(accepted) = log.try_append(text.clone().into()) {
                        waiting.push((accepted, text));
                    }
                }
                4 => {
                    for (accepted, text) in waiting.drain(..) {
                        let number = accepted.wait().unwrap().0;
                        self.saw(number, &text);
                        self.owed.insert(number, text);
                    }
                }
                5 | 6 => {
                    while let Some(entry) = reader.read().unwrap() {
                        let text = String::from_utf8(entry.bytes.to_vec()).unwrap();
                        self.saw(entry.sequence.0, &text);
                    }
                }
                _ => {
                    self.committed = reader.position().0;
                    log.cover(reader.position()).unwrap();
                }
            }
        }
        // Some entries are on their way when the end comes.
    }
}

#[test]
fn whatever_ends_a_process_accepted_entries_are_there_once_and_in_order() {
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let mode = MODES[rng.usize(..MODES.len())];
        let mut disk = Sim::default();
        let mut model = Model::default();
        for life in 0..8 {
            let log = open(&disk, mode);
            model.check_all(&log);
            model.live(&log, &mut rng);
            let end = [End::Kill, End::PowerLoss, End::PowerLoss, End::Close][rng.usize(..4)];
            disk = match end {
                End::Kill => disk.killed(),
                End::PowerLoss => disk.power_lost(&mut rng),
                End::Close => {
                    log.close().unwrap();
                    disk.power_lost(&mut rng)
                }
            };
            if end == End::PowerLoss && mode == RARELY {
                model.owed.clear();
            }
            assert!(disk.world().in_segments() <= 64 << 10, "seed {seed}, life {life}");
        }
    }
}
