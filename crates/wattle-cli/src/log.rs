//! Log lines on stderr: compact ones for people, or JSON.

use std::fmt;
use std::fs::File;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};

use wattle_pipeline::Logging;

use crate::args::{LogArgs, LogFormat};
use crate::failure::Failure;
use crate::status::TARGET;
use crate::text::{Style, clock};

/// What the log shows and where it goes.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) format: LogFormat,
    level: Option<LevelFilter>,
    file: Option<PathBuf>,
}

impl Settings {
    /// The command line comes before the pipeline file.
    pub(crate) fn of(args: &LogArgs, logging: Option<&Logging>) -> Self {
        let format =
            logging.and_then(|logging| logging.json).map(|json| if json { LogFormat::Json } else { LogFormat::Text });
        let level = logging.and_then(|logging| logging.level).and_then(|level| level.parse().ok());
        Settings {
            format: args.log_format.or(format).unwrap_or(LogFormat::Text),
            level: args.log_level.or(level),
            file: logging.and_then(|logging| logging.file.clone()),
        }
    }
}

/// Sends all events of this process to stderr, or to the file that the settings name. Called once.
pub(crate) fn init(settings: &Settings) -> Result<(), Failure> {
    let quiet = settings.format == LogFormat::Text && settings.file.is_none() && std::io::stderr().is_terminal();
    let level = settings.level.unwrap_or(if quiet { LevelFilter::WARN } else { LevelFilter::INFO });
    // Status lines are results, not log lines: in JSON they are events, but no level hides them.
    let filter = Targets::new().with_default(level).with_target(TARGET, LevelFilter::INFO);
    let (writer, opened) =
        match settings.file.as_ref().map(|path| (path, File::options().create(true).append(true).open(path))) {
            None => (BoxMakeWriter::new(std::io::stderr), Ok(())),
            Some((_, Ok(file))) => (BoxMakeWriter::new(Mutex::new(file)), Ok(())),
            Some((path, Err(error))) => {
                let text = format!("cannot write the log to {} (logging.file_path): {error}", path.display());
                (BoxMakeWriter::new(std::io::stderr), Err(Failure::refused(text)))
            }
        };
    let style = if settings.file.is_some() { Style::plain() } else { Style::for_stderr() };
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match settings.format {
        LogFormat::Text => layer().with_writer(writer).event_format(Compact { style }).with_filter(filter).boxed(),
        LogFormat::Json => {
            let lines = layer().with_writer(writer).json().flatten_event(true);
            lines.with_current_span(false).with_span_list(false).with_target(false).with_filter(filter).boxed()
        }
    };
    tracing::subscriber::set_global_default(Registry::default().with(lines))
        .expect("main calls this once, before anything else logs");
    opened
}

/// `12:03:44.120Z INFO  strong: task 2 started epoch=4`: the stream, the message, then the other fields. UTC.
struct Compact {
    style: Style,
}

impl<S, N> FormatEvent<S, N> for Compact
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let of_day = i64::try_from(since.as_millis() % 86_400_000).expect("a day has fewer than 2^63 milliseconds");
        let mut fields = Fields::default();
        event.record(&mut fields);
        let time = self.style.dim(&format!("{}Z", clock(of_day)));
        writeln!(writer, "{time} {} {}", self.level(*event.metadata().level()), fields.line())
    }
}

impl Compact {
    fn level(&self, level: Level) -> String {
        let text = format!("{level:<5}");
        match level {
            Level::ERROR => self.style.red(&text),
            Level::WARN => self.style.yellow(&text),
            Level::INFO => self.style.green(&text),
            _ => self.style.dim(&text),
        }
    }
}

/// The fields of one event.
#[derive(Default)]
struct Fields {
    stream: Option<String>,
    message: String,
    others: String,
}

impl Fields {
    fn put(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "stream" => self.stream = Some(text),
            name => {
                self.others.push(' ');
                self.others.push_str(name);
                self.others.push('=');
                self.others.push_str(&text);
            }
        }
    }

    fn line(self) -> String {
        let stream = self.stream.map(|stream| format!("{stream}: ")).unwrap_or_default();
        format!("{stream}{}{}", self.message, self.others)
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let quote = value.contains([' ', '"', '\n']) && !matches!(field.name(), "message" | "stream");
        self.put(field, if quote { format!("{value:?}") } else { value.to_owned() });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panicked").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_names_the_stream_before_the_message() {
        let memory = Memory::default();
        let writer = memory.clone();
        let format = Compact { style: Style::plain() };
        let lines = layer().event_format(format).with_writer(move || writer.clone());
        tracing::subscriber::with_default(Registry::default().with(lines), || {
            tracing::info!(epoch = 4, id = "a b", stream = "strong", "fenced");
        });
        let bytes = memory.0.lock().expect("no writer panicked").clone();
        let line = String::from_utf8(bytes).expect("log lines are text");
        assert_eq!(&line[12..], "Z INFO  strong: fenced epoch=4 id=\"a b\"\n", "{line}");
    }
}
