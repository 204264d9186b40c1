//! One pipeline in YAML, JSON and TOML: the same plan, and problems with their lines.

use std::path::Path;

use wattle_pipeline::{Context, Plan, Problems, plan};

use crate::support::lines;

const YAML: &str = "streams:\n  - id: copy\n    input: {type: kafka, topics: ['${TOPIC}'], consumer_group: g}\n    pipeline:\n      processors:\n        \
                    - type: vrl\n          statement: |\n            .a = 1\n            .b = 2\n    output: {type: kafka, topic: b}\n";
const JSON: &str = r#"{
	"streams": [
		{
			"id": "copy",
			"input": {"type": "kafka", "topics": ["${TOPIC}"], "consumer_group": "g\u00e9\/\ud83d\ude00", "start_from_latest": false},
			"pipeline": {"processors": [{"type": "vrl", "statement": ".a = 1\n.b = 2"}]},
			"output": {"type": "kafka", "topic": "b"}
		}
	]
}"#;
const TOML: &str = "[[streams]]\nid = \"copy\"\n\n[streams.input]\ntype = \"kafka\"\ntopics = [\"${TOPIC}\"]\nconsumer_group = \"g\"\n\
                    start_from_latest = false\n\n[[streams.pipeline.processors]]\ntype = \"vrl\"\nstatement = '''\n.a = 1\n.b = 2\n'''\n\n\
                    [streams.output]\ntype = \"kafka\"\ntopic = \"b\"\n";

fn planned(file: &str, text: &str) -> Result<Plan, Problems> {
    let env = |name: &str| (name == "TOPIC").then(|| "a".to_owned());
    plan(text, &Context { file: Path::new(file), brokers: Some("x:1".to_owned()), env: &env })
}

fn refused(file: &str, text: &str) -> Vec<String> {
    lines(&planned(file, text).err().expect("it is refused"))
}

#[test]
fn the_extension_says_how_a_file_is_written() {
    for (file, text) in
        [("p.yaml", YAML), ("p.yml", YAML), ("p", YAML), ("p.json", JSON), ("p.toml", TOML), ("p.TOML", TOML)]
    {
        let plan = planned(file, text).unwrap_or_else(|problems| panic!("{problems}"));
        let shown = (plan.streams[0].id(), plan.streams[0].route());
        assert_eq!(shown, ("copy", "kafka a → vrl → kafka b".to_owned()), "{file}");
    }
}

#[test]
fn problems_have_their_lines_in_every_format() {
    for (file, text, from, to, place) in [
        ("p.yaml", YAML, "id: copy", "di: copy", "2:5 streams[0].di unknown key; did you mean id?"),
        ("p.json", JSON, "\"id\"", "\"di\"", "4:4 streams[0].di unknown key; did you mean id?"),
        ("p.toml", TOML, "id =", "di =", "2:1 streams[0].di unknown key; did you mean id?"),
        ("p.toml", TOML, "false", "5", "8:1 streams[0].input.start_from_latest must be true or false, not \"5\""),
        (
            "p.toml",
            TOML,
            "[streams.output]",
            "[streams.outptu]",
            "17:10 streams[0].outptu unknown key; did you mean output?",
        ),
    ] {
        let found = refused(file, &text.replace(from, to));
        assert!(found.iter().any(|problem| problem == place), "{place}: {found:#?}");
    }
    // A program's own lines, where the file has them.
    for (file, text, place) in [("p.yaml", YAML, "9:"), ("p.json", JSON, "6:"), ("p.toml", TOML, "14:")] {
        let found = refused(file, &text.replace(".b = 2", ".b = nope(2)"));
        assert!(found[0].starts_with(place) && found[0].contains("processors[0].statement"), "{found:#?}");
    }
}

#[test]
fn what_is_not_the_format_is_said_with_its_name() {
    assert!(refused("p.json", "{\"streams\": [}")[0].contains("not JSON: "));
    assert!(refused("p.toml", "streams = [\n")[0].contains("not TOML: "));
    let twice = refused("p.toml", "a = 1\na = 2\n");
    assert!(twice[0].starts_with("2:1") && twice[0].contains("duplicate key"), "{twice:?}");
    assert!(refused("p.toml", "")[0].contains("needs a list of streams"));
}

#[test]
fn unset_variables_are_named_in_every_format() {
    for (file, text) in [("p.yaml", YAML), ("p.json", JSON), ("p.toml", TOML)] {
        let found = refused(file, &text.replace("${TOPIC}", "${NOPE}"));
        assert!(found[0].contains("streams[0].input.topics[0] the environment variable NOPE is not set"), "{found:?}");
    }
}
