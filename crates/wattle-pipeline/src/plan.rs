//! A checked file: what will run, and with which guarantee. Nothing has been opened or connected yet.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::cases::{self, Case};
use crate::chain::Route;
use crate::guarantee;
use crate::problem::{Problem, Problems, Report};
use crate::run::{Clusters, Link};
use crate::spec::{
    self, Durability, EMBEDDED, ErrorOutput, HealthCheck, Input, Logging, Output, SqlMode, Stream, Surroundings,
};
use crate::yaml::{self, Map};

/// Where the text came from and what surrounds it.
pub struct Context<'a> {
    /// The pipeline file: named in problems; paths in it are relative to its folder.
    pub file: &'a Path,
    /// Brokers for Kafka components that name none; `embedded` is understood as in the file.
    pub brokers: Option<String>,
    /// Looks up `${VAR}`; a function, so that tests need no process environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Checks a pipeline file's text and plans its streams. Pure: looks at no file and no broker.
///
/// # Errors
/// Every problem of the file at once.
pub fn plan(text: &str, context: &Context) -> Result<Plan, Problems> {
    let report = Report::default();
    let file = plan_reported(text, context, &report);
    let notes = report.take_notes();
    match report.into_problems(context.file.to_path_buf()) {
        Some(problems) => Err(problems),
        None => Ok(Plan {
            streams: file.streams.into_iter().map(StreamPlan).collect(),
            logging: file.logging,
            notes,
            health: file.health,
            cases: file.cases,
        }),
    }
}

/// What is left of the file after all problems.
pub(crate) fn plan_reported(text: &str, context: &Context, report: &Report) -> spec::File {
    let Some(mut root) = yaml::parse(text, yaml::Format::of(context.file), report) else {
        return spec::File::default();
    };
    yaml::substitute(&mut root, "", context.env, report);
    let folder = context.file.parent().unwrap_or(Path::new(""));
    let brokers = context.brokers.as_deref().filter(|brokers| !brokers.trim().is_empty());
    let surroundings = Surroundings { text, folder, file: context.file, brokers };
    spec::read(&root, &surroundings, report)
}

/// Adds the tests of another file to a plan: its only key is `tests`.
///
/// # Errors
/// Every problem of that file at once.
pub fn add_cases(
    plan: &mut Plan,
    text: &str,
    file: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Problems> {
    let report = Report::default();
    if let Some(mut root) = yaml::parse(text, yaml::Format::of(file), &report) {
        yaml::substitute(&mut root, "", env, &report);
        if let Some(mut map) = Map::root(&root, &report) {
            let tests = map.required("tests", "a file of tests needs a list of tests");
            map.finish();
            let streams = plan.streams.iter().map(|stream| &stream.0);
            plan.cases.extend(tests.map(|field| cases::read(&field, file, streams)).unwrap_or_default());
        }
    }
    report.into_problems(file.to_path_buf()).map_or(Ok(()), Err)
}

/// The checked streams of a file. `Display` is one line a stream, and one a note.
pub struct Plan {
    /// In the order of the file.
    pub streams: Vec<StreamPlan>,
    /// What the file says about the log.
    pub logging: Logging,
    /// What is right, and does less or more than its words: what whoever wrote it should know. In the order of their places.
    pub notes: Vec<Problem>,
    /// Where it answers whether it is well.
    pub(crate) health: Option<HealthCheck>,
    pub(crate) cases: Vec<Case>,
}

impl Plan {
    /// The topics that streams read and write with `brokers: embedded`; `None` where no stream does.
    #[must_use]
    pub fn embedded_topics(&self) -> Option<BTreeSet<String>> {
        let links = self.streams.iter().map(StreamPlan::link);
        let topics = links.flat_map(|link| link.reads.into_iter().chain(link.writes));
        let embedded: BTreeSet<_> = topics.filter(|(_, brokers)| brokers == EMBEDDED).map(|(topic, _)| topic).collect();
        (!embedded.is_empty()).then_some(embedded)
    }

    /// Whether it has tests.
    #[must_use]
    pub fn has_cases(&self) -> bool {
        !self.cases.is_empty()
    }

    /// Says where the embedded broker is.
    pub fn set_embedded_address(&mut self, address: &str) {
        for StreamPlan(stream) in &mut self.streams {
            let input = match &mut stream.input {
                Input::Kafka(input) => Some(&mut input.brokers),
                _ => None,
            };
            let output = match &mut stream.output {
                Output::Kafka(output) => Some(&mut output.brokers),
                _ => None,
            };
            let errors = stream.error_output.as_mut().map(|errors| &mut errors.brokers);
            for brokers in [input, output, errors].into_iter().flatten().filter(|brokers| **brokers == EMBEDDED) {
                address.clone_into(brokers);
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.streams.iter().map(|s| (s.id(), s.route(), s.guarantee())).collect();
        let ids = lines.iter().map(|(id, ..)| id.chars().count()).max().unwrap_or(0);
        let routes = lines.iter().map(|(_, route, _)| route.chars().count()).max().unwrap_or(0);
        lines
            .iter()
            .try_for_each(|(id, route, guarantee)| writeln!(f, "{id:<ids$}   {route:<routes$}   {guarantee}"))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

/// One checked stream.
pub struct StreamPlan(Stream);

impl StreamPlan {
    /// Its id, unique in the file.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id.value
    }

    /// Source → processors → sink.
    #[must_use]
    pub fn route(&self) -> String {
        let [input, output] = &self.0.names;
        let named = |name: &Option<String>, step| name.iter().fold(step, |step, name| format!("{step} ({name})"));
        let mut steps = vec![named(
            input,
            match &self.0.input {
                Input::Kafka(input) => format!("kafka {}", input.topics.join(", ")),
                Input::File(file) if file.is_followed => format!("file {} (tail)", file.name),
                Input::File(file) => format!("file {}", file.name),
                Input::Http(input) => format!("http {}{}", input.address.value, input.path),
                Input::Mqtt(input) => format!("mqtt {}", input.topics.join(", ")),
                Input::Generate(_) | Input::Memory(_) | Input::Stdin(_) => self.0.input.type_name().to_owned(),
            },
        )];
        let batch = self.0.batch.gather.iter().map(|_| "batch");
        let names: Vec<_> = self.0.processors.iter().map(|processor| processor.type_name()).chain(batch).collect();
        if !names.is_empty() {
            steps.push(names.join(", "));
        }
        let errors = self.0.error_output.as_ref().map(|errors| format!(" (failed records: {})", errors.topic.value));
        steps.push(named(
            output,
            match &self.0.output {
                Output::Kafka(output) => {
                    let routes: Vec<_> = output.routes.iter().map(Route::shown).collect();
                    format!("kafka {}", routes.join(" and "))
                }
                Output::Sql(output) => {
                    let verb = if output.mode == SqlMode::Upsert { "upsert" } else { "insert" };
                    let (system, database, table) = (output.system(), output.database_name(), &output.table);
                    format!("{system} {database}: {verb} {table}")
                }
                Output::File(output) => format!("file {}", output.shown),
                Output::Http(output) => format!("http {}", shown(&output.url)),
                Output::Stdout { .. } => "stdout".to_owned(),
                Output::Drop => "drop".to_owned(),
            },
        ));
        steps.join(" → ") + &errors.unwrap_or_default()
    }

    /// The guarantee's level, and why.
    #[must_use]
    pub fn guarantee(&self) -> String {
        format!("{}{}{}", guarantee::of_input(&self.0), self.level(), guarantee::of_log(&self.0))
    }

    fn level(&self) -> String {
        let acks = match &self.0.output {
            Output::Kafka(output) if output.is_exactly_once() => {
                return format!("exactly once: {}", guarantee::exactly_once(&self.0, output));
            }
            Output::Kafka(output) => output.acks.as_ref().map_or("all", |acks| acks.value),
            Output::Sql(_) => return format!("exactly once: {}", guarantee::in_database(&self.0)),
            _ => "all",
        };
        let why = guarantee::at_least_once(&self.0);
        match acks {
            "0" => "none: with acks 0 no broker confirms a record, so that records can be lost".to_owned(),
            "1" => format!("at least once, as long as no broker is lost (acks 1): {why}"),
            _ => format!("at least once: {why}"),
        }
    }

    /// Whether the input ends by itself.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        match &self.0.input {
            Input::Kafka(_) | Input::Http(_) | Input::Mqtt(_) => false,
            Input::File(file) => !file.is_followed,
            Input::Memory(_) | Input::Stdin(_) => true,
            Input::Generate(input) => input.count.is_some(),
        }
    }

    /// The (first) topic that it writes to, and brokers of its cluster; `None` where the output is no Kafka topic.
    #[must_use]
    pub fn output_topic(&self) -> Option<(&str, &str)> {
        let output = self.0.output.kafka()?;
        output.topics().next().map(|topic| (topic.value.as_str(), output.brokers.as_str()))
    }

    pub(crate) fn input(&self) -> &Input {
        &self.0.input
    }

    pub(crate) fn output(&self) -> &Output {
        &self.0.output
    }

    pub(crate) fn durability(&self) -> Option<&Durability> {
        self.0.durability.as_ref()
    }

    pub(crate) fn error_output(&self) -> Option<&ErrorOutput> {
        self.0.error_output.as_ref()
    }

    /// The topic in which the input's position is kept; `None` where it is in the consumer group's offsets, or nowhere.
    pub(crate) fn cursor_topic(&self) -> Option<String> {
        let Output::Kafka(output) = &self.0.output else { return None };
        let in_group = matches!(&self.0.input, Input::Kafka(input) if !output.is_elsewhere(input));
        let id = output.transactional_id.as_ref().filter(|_| output.is_exactly_once() && !in_group)?;
        Some(format!("{}-changelog", id.value))
    }

    pub(crate) fn into_stream(self) -> Stream {
        self.0
    }

    /// The clusters that it cannot do without.
    pub(crate) fn clusters(&self) -> Clusters {
        let Stream { input, output, error_output, .. } = &self.0;
        let mut clusters = Clusters::new();
        let input = match input {
            Input::Kafka(input) => Some((&input.brokers, &input.client)),
            _ => None,
        };
        let output = output.kafka().map(|output| (&output.brokers, &output.client));
        let errors = error_output.as_ref().map(|errors| (&errors.brokers, &errors.client));
        for (brokers, client) in input.into_iter().chain(output).chain(errors) {
            clusters.entry(brokers.clone()).or_insert_with(|| client.clone());
        }
        clusters
    }

    /// What it reads and writes, for draining.
    pub(crate) fn link(&self) -> Link {
        // Draining, a file that is followed ends where it ends now.
        let is_finite = self.is_finite() || matches!(self.0.input, Input::File(_));
        let mut link = Link { is_finite, ..Link::default() };
        if let Input::Kafka(input) = &self.0.input {
            link.reads = input.topics.iter().map(|topic| (topic.clone(), input.brokers.clone())).collect();
        }
        if let Output::Kafka(output) = &self.0.output {
            link.writes = output.topics().map(|topic| (topic.value.clone(), output.brokers.clone())).collect();
        }
        link.writes
            .extend(self.0.error_output.iter().map(|output| (output.topic.value.clone(), output.brokers.clone())));
        link
    }
}

/// A URL without what may be secret in it.
pub(crate) fn shown(url: &ureq::http::Uri) -> String {
    let host = url.authority().map(|authority| authority.as_str().rsplit('@').next().unwrap_or_default());
    let path = if url.path().len() > 1 { "/…" } else { "" }; // the paths of webhooks are secrets
    format!("{}://{}{path}", url.scheme_str().unwrap_or_default(), host.unwrap_or_default())
}
