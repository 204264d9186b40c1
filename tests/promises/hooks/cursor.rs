//! The commit of a file's cursor: lost, late, or fenced.

use std::fs;

use wattle_broker::{ApiKey, Code, Hook, On};

use super::{GoesOn, HASTY, LATE, Outcome, StartsAgain, all};
use crate::harness::cluster::Isolation::ReadUncommitted;
use crate::harness::ledger::Ledger;
use crate::harness::room::Room;
use crate::harness::wait::PATIENCE;
use crate::promises::cursor::lines;

type Accident = (&'static str, u64, fn(On) -> Hook, &'static str, Outcome);

const ACCIDENTS: &[Accident] = &[
    ("request-lost", 1, On::drop_request, "{}", GoesOn),
    ("answer-lost", 1, On::drop_answer, "{}", GoesOn),
    ("answer-lost", 3, On::drop_answer, "{}", GoesOn),
    ("answer-late", 2, |on| on.delay_answer(LATE), HASTY, StartsAgain),
    ("fenced", 1, |on| on.refuse(Code::ProducerFenced), "{}", StartsAgain),
    ("done-and-fenced", 1, |on| on.refuse_afterwards(Code::ProducerFenced), "{}", StartsAgain),
    ("done-and-unknown", 1, |on| on.refuse_afterwards(Code::UnknownServerError), "{}", StartsAgain),
];

pub(in crate::promises) fn a_cursor_whose_commit_is_lost_late_or_fenced_is_neither_lost_nor_doubled(room: &Room) {
    let total = 3000;
    let path = room.folder().join("input.jsonl");
    fs::write(&path, lines(0..total)).unwrap();
    let name = |(what, times, ..): &Accident| format!("{what}.{times}");
    all(ACCIDENTS, name, |&(_, times, happen, client, outcome), part| {
        let (name, output) = (room.name(part), room.topic(&format!("{part}.out"), 2));
        let (address, path) = (room.broker().address(), path.display());
        let yaml = format!(
            "streams:\n  - id: load\n    batch: {{max_poll_records: 100}}\n    input: {{type: file, path: {path}}}\n    output: \
             {{type: kafka, topic: {output}, exactly_once: true, transactional_id: {name}, brokers: \"{address}\", client: {client}}}\n"
        );
        let id = format!("{name}-0");
        let hook = happen(room.broker().embedded().on(ApiKey::EndTxn).matching(&id).after(2).times(times));
        outcome.of(&id, || room.run(&yaml));
        assert_eq!(hook.fired(), times, "so many met it");
        let topics = [output, format!("{name}-changelog")];
        Ledger::of(room.cluster(), &topics[0]).assert_exact(0..total);
        let topics = topics.each_ref().map(String::as_str);
        let open = room.cluster().open_transactions(&topics);
        assert!(open.is_empty(), "{open:?}");
        let ends = topics.map(|topic| room.cluster().ends(topic, ReadUncommitted));
        let mut second = room.run(&yaml);
        assert_eq!(second.wait_exit(PATIENCE), 0, "{}", second.stderr());
        assert!(second.says(&["load", "0 new records"]), "{}", second.stderr());
        assert_eq!(topics.map(|topic| room.cluster().ends(topic, ReadUncommitted)), ends, "nothing is written");
    });
}
