//! Programs are compiled by the plan.

use crate::support::{KAFKA_IN, accepted, problems, refuses, stream};

fn with(processors: &str) -> String {
    format!(
        "streams:\n  - input: {{type: generate, context: x}}\n    output: {{type: drop}}\n    pipeline:\n      processors:\n{processors}"
    )
}

fn vrl(statement: &str) -> String {
    with(&format!("        - type: vrl\n          statement: {statement}\n"))
}

fn filter(condition: &str) -> String {
    with(&format!("        - type: filter\n          condition: {condition}\n"))
}

#[test]
fn an_error_in_a_block_has_its_own_place() {
    let text = with(
        "        - type: vrl\n          statement: |\n            # first line\n            .a = 1\n            .b = nope(2)\n",
    );
    refuses(&text, &["10:18", "processors[0].statement", "nope"]);
}

#[test]
fn an_error_elsewhere_has_the_place_of_its_key() {
    refuses(&vrl(".b = nope(2)"), &["7:11", "processors[0].statement", "line 1", "nope"]);
    refuses(&vrl("'.a = '"), &["processors[0].statement"]);
}

#[test]
fn what_can_fail_must_be_handled() {
    let found = problems(&vrl(".n = to_int(.n)"));
    assert!(found[0].contains("unhandled"), "{found:?}");
    accepted(&vrl(".n = to_int!(.n)"));
    accepted(&vrl(".n = to_int(.n) ?? 0"));
}

#[test]
fn read_only_metadata_cannot_be_written() {
    for name in ["topic", "partition", "offset"] {
        refuses(&vrl(&format!("'%{name} = 1'")), &["read-only"]);
        refuses(&vrl(&format!("'del(%{name})'")), &["read-only"]);
    }
    refuses(&vrl("'% = {}'"), &["read-only"]);
    for statement in
        ["'%key = \"k\"'", "'%timestamp = now()'", "'%headers = []'", "'%headers[0].value = \"x\"'", "'.t = %topic'"]
    {
        accepted(&vrl(statement));
    }
}

#[test]
fn unknown_metadata_is_refused() {
    refuses(&vrl("'.k = %kye'"), &["%kye is unknown; did you mean key?"]);
    refuses(&vrl("'%note = 1'"), &["%note is unknown"]);
}

#[test]
fn a_condition_is_true_or_false_and_changes_nothing() {
    accepted(&filter(".a == 1"));
    accepted(&filter("'!is_null(.a) && to_float!(.a) >= 4.5'"));
    accepted(&filter(".flag"));
    refuses(&filter("1 + 1"), &["processors[0].condition", "true or false"]);
    refuses(&filter("'.a = true'"), &["read-only"]);
    refuses(&filter("'%key = \"x\"; true'"), &["read-only"]);
}

#[test]
fn a_result_that_nobody_uses_is_a_mistake() {
    refuses(&vrl("'upcase(\"a\"); .b = 2'"), &["unused"]);
    accepted(&vrl("'.b = 2; .'"));
    accepted(&vrl("'.v2, err = .value * 2; .'"));
}

#[test]
fn there_is_no_way_out() {
    for function in ["get_env_var!(\"HOME\")", "http_request!(\"http://x\")", "dns_lookup!(\"x\")", "get_hostname!()"] {
        let found = problems(&vrl(&format!("'.x = {function}'")));
        assert!(found[0].contains("undefined function"), "{found:?}");
    }
}

#[test]
fn split_takes_a_path_into_the_value() {
    let split = |keys: &str| with(&format!("        - {{type: split{keys}}}\n"));
    accepted(&split(""));
    accepted(&split(", field: '.items[0].parts'"));
    for path in ["'%headers'", "'.a.'", "''"] {
        refuses(&split(&format!(", field: {path}")), &["processors[0].field"]);
    }
}

#[test]
fn the_predecessors_conversions_are_accepted() {
    let step = |step: &str| with(&format!("        - {{{step}}}\n"));
    accepted(&step("type: json_to_arrow"));
    accepted(&step("type: json_to_arrow, value_field: __value__, fields_to_include: [a, b]"));
    accepted(&step("type: arrow_to_json, fields_to_include: [a]"));
    refuses(&step("type: json_to_arrow, value_field: data"), &["value_field", "remove value_field"]);
}

#[test]
fn batch_is_taken_as_arkflow_writes_it_and_stands_last() {
    let batch = |keys: &str| with(&format!("        - {{type: batch{keys}}}\n"));
    accepted(&batch(", count: 10, timeout_ms: 500"));
    accepted(&batch(", name: x, count: 10, interval: 5s, bytes: 1MiB, format: array"));
    let plan = accepted(&batch(", count: 10")).to_string();
    assert!(plan.contains("generate → batch → drop"), "{plan}");
    for (keys, parts) in [
        ("", &["processors[0].count", "a batch needs a count"][..]),
        (", count: 0", &["processors[0].count", "from 1 to 100000"]),
        (", count: 100001", &["processors[0].count", "from 1 to 100000"]),
        (", count: 1, interval: 1s, timeout_ms: 5", &["processors[0].timeout_ms", "interval"]),
        (", count: 1, interval: 0s", &["processors[0].interval", "must not be zero"]),
        (", count: 1, format: lines", &["processors[0].format"]),
        (", count: 1, size: 5", &["processors[0].size", "unknown key"]),
    ] {
        refuses(&batch(keys), parts);
    }
    let filter = "        - {type: filter, condition: 'true'}\n";
    let one = "        - {type: batch, count: 1}\n";
    refuses(&with(&format!("{one}{filter}")), &["processors[0]", "the last processor", "move it to the end"]);
    refuses(&with(&format!("{filter}{one}{one}")), &["processors[2]", "second batch", "processors[1] (line 7)"]);
}

#[test]
fn batch_holds_only_what_can_be_read_again_and_makes_no_lists_of_rows() {
    let pipeline = |keys: &str| format!("    pipeline: {{processors: [{{type: batch, count: 5{keys}}}]}}\n");
    for input in ["type: stdin", "type: http, address: '127.0.0.1:0', path: /x"] {
        let text = stream(input, "type: drop") + &pipeline("");
        refuses(&text, &["processors[0]", "cannot read again", "durability: {path: FOLDER}"]);
        accepted(&format!("{text}    durability: {{path: wal}}\n"));
    }
    let sql = "type: sql, output_type: {type: sqlite, path: a.db}, table_name: t";
    accepted(&(stream(KAFKA_IN, sql) + &pipeline("")));
    refuses(&(stream(KAFKA_IN, sql) + &pipeline(", format: array")), &["processors[0].format", "an sql output"]);
}
