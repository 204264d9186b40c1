//! Programs are compiled by the plan.

use crate::support::{accepted, problems, refuses};

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
