//! Tests that a pipeline file has: what passes, and how a difference reads.

use std::path::Path;

use wattle_pipeline::{add_cases, run_cases};

use crate::support::{KAFKA_IN, KAFKA_OUT, accepted, problems, refuses, stream};

fn file(tests: &str) -> String {
    let processors = "{type: filter, condition: '.keep == true'}, {type: vrl, statement: '.n = int!(.n) + 1'}";
    format!(
        "{}    pipeline: {{processors: [{processors}]}}\n    error_output: {{type: kafka, topic: dead}}\ntests:\n{tests}",
        stream(KAFKA_IN, KAFKA_OUT)
    )
}

/// What differs in the only test.
fn differences(tests: &str) -> Vec<String> {
    let ends = run_cases(accepted(&file(tests)));
    assert_eq!((ends.len(), ends[0].name.as_str(), ends[0].line), (1, "t", 7), "{ends:?}");
    ends[0].differences.clone()
}

const INPUT: &str = "[{key: k, value: {keep: true, n: 1}, headers: {h: x}, timestamp: 5}, {value: {keep: false}}, {value: {keep: true, n: x}, offset: 7}]";

#[test]
fn records_that_come_out_as_expected_pass() {
    let good = "{key: k, value: {n: 2, keep: true}, headers: {h: x}, timestamp: 5}";
    let dead = "{topic: dead, value: {keep: true, n: x}, key: , headers: {wattle.topic: a, wattle.offset: 7}}";
    assert_eq!(differences(&format!("  - {{name: t, input: {INPUT}, output: [{good}, {dead}]}}\n")), [""; 0]);
    assert_eq!(differences("  - {name: t, input: [{value: {keep: false}}]}\n"), [""; 0], "nothing comes out");
}

#[test]
fn every_difference_is_shown_with_its_path() {
    let output = "{topic: c, key: l, value: {n: 3, more: [1]}, headers: {h: y, i: z}, timestamp: 6}";
    let found = differences(&format!("  - {{name: t, input: {INPUT}, output: [{output}]}}\n"));
    let expected = [
        "output[0].topic: expected c, got b",
        "output[0].key: expected l, got k",
        "output[0].timestamp: expected 6, got 5",
        "output[0].headers.h: expected y, got x",
        "output[0].headers.i: expected z, got no such header",
        "output[0].value.keep: not expected, got true",
        "output[0].value.more: missing, expected [1]",
        "output[0].value.n: expected 3, got 2",
        "output[1]: not expected: a record to dead with the value {\"keep\":true,\"n\":\"x\"}",
    ];
    assert_eq!(found, expected);
    let found = differences("  - {name: t, input: [{value: {keep: false}}], output: [{value: {n: 1}}]}\n");
    assert_eq!(found, ["output[0]: missing: a record to b with the value {\"n\":1}"]);
}

#[test]
fn a_failure_can_be_expected() {
    let text = file("  - {name: t, input: [{value: {keep: true}}], error: 'processors[1]'}\n")
        .replace("    error_output: {type: kafka, topic: dead}\n", "");
    let ends = run_cases(accepted(&text));
    assert_eq!(ends[0].differences, [""; 0]);
    let ends = run_cases(accepted(&text.replace("error: 'processors[1]'", "output: []")));
    assert!(
        ends[0].differences[0].starts_with("failed: ") && ends[0].differences[0].contains("processors[1]"),
        "{ends:?}"
    );
    let ends = run_cases(accepted(&text.replace("keep: true}", "keep: false}")));
    assert_eq!(ends[0].differences, ["error: expected a failure with \"processors[1]\", got 0 records"]);
}

#[test]
fn tests_are_checked_like_everything_else() {
    let one = "  - {name: t, input: [{vlaue: 1}]}\n";
    refuses(&file(one), &["tests[0].input[0].vlaue", "did you mean value?"]);
    let found = problems(&file("  - {stream: z}\n"));
    for part in ["tests[0].name", "tests[0].stream", "tests[0].input"] {
        assert!(found.iter().any(|problem| problem.contains(part)), "{part}: {found:#?}");
    }
    let mut plan = accepted(&stream(KAFKA_IN, KAFKA_OUT));
    let beside = Path::new("pipeline.tests.yaml");
    add_cases(&mut plan, "tests: [{name: b, input: [{value: x}], output: [{value: x}]}]", beside, &|_| None).unwrap();
    assert!(plan.has_cases());
    let ends = run_cases(plan);
    assert!(ends[0].differences.is_empty() && ends[0].file == beside, "{ends:?}");
}

#[test]
fn groups_of_a_test_end_by_count_and_with_the_test() {
    let arrays = |output: &str, test: &str| {
        let batch = "{type: filter, condition: 'int!(.n) != 3'}, {type: batch, count: 2, format: array}";
        let stream = stream(KAFKA_IN, output);
        let errors = "    error_output: {type: kafka, topic: dead}\n";
        run_cases(accepted(&format!(
            "{stream}    pipeline: {{processors: [{batch}]}}\n{errors}tests:\n  - {{name: t, {test}}}\n"
        )))
    };
    let input = "input: [{key: k, timestamp: 5, value: {n: 1}}, {value: {n: 3}}, {value: {}, offset: 3}, {key: k, timestamp: 4, value: {n: 2}}, {value: {n: 4}}]";
    let first = "{key: k, timestamp: 5, value: [{n: 1}, {n: 2}]}";
    let ends =
        arrays(KAFKA_OUT, &format!("{input}, output: [{first}, {{topic: dead, value: {{}}}}, {{value: [{{n: 4}}]}}]"));
    assert_eq!(ends[0].differences, [""; 0]);
    // Records of all outputs count as one.
    let two = stream(KAFKA_IN, KAFKA_OUT)
        .replace("output: {type: kafka, topic: b}", "outputs: [{type: kafka, topic: b}, {type: kafka, topic: c}]");
    let batch = "    pipeline: {processors: [{type: batch, count: 2, format: array}]}\n";
    let test = "tests:\n  - {name: t, input: [{value: 1}, {value: 2}], output: [{topic: b, value: [1, 2]}, {topic: c, value: [1, 2]}]}\n";
    let ends = run_cases(accepted(&format!("{two}{batch}{test}")));
    assert_eq!(ends[0].differences, [""; 0]);
}
