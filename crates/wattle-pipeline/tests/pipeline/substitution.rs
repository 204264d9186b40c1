//! Environment variables are put into values that are already parsed: text never becomes structure, and never shows.

use crate::support::{KAFKA_IN, lines, plan_with, stream};

fn with(text: &str, value: &str) -> Result<String, Vec<String>> {
    let env = |name: &str| (name == "T").then(|| value.to_owned());
    let plan = plan_with(text, Some("localhost:9092"), &env);
    plan.map(|plan| plan.streams[0].route()).map_err(|problems| lines(&problems))
}

#[test]
fn a_value_arrives_literally_as_one_scalar() {
    let text = stream("type: file, path: \"${T}\"", "type: drop");
    for value in ["a#b", "a: b", "\"q\"", "\\C", ">x", "- x", "{a: b}", "null", "~"] {
        assert_eq!(with(&text, value).unwrap(), format!("file {value} → drop"));
        let plain = "streams:\n  - input:\n      type: file\n      path: ${T} # a comment with ${NOPE}\n    output: {type: drop}\n";
        assert_eq!(with(plain, value).unwrap(), format!("file {value} → drop"));
    }
}

#[test]
fn a_value_with_a_line_break_cannot_add_a_key() {
    let found = with(&stream(KAFKA_IN, "type: kafka, topic: \"${T}\""), "b\nexactly_once: true").unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("output.topic must be one line of text"), "{found:?}");
}

#[test]
fn the_type_follows_from_the_key_after_substitution() {
    let text = stream(&format!("{KAFKA_IN}, start_from_latest: \"${{T}}\""), "type: drop");
    assert!(with(&text, "true").is_ok());
    let found = with(&text, "S3cr3t").unwrap_err();
    assert!(found[0].contains("not \"${T}\""), "{found:?}");
}

#[test]
fn an_unset_variable_is_named() {
    let text = stream("type: file, path: \"${NOPE}\"", "type: drop");
    let found = with(&text, "").unwrap_err();
    assert!(found.iter().any(|p| p.contains("input.path the environment variable NOPE is not set")), "{found:?}");
    let text = stream("type: file, path: \"${NOPE:-x}${T:-}\"", "type: drop");
    assert_eq!(with(&text, "").unwrap(), "file x → drop");
}

#[test]
fn keys_and_comments_are_left_alone() {
    let text = format!("# ${{NOPE}}\n{}", stream("type: generate, context: {\"${T}\": 1}", "type: drop"));
    assert!(with(&text, "x").is_ok());
}

#[test]
fn secrets_are_in_no_message() {
    let client = "sasl.password: S3cr3t-1, sasl.username: \"${T}\", acks: S3cr3t-2, linger.ms: [S3cr3t-3]";
    let programs = [". = foo(\"S3cr3t-4\") ${T}", ".a = S3cr3t0 + \"${T}\"", ".S3cr3t = upcase(.${U}) # ${T}"];
    let processors = programs.map(|program| format!("{{type: vrl, statement: '{program}'}}")).join(", ");
    let text = format!(
        "streams:\n  - input: {{{KAFKA_IN}, start_from_latest: '${{T}}'}}\n    output: {{type: kafka, topic: '${{T}}/', client: \
         {{{client}}}}}\n    pipeline: {{processors: [{processors}]}}\n    grace_period: ${{T}}\n"
    );
    let env = |_: &str| Some("S3cr3t0".to_owned());
    let problems = plan_with(&text, Some("x:1"), &env).err().unwrap();
    assert!(problems.list.len() >= 8, "{problems}");
    let shown = format!("{problems}{problems:?}");
    assert!(!shown.contains("S3cr3t"), "{shown}");
}
