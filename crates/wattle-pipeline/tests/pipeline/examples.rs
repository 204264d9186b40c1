//! The shipped examples are accepted as they are, and say what they do.

use std::path::Path;

use wattle_pipeline::{Context, Plan};

fn example(name: &str) -> Plan {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read_to_string(&file).unwrap();
    let context = Context { file: &file, brokers: None, env: &|_| None };
    wattle_pipeline::plan(&text, &context).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_earthquakes_are_exactly_once_from_the_file_on() {
    let plan = example("earthquakes.yaml");
    let [load, strong] = &plan.streams[..] else { panic!("two streams") };
    assert_eq!(load.route(), "file earthquakes.jsonl → vrl → kafka quakes");
    assert!(load.guarantee().starts_with("exactly once: the file's position commits"), "{}", load.guarantee());
    assert!(load.is_finite());
    assert_eq!(strong.route(), "kafka quakes → filter, vrl → kafka strong-quakes");
    assert!(strong.guarantee().starts_with("exactly once: offsets commit in the same transaction"));
    assert!(!strong.is_finite());
    assert_eq!(plan.embedded_topics().unwrap().into_iter().collect::<Vec<_>>(), ["quakes", "strong-quakes"]);
}

#[test]
fn by_region_moves_failed_records_aside() {
    let plan = example("by-region.yaml");
    assert!(plan.streams[0].route().ends_with("kafka quakes-by-region (failed records: quakes-without-region)"));
    assert!(plan.streams[0].guarantee().starts_with("at least once: offsets commit after"));
}

#[test]
fn requests_are_exactly_once_from_their_log_on() {
    let plan = example("ingest.yaml");
    assert_eq!(plan.streams[0].route(), "http 127.0.0.1:8080/orders → vrl → kafka orders");
    assert!(plan.streams[0].guarantee().starts_with("exactly once: from the write-ahead log on"));
    assert!(!plan.streams[0].is_finite());
}
