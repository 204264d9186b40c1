//! Records through programs: what is kept, what changes, what is refused.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use wattle::{Header, Offset, Output, Record, Transformer};

use super::{Chain, Item, Processor, Route, Values, read};
use crate::problem::Report;
use crate::yaml::{Field, Format, Map, parse};

/// A chain of `vrl: PROGRAM` and `filter: CONDITION`.
fn step(item: &Field, text: &str) -> Option<Processor> {
    match read(item, text)? {
        Item::Processor(processor) => Some(*processor),
        Item::Batch(_) => panic!("no step of a chain"),
    }
}

fn chain(processors: &[(&str, &str)]) -> Chain {
    let mut text = String::from("processors:\n");
    for (kind, program) in processors {
        let key = if *kind == "vrl" { "statement" } else { "condition" };
        text += &format!("  - type: {kind}\n    {key}: |\n      {}\n", program.replace('\n', "\n      "));
    }
    let report = Report::default();
    let root = parse(&text, Format::Yaml, &report).unwrap();
    let items =
        Map::root(&root, &report).unwrap().get_filled("processors").and_then(|field| field.list()).unwrap_or_default();
    let processors: Vec<_> = items.iter().filter_map(|item| step(item, &text)).collect();
    if let Some(problems) = report.into_problems("test".into()) {
        panic!("{problems}");
    }
    Chain::new(processors, Arc::new(vec![Route::to("out")]), Values::Any)
}

fn vrl(program: &str) -> Chain {
    chain(&[("vrl", program)])
}

fn filter(condition: &str) -> Chain {
    chain(&[("filter", condition)])
}

fn record(value: Option<&[u8]>) -> Record<'_> {
    Record {
        topic: "in",
        partition: 3,
        offset: Offset(42),
        timestamp: Some(1_517_363_399_650),
        key: Some(b"k"),
        value,
        headers: &[],
    }
}

fn run(chain: &Chain, record: &Record<'_>) -> Result<Output, String> {
    let mut output = Output::default();
    let result = {
        let future = pin!(chain.transform(record, &mut output));
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("a chain never waits"),
        }
    };
    result.map(|()| output).map_err(|error| error.to_string())
}

/// The value that comes out; `None` for a tombstone.
fn value_of(chain: &Chain, value: &str) -> Option<String> {
    let output = run(chain, &record(Some(value.as_bytes()))).unwrap();
    assert_eq!(output.len(), 1);
    output.get(0).value.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

fn fails(chain: &Chain, value: &[u8], part: &str) {
    let error = run(chain, &record(Some(value))).expect_err("must fail");
    assert!(error.contains(part), "{part:?} is not in {error:?}");
}

#[test]
fn numbers_keep_their_value() {
    let rewrite = vrl(".new = true");
    let values = [
        ("{\"a\":9007199254740993}", "{\"a\":9007199254740993,\"new\":true}"),
        (
            "{\"a\":[9223372036854775807,-9223372036854775808]}",
            "{\"a\":[9223372036854775807,-9223372036854775808],\"new\":true}",
        ),
        ("{\"a\":[1,1.0,-0.5,0.1]}", "{\"a\":[1,1.0,-0.5,0.1],\"new\":true}"),
        ("{\"a\":[1e2,1E-7,1e300,5e-324]}", "{\"a\":[100.0,1e-7,1e300,5e-324],\"new\":true}"),
        ("{\"a\":[118.5183333,2.50,0.0,0e9]}", "{\"a\":[118.5183333,2.5,0.0,0.0],\"new\":true}"),
        ("{\"a\":1.7976931348623157e308}", "{\"a\":1.7976931348623157e308,\"new\":true}"),
        ("{\"a\":0.10000000000000001}", "{\"a\":0.1,\"new\":true}"),
        ("{\"a\":0.30000000000000004}", "{\"a\":0.30000000000000004,\"new\":true}"),
    ];
    for (value, expected) in values {
        assert_eq!(value_of(&rewrite, value).unwrap(), expected);
    }
}

#[test]
fn a_number_that_would_change_is_refused_with_its_path() {
    let rewrite = vrl(".new = true");
    for number in ["18446744073709551615", "9223372036854775808", "-9223372036854775809"] {
        fails(&rewrite, format!("{{\"a\":{{\"b\":[0,{number}]}}}}").as_bytes(), ".a.b[1]: the integer does not fit");
    }
    for number in
        ["0.1000000000000000055", "1e400", "1e-400", "123456789012345678.5", "1e99999999999", "9007199254740993.0"]
    {
        fails(&rewrite, format!("{{\"a\":{number}}}").as_bytes(), ".a: a 64-bit float cannot hold");
    }
}

#[test]
fn what_no_program_changes_keeps_its_bytes() {
    for chain in [filter("true"), filter(".a == 1.50"), vrl("if exists(.a) { .a }")] {
        let value = "{ \"b\" : 1e2,\"a\":1.50, \"b\":\"\\u00e9\" }";
        assert_eq!(value_of(&chain, value).unwrap(), value);
    }
    let output = run(&vrl("%key = \"new\""), &record(Some(b"{\"z\":1, \"a\":2}"))).unwrap();
    assert_eq!((output.get(0).key, output.get(0).value), (Some(&b"new"[..]), Some(&b"{\"z\":1, \"a\":2}"[..])));
}

#[test]
fn values_that_no_program_looks_at_may_be_anything() {
    for value in [None, Some(&b""[..]), Some(b"\x80\x81\x00\n")] {
        for chain in [chain(&[]), filter("%key == \"k\"")] {
            let output = run(&chain, &record(value)).unwrap();
            assert_eq!((output.get(0).value, output.get(0).topic), (value, "out"));
        }
    }
}

#[test]
fn what_is_not_json_is_refused_where_a_program_looks() {
    let chain = filter("exists(.a)");
    fails(&chain, b"", "not JSON at byte 0: expected value");
    fails(&chain, b"{bad", "not JSON at byte 1");
    fails(&chain, b"{\"a\":1} x", "not JSON at byte 8");
    fails(&chain, b"\"\xff\"", "not JSON");
    fails(&chain, b"{\"a\":\"\\ud800\"}", "not JSON");
    for number in ["01", "1.", "-", "+1", ".5", "1e", "NaN", "Infinity", "0x1"] {
        fails(&chain, number.as_bytes(), "not JSON");
    }
}

#[test]
fn deep_nesting_is_a_failure_and_no_crash() {
    let chain = filter("exists(.a)");
    let deep = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    for text in [deep("[", "]", 100_000), deep("{\"a\":", "}", 50_000), deep("[", "]", 129)] {
        fails(&chain, text.as_bytes(), "nested deeper than 128");
    }
    assert!(run(&chain, &record(Some(deep("[", "]", 128).as_bytes()))).is_ok());
    fails(&vrl(". = [.]"), deep("[", "]", 128).as_bytes(), "nested deeper than 128");
    fails(&vrl(".b = parse_json!(.a)"), format!("{{\"a\":\"{}\"}}", "[".repeat(100_000)).as_bytes(), "recursion");
}

#[test]
fn of_members_with_one_name_the_last_wins() {
    assert_eq!(value_of(&vrl(".q = .qty"), "{\"qty\":1,\"qty\":-1}").unwrap(), "{\"q\":-1,\"qty\":-1}");
}

#[test]
fn members_that_come_late_or_change_their_type_are_kept() {
    let chain = vrl(".seen = true");
    for (value, expected) in [
        ("{\"id\":1,\"u\":null}", "{\"id\":1,\"seen\":true,\"u\":null}"),
        ("{\"id\":2,\"u\":\"x\"}", "{\"id\":2,\"seen\":true,\"u\":\"x\"}"),
        ("{\"id\":3}", "{\"id\":3,\"seen\":true}"),
        ("{\"id\":\"4\",\"late\":7,\"u\":1.5}", "{\"id\":\"4\",\"late\":7,\"seen\":true,\"u\":1.5}"),
    ] {
        assert_eq!(value_of(&chain, value).unwrap(), expected);
    }
}

#[test]
fn names_of_members_keep_their_case() {
    let chain = vrl(".x = .userId\n.y = .b\n.z = .userid");
    let value = "{\"B\":2,\"b\":1,\"userId\":5}";
    assert_eq!(value_of(&chain, value).unwrap(), "{\"B\":2,\"b\":1,\"userId\":5,\"x\":5,\"y\":1,\"z\":null}");
}

#[test]
fn a_day_of_a_zone_begins_where_its_clocks_say() {
    let day = |instant: &str| {
        let program = format!(". = format_timestamp!(t'{instant}', \"%Y-%m-%d %H:%M\", timezone: \"America/Denver\")");
        value_of(&vrl(&program), "{}").unwrap()
    };
    // The clocks go forward at 09:00Z on 10 March.
    let days = ["2024-03-10T06:30:00Z", "2024-03-10T07:30:00Z", "2024-03-11T06:30:00Z"].map(day);
    assert_eq!(days, ["\"2024-03-09 23:30\"", "\"2024-03-10 00:30\"", "\"2024-03-11 00:30\""]);
}

#[test]
fn any_json_value_is_a_record() {
    for value in ["1", "\"x\"", "[1,2]", "true"] {
        assert_eq!(value_of(&vrl(". = {\"v\": .}"), value).unwrap(), format!("{{\"v\":{value}}}"));
    }
    assert_eq!(value_of(&vrl(". = \"a\\\"\\n\\\\ é\""), "1").unwrap(), "\"a\\\"\\n\\\\ é\"");
}

#[test]
fn null_is_a_tombstone_on_both_sides() {
    assert_eq!(value_of(&vrl(". = null"), "{}"), None);
    assert_eq!(value_of(&vrl("del(.)"), "{\"a\":1}").as_deref(), Some("{}"));
    let output = run(&filter("is_null(.)"), &record(None)).unwrap();
    assert_eq!(output.get(0).value, None);
    let output = run(&vrl("if . == null { . = {\"deleted\": %key} }"), &record(None)).unwrap();
    assert_eq!(output.get(0).value, Some(&b"{\"deleted\":\"k\"}"[..]));
    assert_eq!(value_of(&filter("is_null(.)"), "null").as_deref(), Some("null"));
}

#[test]
fn a_float_without_a_number_in_json_is_refused() {
    fails(&vrl(".x = to_float!(.x) * to_float!(.x)"), b"{\"x\":1e300}", ".x: JSON has no number for infinity");
}

#[test]
fn metadata_can_be_read() {
    let program = ". = [%topic, %partition, %offset, %timestamp, %key, %headers]";
    let headers = [Header { name: "h".into(), value: Some(b"1".to_vec()) }, Header { name: "h".into(), value: None }];
    let output = run(&vrl(program), &Record { headers: &headers, ..record(None) }).unwrap();
    assert_eq!(
        String::from_utf8_lossy(output.get(0).value.unwrap()),
        "[\"in\",3,42,\"2018-01-31T01:49:59.650Z\",\"k\",[{\"name\":\"h\",\"value\":\"1\"},{\"name\":\"h\",\"value\":null}]]"
    );
    let output = run(&vrl(". = [%timestamp, %key, %headers]"), &Record { timestamp: None, key: None, ..record(None) });
    assert_eq!(output.unwrap().get(0).value, Some(&b"[null,null,[]]"[..]));
}

#[test]
fn headers_keep_order_duplicates_and_nulls() {
    let header = |name: &str, value: Option<&[u8]>| Header { name: name.into(), value: value.map(<[u8]>::to_vec) };
    let headers = [header("b", Some(b"\xff\x00")), header("a", None), header("b", Some(b""))];
    let input = Record { headers: &headers, ..record(Some(b"{}")) };
    assert_eq!(run(&vrl(".a = 1"), &input).unwrap().get(0).headers, headers);
    let program = "%headers = push(%headers, {\"name\": \"c\", \"value\": \"x\"})";
    let mut expected = headers.to_vec();
    expected.push(header("c", Some(b"x")));
    assert_eq!(run(&vrl(program), &input).unwrap().get(0).headers, expected);
    assert_eq!(run(&vrl("%headers = []"), &input).unwrap().get(0).headers, []);
    for wrong in
        ["%headers = [{\"name\": 1, \"value\": null}]", "%headers = [{\"name\": \"a\"}]", "%headers[5].name = \"x\""]
    {
        fails(&vrl(wrong), b"{}", "%headers");
    }
}

#[test]
fn key_and_timestamp_can_be_written() {
    let output = run(&vrl("%key = null\n%timestamp = t'2018-01-31T00:00:00.5Z'"), &record(None)).unwrap();
    assert_eq!((output.get(0).key, output.get(0).timestamp), (None, Some(1_517_356_800_500)));
    let binary = Record { key: Some(b"\x00\x01\xff"), ..record(Some(b"{}")) };
    assert_eq!(run(&vrl("%key = %key\n.a = 1"), &binary).unwrap().get(0).key, Some(&b"\x00\x01\xff"[..]));
    fails(&vrl("%key = .a"), b"{\"a\":5}", "%key must be a string or null, not integer");
    fails(&vrl("%timestamp = null"), b"{}", "%timestamp must be a timestamp, not null");
    fails(&vrl("%timestamp = t'1969-12-31T00:00:00Z'"), b"{}", "before 1970");
}

#[test]
fn bytes_that_are_no_text_do_not_become_text() {
    let input = Record { key: Some(b"\xff"), ..record(Some(b"{}")) };
    let error = run(&vrl(".k = %key"), &input).unwrap_err();
    assert!(error.contains(".k: the string is not valid UTF-8"), "{error}");
}

#[test]
fn a_filter_keeps_or_leaves_out_or_fails() {
    let chain = filter(".mag != null && to_float!(.mag) >= 4.5");
    for (value, kept) in
        [("{\"mag\":5}", 1), ("{\"mag\":4.5}", 1), ("{\"mag\":4.4}", 0), ("{\"mag\":null}", 0), ("{}", 0)]
    {
        assert_eq!(run(&chain, &record(Some(value.as_bytes()))).unwrap().len(), kept, "{value}");
    }
    fails(&chain, b"{\"mag\":\"big\"}", "processors[0] (filter): line 1: to_float: Invalid");
    fails(&filter(".a"), b"{\"a\":1}", "the condition is neither true nor false but integer");
    fails(&filter(".a"), b"{}", "the condition is neither true nor false but null");
}

#[test]
fn processors_run_one_after_another_on_one_record() {
    let chain = chain(&[("vrl", ".a = 1"), ("filter", ".a == 1"), ("vrl", ".b = .a\n%key = \"n\"\n.k = %key")]);
    assert_eq!(value_of(&chain, "{}").unwrap(), "{\"a\":1,\"b\":1,\"k\":\"n\"}");
}

#[test]
fn a_failure_names_processor_and_line_but_not_the_contents() {
    fails(
        &vrl(".x = 1\n.n = to_int!(.s)"),
        b"{\"s\":\"S3cr3t\"}",
        "processors[0] (vrl): line 2: to_int: Invalid integer \"…\"",
    );
    let error = run(&vrl(".n = to_int!(.s)"), &record(Some(b"{\"s\":\"S3cr3t\"}"))).unwrap_err();
    assert!(!error.contains("S3cr3t"), "{error}");
    fails(&vrl("\nabort \"no good\""), b"{}", "line 2: aborted: no good");
    fails(&vrl("if exists(.a) { abort }"), b"{\"a\":1}", "aborted");
}

#[test]
fn a_file_must_be_json_even_without_processors() {
    let chain = Chain::new(Vec::new(), Arc::new(vec![Route::to("out")]), Values::Json);
    assert_eq!(value_of(&chain, "{\"d\":18446744073709551615}").unwrap(), "{\"d\":18446744073709551615}");
    fails(&chain, b"{bad", "not JSON at byte 1");
    fails(&chain, b"\"\xff\"", "not JSON at byte 1: invalid UTF-8");
    fails(&chain, "[".repeat(100_000).as_bytes(), "nested deeper");
}

fn steps(processors: &str, routes: &[&str]) -> Chain {
    let report = Report::default();
    let text = format!("processors: [{processors}]\ntopics: [a, b]\nroutes: [{}]\n", routes.join(", "));
    let root = parse(&text, Format::Yaml, &report).unwrap();
    let mut map = Map::root(&root, &report).unwrap();
    let items = map.get_filled("processors").and_then(|field| field.list()).unwrap_or_default();
    let processors: Vec<_> = items.iter().filter_map(|item| step(item, &text)).collect();
    let topics = map.get("topics").unwrap().names();
    let routes = map.get("routes").unwrap().list().unwrap();
    let routes: Vec<_> = routes.iter().filter_map(|route| Route::named(route, topics.clone(), &text)).collect();
    if let Some(problems) = report.into_problems("test".into()) {
        panic!("{problems}");
    }
    let routes = if routes.is_empty() { vec![Route::to("out")] } else { routes };
    Chain::new(processors, Arc::new(routes), Values::Any)
}

/// `topic key value`, one a message.
fn texts(output: &Output) -> Vec<String> {
    let text = |bytes: Option<&[u8]>| bytes.map_or("null".to_owned(), |b| String::from_utf8_lossy(b).into_owned());
    output.iter().map(|m| format!("{} {} {}", m.topic, text(m.key), text(m.value))).collect()
}

#[test]
fn a_list_is_split_into_records_in_order_or_the_whole_record_fails() {
    let chain = steps(
        "{type: vrl, statement: '%key = .id'}, {type: split, field: .items}, {type: filter, condition: '. != 2'}",
        &[],
    );
    let output = run(&chain, &record(Some(br#"{"id":"x","items":[1,2,{"a":[3]},null]}"#))).unwrap();
    assert_eq!(texts(&output), ["out x 1", r#"out x {"a":[3]}"#, "out x null"]);
    assert!(output.iter().all(|message| message.timestamp == Some(1_517_363_399_650)));
    assert_eq!(run(&steps("{type: split}", &[]), &record(Some(b"[]"))).unwrap().len(), 0);
    let error = run(&steps("{type: split, field: .items}", &[]), &record(Some(b"{\"items\":5}"))).unwrap_err();
    assert_eq!(error, "processors[0] (split): .items must be a list, not integer");
    let error = run(&steps("{type: split}", &[]), &record(None)).unwrap_err();
    assert_eq!(error, "processors[0] (split): . must be a list, not null");
    let each = steps("{type: split}, {type: vrl, statement: '. = int!(.) + 1'}", &[]);
    assert!(run(&each, &record(Some(b"[1,\"x\"]"))).unwrap_err().starts_with("processors[1] (vrl): line 1: "));
}

#[test]
fn a_record_goes_to_the_topic_that_an_expression_names() {
    let chain = steps("", &["'.kind'"]);
    assert_eq!(texts(&run(&chain, &record(Some(br#"{"kind":"b"}"#))).unwrap()), [r#"b k {"kind":"b"}"#]);
    let refused = |value: &[u8]| run(&chain, &record(Some(value))).unwrap_err();
    assert_eq!(refused(br#"{"kind":"c"}"#), "routes[0]: names the topic c, which is none of its topics (a, b)");
    let error = refused(br#"{"kind":"my secret"}"#);
    assert_eq!(error, "routes[0]: names something that is no name of a topic, which is none of its topics (a, b)");
    assert_eq!(refused(br#"{"kind":null}"#), "routes[0]: must name a topic, and is null");
    assert_eq!(refused(b"{}"), "routes[0]: must name a topic, and is null");
    assert!(refused(b"no").starts_with("routes[0]: not JSON"), "{}", refused(b"no"));
}

#[test]
fn a_record_goes_all_ways_and_each_part_of_it_its_own() {
    let chain = steps("{type: split}", &["'.k'", "'if %offset == 42 { \"a\" } else { \"b\" }'"]);
    let output = run(&chain, &record(Some(br#"[{"k":"a"},{"k":"b"}]"#))).unwrap();
    assert_eq!(texts(&output), [r#"a k {"k":"a"}"#, r#"a k {"k":"a"}"#, r#"b k {"k":"b"}"#, r#"a k {"k":"b"}"#]);
}

#[test]
fn json_to_arrow_refuses_what_is_not_json_and_keeps_the_fields_that_are_listed() {
    let check = steps("{type: json_to_arrow}, {type: arrow_to_json}", &[]);
    let untouched = br#"{"n": 123456789012345678901234567890}"#;
    assert_eq!(run(&check, &record(Some(untouched))).unwrap().get(0).value, Some(&untouched[..]));
    assert_eq!(run(&check, &record(None)).unwrap().get(0).value, None);
    assert!(run(&check, &record(Some(b"{"))).unwrap_err().starts_with("processors[0] (json_to_arrow): not JSON"));
    let some = steps("{type: json_to_arrow, fields_to_include: [b, c]}", &[]);
    assert_eq!(texts(&run(&some, &record(Some(br#"{"c":1,"a":2,"b":3}"#))).unwrap()), [r#"out k {"b":3,"c":1}"#]);
    assert_eq!(run(&some, &record(None)).unwrap().get(0).value, None);
    let error = run(&some, &record(Some(b"[1]"))).unwrap_err();
    assert_eq!(error, "processors[0] (json_to_arrow): fields_to_include needs an object, not array");
}

/// A chain of programs, and a key, as YAML flow.
fn keyed(key: &str, processors: &[(&str, &str)]) -> Chain {
    let report = Report::default();
    let root = parse(&format!("key: {key}"), Format::Yaml, &report).unwrap();
    let key = Map::root(&root, &report).unwrap().get("key").and_then(|field| super::key::read(&field, ""));
    if let Some(problems) = report.into_problems("test".into()) {
        panic!("{problems}");
    }
    chain(processors).with_key(key)
}

#[test]
fn a_key_comes_from_the_record_as_the_processors_left_it() {
    let key = |chain: &Chain, value: &[u8]| {
        let output = run(chain, &record(Some(value)))?;
        Ok::<_, String>(output.iter().next().unwrap().key.map(|key| String::from_utf8(key.to_vec()).unwrap()))
    };
    let by_name = keyed("{type: expr, expr: customer.id}", &[]);
    assert_eq!(key(&by_name, br#"{"customer": {"id": "c-7"}}"#), Ok(Some("c-7".to_owned())));
    assert_eq!(key(&by_name, br#"{"customer": {"id": 7}}"#), Ok(Some("7".to_owned())));
    assert_eq!(key(&by_name, br#"{"customer": 1}"#), Ok(None), "null keeps the place of its record");
    assert!(key(&by_name, br#"{"customer": {"id": 1.5}}"#).unwrap_err().contains("output.key: must be a string"));
    let by_program = keyed("{type: expr, expr: 'upcase!(.n) + \"-\" + string!(%key)'}", &[("vrl", ".n = \"changed\"")]);
    assert_eq!(key(&by_program, b"{}"), Ok(Some("CHANGED-k".to_owned())));
    assert!(key(&keyed("{type: expr, expr: upcase!(.n)}", &[]), b"{}").unwrap_err().contains("output.key: line 1: "));
    assert_eq!(key(&keyed("{type: value, value: all}", &[]), b"not json"), Ok(Some("all".to_owned())));
}

#[test]
fn a_program_that_is_nested_too_deeply_is_refused_and_does_not_end_the_process() {
    let program = |depth: usize| format!(".a = {}1{}", "(".repeat(depth), ")".repeat(depth));
    let refused = std::panic::catch_unwind(|| vrl(&program(20_000))).err().expect("it is refused");
    let text = refused.downcast_ref::<String>().expect("a text");
    assert!(
        text.contains("processors[0].statement") && text.contains("is nested 20001 deep, and 500 is the most"),
        "{text}"
    );
}
