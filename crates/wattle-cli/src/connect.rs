//! The cluster that a command asks without a pipeline file.

use std::fs;
use std::path::Path;

use wattle::{ClientProperties, ClientRole, Error, property_problem};
use wattle_pipeline::EMBEDDED;

use crate::args::Cluster;
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::status::Status;

/// The addresses of the brokers, and properties for their clients. An embedded broker is left in `embedded`, since others may still use it.
pub(crate) fn connect(
    cluster: &Cluster,
    status: &Status,
    embedded: &mut Option<Embedded>,
) -> Result<(String, ClientProperties), Failure> {
    const NONE: &str =
        "no brokers are named: give --brokers host:port, or set WATTLE_BROKERS; for the embedded broker, --embedded";
    let mut brokers = cluster.brokers.get().ok_or_else(|| Failure::refused(NONE))?;
    if brokers == EMBEDDED {
        brokers = embedded.insert(Embedded::open(*status)?).address().to_owned();
    }
    let properties = cluster.client_file.as_deref().map(client_file).transpose()?;
    Ok((brokers, properties.unwrap_or_default()))
}

/// Refuses properties that are Wattle's own, or that librdkafka does not know, of a client that writes.
pub(crate) fn check_properties(properties: &ClientProperties) -> Result<(), Error> {
    let problem = |(name, value): (&String, &String)| {
        Some(format!("client property {name}: {}", property_problem(ClientRole::Producer, name, value)?))
    };
    let problems: Vec<_> = properties.iter().filter_map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(Error::Config { problems }) }
}

/// Reads `key=value` lines; blank lines and lines that begin with `#` say nothing.
fn client_file(path: &Path) -> Result<ClientProperties, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::refused(format!("cannot read the client file {}: {error}", path.display())))?;
    let mut properties = ClientProperties::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("{}:{}", path.display(), index + 1);
        // The line itself is not shown: it may hold a password.
        let (key, value) =
            line.split_once('=').ok_or_else(|| Failure::refused(format!("{}: not a key=value line", place())))?;
        let key = key.trim();
        if properties.insert(key.to_owned(), value.trim().to_owned()).is_some() {
            return Err(Failure::refused(format!("{}: {key} is set a second time; keep one", place())));
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<ClientProperties, Failure> {
        let path = std::env::temp_dir().join(format!("wattle-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("the temporary folder is writable");
        let result = client_file(&path);
        fs::remove_file(&path).expect("the file was just written");
        result
    }

    #[test]
    fn a_client_file_has_comments_and_values_with_equal_signs() {
        let properties = parse("good", "# TLS\n\nsasl.password = a=b\nsecurity.protocol=SASL_SSL\n").expect("is legal");
        assert_eq!(properties["sasl.password"], "a=b");
        assert_eq!(properties.len(), 2);
    }

    #[test]
    fn a_broken_line_is_named_and_not_shown() {
        let failure = parse("bad", "a=1\nsasl.password: hunter2\n").expect_err("has no equal sign");
        let text = format!("{failure:?}");
        assert!(text.contains(":2: not a key=value line") && !text.contains("hunter2"), "{text}");
    }
}
