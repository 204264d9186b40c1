//! All problems of a file at once, as a block for the terminal.

use crate::support::plan;

const FILE: &str = "\
streams:
  - id: copy
    input:
      type: kafka
      topics: [orders, 'bad topic']
      consumer_group: orders-copy
      start_form_latest: true
      transactional_offsets: true
      client:
        enable.auto.commit: true
    pipeline:
      processors:
        - type: filter
          condition: 1 + 1
        - type: vrl
          statement: |
            .x = upcase(.name)
    output:
      type: kafka
      topic: orders
      exactly_once: true
      transactional_id: ''
      compression: lzo
    batch:
      max_bytes: 8
  - id: copy
    input: {type: file, path: '${FILE}'}
    output: {type: sdtout}
";

#[test]
fn every_mistake_is_reported_with_place_key_and_remedy() {
    let problems = plan(FILE).err().unwrap();
    let shown = problems.to_string();
    let expected = [
        ("5:24", "streams[0].input.topics[1]", "letters, digits"),
        ("7:7", "streams[0].input.start_form_latest", "did you mean start_from_latest?"),
        ("8:7", "streams[0].input.transactional_offsets", "no output commits the offsets of group \"orders-copy\""),
        ("10:9", "streams[0].input.client.enable.auto.commit", "committed with the results only"),
        ("14:11", "streams[0].pipeline.processors[0].condition", "must be true or false"),
        ("17:", "streams[0].pipeline.processors[1].statement", "unhandled"),
        ("20:7", "streams[0].output.topic", "also in input.topics"),
        ("22:7", "streams[0].output.transactional_id", "must not be blank when exactly_once is true"),
        ("23:7", "streams[0].output.compression", "did you mean lz4?"),
        ("25:7", "streams[0].batch.max_bytes", "unit of size"),
        ("27:31", "streams[1].input.path", "variable FILE is not set"),
        ("28:14", "streams[1].output.type", "did you mean stdout?"),
    ];
    assert!(shown.starts_with("pipeline.yaml has 12 problems\n\n"), "{shown}");
    let mut lines = shown.lines().skip(2);
    for (place, path, text) in expected {
        let line = lines.find(|line| line.contains(path)).unwrap_or_else(|| panic!("{path} is not in\n{shown}"));
        assert!(line.trim_start().starts_with(place) && line.contains(text), "{place} {text}: {line}");
    }
}

#[test]
fn the_block_is_aligned() {
    let problems =
        plan("streams:\n  - input: {type: generate, context: c, cuont: 1}\n    output: {type: x}\n").err().unwrap();
    assert_eq!(
        problems.to_string(),
        "pipeline.yaml has 2 problems\n\n  \
           2:41   streams[0].input.cuont   unknown key; did you mean count?\n  \
           3:14   streams[0].output.type   \"x\" is not known; known here: kafka, http, file, stdout, drop\n"
    );
}
