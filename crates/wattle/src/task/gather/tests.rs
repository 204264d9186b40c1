use super::*;

const NEVER: Duration = Duration::from_secs(3600);

fn gather(count: usize, format: GroupFormat) -> Gather {
    Gather { count, bytes: usize::MAX, time: NEVER, format }
}

fn held(gather: &Gather) -> Held {
    Held::new(gather, Some("dead"), &["in".to_owned()])
}

/// Takes records `(partition, offset, outcome)`: `x` is filtered out, `!` fails, another one is the value.
fn take(held: &mut Held, records: &[(i32, i64, &str)]) -> usize {
    let mut batch = Batch::new(vec!["in".to_owned()]);
    let mut output = Output::default();
    for (index, (partition, offset, outcome)) in records.iter().enumerate() {
        let (partition, offset) = (*partition, Offset(*offset));
        let timestamp = Some(offset.0);
        let record = Record { topic: "in", partition, offset, timestamp, key: None, value: None, headers: &[] };
        batch.push(0, &record);
        output.made_from(index);
        match *outcome {
            "x" => {}
            "!" => output.send(Message::to("dead").value(&b"!"[..])),
            value => output.send(Message::to("out").value(value.as_bytes()).timestamp(offset.0)),
        }
    }
    held.take(&batch, 0..records.len(), &output, Aside::default())
}

/// What a lane writes and commits: each text with the offset that it was made from, and the positions.
fn commit(held: &mut Held) -> (Vec<(String, i64)>, BTreeMap<i32, i64>) {
    let Bundle { batch, output } = &held.ready;
    let text = |message: Sent<'_>| String::from_utf8(message.value.unwrap_or_default().to_vec()).unwrap();
    let texts = output.iter().map(|message| (text(message), batch.get(message.source).offset.0)).collect();
    let positions = held.positions().map(|((task, _), position)| (task, position.0)).collect();
    held.committed();
    (texts, positions)
}

fn run(held: &mut Held, records: &[(i32, i64, &str)]) -> (Vec<String>, BTreeMap<i32, i64>) {
    take(held, records);
    let (texts, positions) = commit(held);
    (texts.into_iter().map(|(text, _)| text).collect(), positions)
}

fn refused(index: usize) -> Error {
    Error::Refused { text: String::new(), oversized: vec![(index, "too large".to_owned())], alone_above: None }
}

#[test]
fn what_was_refused_is_put_aside_at_once_where_it_is_read_again() {
    for of_source in [false, true] {
        let gather = gather(3, GroupFormat::Records);
        let mut held = Held { of_source, ..held(&gather) };
        let again = |held: &mut Held| {
            // A new start reads from the committed position.
            held.keep(|_| false);
            take(held, &[(0, 5, "a"), (0, 6, "b"), (0, 7, "c")]);
            let topics = held.ready.output.iter().map(|message| message.topic.to_owned());
            topics.collect::<Vec<_>>()
        };
        assert_eq!(again(&mut held), ["out", "out", "out"]);
        assert!(held.put_aside(&refused(1)));
        assert_eq!(again(&mut held), ["out", "out", "dead"]);
        let headers = held.ready.output.get(2).headers.len();
        assert!(held.put_aside(&refused(2)), "its letter is too large as well");
        assert_eq!(again(&mut held), ["out", "out", "dead"]);
        assert!(held.ready.output.get(2).headers.len() > headers, "it is short at once");
        assert_eq!(held.committed().dead_letters.count, 1, "however often it was put aside");
        assert!(held.refused.is_empty(), "it is committed");
    }
}

#[test]
fn an_array_that_its_topic_does_not_take_is_a_dead_letter_of_all_of_it() {
    let mut held = held(&gather(2, GroupFormat::Array));
    let mut batch = Batch::new(vec!["in".to_owned()]);
    let mut output = Output::default();
    for offset in 0..2 {
        let value: &[u8] = b"1";
        let record = Record {
            topic: "in",
            partition: 0,
            offset: Offset(offset),
            timestamp: None,
            key: None,
            value: Some(value),
            headers: &[],
        };
        batch.push(0, &record);
        output.made_from(batch.len() - 1);
        output.send(Message::to("out").value(value));
    }
    held.take(&batch, 0..2, &output, Aside::default());
    assert!(held.put_aside(&refused(0)));
    let letter = held.ready.output.get(0);
    assert_eq!((letter.topic, letter.value, held.ready.output.len()), ("dead", Some(&b"[1,1]"[..]), 1));
    assert!(held.put_aside(&refused(0)), "its letter is shortened");
    assert_eq!(held.ready.output.get(0).value, Some(&b""[..]));
    assert!(!held.put_aside(&refused(0)), "once");
    assert_eq!((held.dead_letters(), held.committed().dead_letters.count), (1, 1));
}

#[test]
fn groups_are_the_same_however_batches_are_cut_and_positions_are_at_their_ends() {
    let records = ["1", "2", "x", "3", "!", "4", "5", "x", "!", "6", "7"].into_iter().enumerate();
    let records: Vec<_> = records.map(|(i, outcome)| (0, i as i64 * 2, outcome)).collect();
    let formats = [
        (GroupFormat::Array, vec!["[1,2,3]", "!", "[4,5,6]", "!"]),
        (GroupFormat::Records, vec!["1", "2", "3", "!", "4", "5", "!", "6"]),
    ];
    for (format, expected) in formats {
        for size in 1..=records.len() {
            let mut held = held(&gather(3, format));
            let mut all = Vec::new();
            for chunk in records.chunks(size) {
                let (texts, positions) = run(&mut held, chunk);
                all.extend(texts);
                let position = positions.get(&0).copied().unwrap_or(0);
                assert!([0, 7, 9, 19].contains(&position), "size {size}: {positions:?}");
            }
            assert_eq!(all, expected, "size {size}");
            assert!(held.is_held((0, 0)) && !held.is_held((1, 0)), "the 7");
        }
    }
}

#[test]
fn a_restart_at_a_committed_position_makes_the_same_groups() {
    let records: Vec<_> = (0..20).map(|offset| (0, offset, if offset % 3 == 0 { "x" } else { "1" })).collect();
    let expected = run(&mut held(&gather(4, GroupFormat::Array)), &records).0;
    for cut in 1..20 {
        let mut first = held(&gather(4, GroupFormat::Array));
        let (mut texts, positions) = run(&mut first, &records[..cut]);
        // Another process reads from the position on.
        let from = usize::try_from(positions.get(&0).copied().unwrap_or(0)).unwrap();
        texts.extend(run(&mut held(&gather(4, GroupFormat::Array)), &records[from..]).0);
        assert_eq!(texts, expected, "cut at {cut}");
    }
}

#[test]
fn partitions_are_held_apart_and_forgotten_apart() {
    let mut held = held(&gather(2, GroupFormat::Records));
    let records = [(0, 5, "1"), (1, 7, "2"), (0, 6, "3"), (2, 0, "x"), (1, 8, "4"), (1, 9, "5"), (0, 7, "6")];
    take(&mut held, &records);
    assert_eq!(held.records(), 5);
    // A task goes away between the two attempts of a commit.
    held.keep(|task| task != 1);
    assert_eq!((held.records(), held.is_held((0, 0)), held.is_held((1, 0))), (3, true, false));
    let (texts, positions) = commit(&mut held);
    assert_eq!(texts, [("1".to_owned(), 5), ("3".to_owned(), 6)]);
    assert_eq!(positions, BTreeMap::from([(0, 7), (2, 1)]));
    held.keep(|_| false);
    assert_eq!((held.since(), held.records()), (None, 0));
}

#[test]
fn a_group_ends_by_bytes_and_by_age() {
    let mut by_bytes = held(&Gather { count: 100, bytes: "12345".len(), time: NEVER, format: GroupFormat::Array });
    assert_eq!(run(&mut by_bytes, &[(0, 0, "12"), (0, 1, "345"), (0, 2, "6")]).0, ["[12,345]"]);
    assert!(by_bytes.due_in().is_some_and(|due| due <= NEVER));
    by_bytes.end_old(usize::MAX);
    assert_eq!(commit(&mut by_bytes).0, [], "it is not old enough");
    let mut by_age = held(&Gather { time: Duration::ZERO, ..gather(100, GroupFormat::Array) });
    take(&mut by_age, &[(0, 2, "6"), (0, 3, "x"), (1, 0, "7")]);
    assert_eq!(by_age.due_in(), Some(Duration::ZERO));
    by_age.end_old(1);
    assert_eq!(
        commit(&mut by_age),
        (vec![("[6]".to_owned(), 2)], BTreeMap::from([(0, 4)])),
        "no more than that at once"
    );
    by_age.end_old(1);
    assert_eq!(commit(&mut by_age), (vec![("[7]".to_owned(), 0)], BTreeMap::from([(1, 1)])));
    assert_eq!((by_age.due_in(), by_age.since()), (None, None));
}

#[test]
fn failed_records_that_follow_a_held_one_fill_its_group_too() {
    let mut held = held(&Gather { count: 100, bytes: 20, time: NEVER, format: GroupFormat::Records });
    take(&mut held, &[(0, 0, "1")]);
    let failed: Vec<_> = (1..20).map(|offset| (0, offset, "!")).collect();
    let (texts, _) = run(&mut held, &failed);
    assert_eq!(texts.len(), failed.len() + 1, "the group has ended by its bytes: {texts:?}");
}

#[test]
fn an_array_has_the_latest_time_the_common_key_and_stands_for_its_last_record() {
    let mut group = Bundle::new(&["in".to_owned()]);
    let record = |offset| Record {
        topic: "in",
        partition: 3,
        offset: Offset(offset),
        timestamp: None,
        key: None,
        value: Some(b"as it was"),
        headers: &[],
    };
    for (offset, topic, key, timestamp) in [(4, "a", "k", 9), (5, "b", "k", 1), (6, "a", "k", 7), (7, "b", "l", 2)] {
        let mut output = Output::default();
        let message = Message::to(topic).key(key.as_bytes()).timestamp(timestamp).header("h", &b"x"[..]);
        output.send(if offset == 6 { message } else { message.value(&b"{}"[..]) });
        group.add(0, &record(offset), output.iter());
    }
    let mut ready = Bundle::new(&["in".to_owned()]);
    ready.join(&group, Some("dead"));
    let (first, second) = (ready.output.get(0), ready.output.get(1));
    assert_eq!((first.topic, first.key, first.timestamp), ("a", Some(&b"k"[..]), Some(9)));
    assert_eq!((first.value, first.headers.len()), (Some(&b"[{},null]"[..]), 0));
    assert_eq!((second.topic, second.key, second.timestamp), ("b", None, Some(2)));
    let stands = ready.batch.get(first.source);
    assert_eq!((stands.partition, stands.offset, stands.value), (3, Offset(6), first.value));
}

#[test]
fn of_a_source_the_first_held_record_is_told() {
    let mut held = Held::of_source(&gather(2, GroupFormat::Records), None, &["in".to_owned()]);
    assert_eq!(take(&mut held, &[(0, 1, "x"), (0, 2, "1")]), 1);
    assert_eq!(take(&mut held, &[(0, 3, "x"), (0, 4, "x")]), 0, "the group began before");
    assert_eq!(take(&mut held, &[(0, 5, "2"), (0, 6, "x"), (0, 7, "3"), (0, 8, "x")]), 2);
    held.end_all();
    assert_eq!(commit(&mut held).1, BTreeMap::from([(0, 9)]));
}
