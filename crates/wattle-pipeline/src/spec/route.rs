//! The `topic` of a Kafka output, and the topics of a list of outputs.

use super::{Surroundings, kafka};
use crate::chain::Route;
use crate::yaml::{Field, Given, Map, Value};

/// `topic`: a name, `{type: value, value: NAME}`, or `{type: expr, expr: PROGRAM}` with the names that are possible in `topics`.
pub(super) fn route(map: &mut Map, text: &str) -> Option<Route> {
    let topic = map.required("topic", "a kafka output needs a topic");
    let topics = map.get("topics");
    let topic = topic?;
    let expression = match topic.is_structure() {
        true => expr(&topic)?,
        false => Expr::Value(topic.given(kafka::topic(&topic))),
    };
    match (expression, topics) {
        (Expr::Value(topic), topics) => {
            if let Some(field) = topics {
                let text = "is the list of what an expression may name, and this topic is always the same; remove it";
                field.problem_unless(&[map.path_of("topic")], text);
            }
            (!topic.value.is_empty()).then_some(Route::Topic(topic))
        }
        (Expr::Program(program), Some(topics)) => Route::named(&program, kafka::topics(&topics), text),
        (Expr::Program(_), None) => {
            let remedy = "a topic that is computed needs a list of all that it may be: a start checks that they exist, and a name that is misspelt \
                          creates none. Add  topics: [NAME, NAME]";
            map.missing("topics", remedy);
            None
        }
    }
}

enum Expr<'a> {
    Value(Given<String>),
    Program(Field<'a>),
}

fn expr<'a>(field: &Field<'a>) -> Option<Expr<'a>> {
    let mut map = Map::of(field)?;
    let kind = map.required("type", "needs type: value or type: expr")?.word(&[("value", false), ("expr", true)])?;
    let found = match kind {
        false => {
            map.required("value", "needs the topic's name").map(|field| Expr::Value(field.given(kafka::topic(&field))))
        }
        true => map.required("expr", "needs a VRL expression that is the topic's name").map(Expr::Program),
    };
    map.finish();
    found
}

/// Keys that each output of a list has for itself.
const OWN: [&str; 4] = ["type", "brokers", "topic", "topics"];

/// The routes of all outputs of a list; those of the first are there.
pub(super) fn routes(
    mut routes: Vec<Route>,
    brokers: &str,
    items: &[Field],
    surroundings: &Surroundings,
) -> Vec<Route> {
    for item in &items[1..] {
        let Some(mut map) = Map::of(item) else { continue };
        if !is_kafka(&mut map) {
            continue;
        }
        if let Some(field) = map.get("brokers") {
            let own = kafka::addresses(&field);
            if !own.is_empty() && !brokers.is_empty() && !kafka::same_brokers(&own, brokers) {
                field.problem("must be the same as that of the first output: what is written together is one transaction, which cannot span two clusters; remove it");
            }
        }
        let route = route(&mut map, surroundings.text);
        same_settings(map, &items[0]);
        let Some(route) = route else { continue };
        for topic in route.topics() {
            if routes.iter().flat_map(Route::topics).any(|other| other.value == topic.value) {
                item.problem_at(
                    topic,
                    "an output before it writes to the same topic, which would have each record twice",
                );
            }
        }
        routes.push(route);
    }
    routes
}

/// What is not an output's own is that of the first: one producer writes them all.
fn same_settings(map: Map, first: &Field) {
    let known: Vec<(&str, Field)> = Map::of(first).map(|map| map.entries().collect()).unwrap_or_default();
    for (key, field) in map.entries().filter(|(key, _)| !OWN.contains(key)) {
        let text = |field: &Field| match &field.node.value {
            Value::Scalar(scalar) => Some(scalar.text.clone()),
            _ => None,
        };
        let same =
            known.iter().any(|(name, other)| *name == key && text(other).is_some() && text(other) == text(&field));
        if !same {
            field.problem("must be as in the first output, since all outputs of a stream are written together; set it there, and remove it here");
        }
    }
}

/// The `type` of an output of a list.
pub(super) fn is_kafka(map: &mut Map) -> bool {
    let Some(kind) = map.required("type", "an output of a list needs type: kafka") else { return false };
    let text = kind.scalar().map(|scalar| scalar.text.as_str());
    if matches!(text, Some("sql" | "http" | "file" | "stdout" | "drop")) {
        let text = "outputs of a list are written together, and only topics of one Kafka cluster can be: use type: kafka, or write to one topic \
                    that several streams read";
        kind.problem(text);
        return false;
    }
    kind.word(&[("kafka", ())]).is_some()
}
