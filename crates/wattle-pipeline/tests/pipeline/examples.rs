//! The shipped examples are accepted as they are, and say what they do.

use std::path::Path;

use wattle_pipeline::{Context, Plan};

fn example(name: &str) -> Plan {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read_to_string(&file).unwrap();
    let context = Context { file: &file, brokers: Some("localhost:9092".to_owned()), env: &|_| None };
    wattle_pipeline::plan(&text, &context).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn load_is_finite_and_exactly_once() {
    let plan = example("load.yaml");
    assert_eq!(
        plan.to_string(),
        "load   file earthquakes.jsonl → vrl → kafka quakes   exactly once: the file's position commits with the records\n"
    );
    assert!(plan.streams[0].is_finite());
}

#[test]
fn strong_is_exactly_once() {
    let plan = example("strong.yaml");
    assert_eq!(plan.streams[0].route(), "kafka quakes → filter, vrl → kafka strong-quakes");
    assert!(plan.streams[0].guarantee().starts_with("exactly once: offsets commit in the same transaction"));
    assert!(!plan.streams[0].is_finite());
}

#[test]
fn by_region_moves_failed_records_aside() {
    let plan = example("by-region.yaml");
    assert!(plan.streams[0].route().ends_with("kafka quakes-by-region (failed records: quakes-without-region)"));
    assert!(plan.streams[0].guarantee().starts_with("at least once: offsets commit after"));
}
