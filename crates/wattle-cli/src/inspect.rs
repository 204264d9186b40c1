//! `wattle inspect` and `wattle reset`: where an application stands, and how it begins anew.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use wattle::{Application, Error, Exit, Inspection, LocalState};

use crate::args::{InspectArgs, ResetArgs, Target};
use crate::connect::connect;
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::json::state_line;
use crate::status::Status;
use crate::text::{counted, iso};

/// Prints positions, changelog and members, or the states themselves.
pub(crate) fn inspect(args: &InspectArgs, status: &Status, embedded: &mut Option<Embedded>) -> Result<(), Failure> {
    let application = open(&args.target, status, embedded)?;
    if args.states {
        let mut lines = String::new();
        application.states(|task, key, state| {
            lines.push_str(&state_line(task, key, state));
            lines.push('\n');
        })?;
        if lines.is_empty() {
            check_known(&application.inspect()?)?;
        }
        return print(&lines);
    }
    let found = look(&application, &args.target)?;
    if args.json {
        let text = serde_json::to_string(&found).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        print(&format!("{text}\n"))?;
        return check_known(&found);
    }
    check_known(&found)?;
    print(&describe(&found, &args.target))
}

/// A name of which nothing is there is most likely a wrong one.
fn check_known(found: &Inspection) -> Result<(), Failure> {
    let known = !found.members.is_empty() || has_leftovers(found);
    let (group, changelog) = (&found.group, &found.changelog_topic);
    let text = format!(
        "nothing is known of {group}: the group has neither members nor positions, and there is no topic {changelog}. Check the name \
         and the brokers; after a reset, and before a first run, this is as it should be"
    );
    if known { Ok(()) } else { Err(Failure::refused(text)) }
}

/// Whether there is something that a reset would remove.
fn has_leftovers(found: &Inspection) -> bool {
    !found.positions.is_empty() || !found.changelog.is_empty() || found.local.is_some()
}

/// Says what a reset would remove, and with `--execute` removes it.
pub(crate) fn reset(args: &ResetArgs, status: &Status, embedded: &mut Option<Embedded>) -> Result<(), Failure> {
    let application = open(&args.target, status, embedded)?;
    let found = look(&application, &args.target)?;
    let mut text = describe(&found, &args.target);
    if !has_leftovers(&found) {
        text.push_str("\nNeither positions, nor a changelog, nor local state: there is nothing to reset\n");
        return print(&text);
    }
    if !args.execute {
        text.push_str("\nA reset would remove\n");
        write_plan(&mut text, &found);
        text.push_str("Outputs stay as they are. Nothing is removed without --execute\n");
        text.extend(hindrance(&found).map(|reason| format!("With --execute it would be refused now: {reason}\n")));
        return print(&text);
    }
    application.reset(args.target.state_dir.as_deref()).map_err(|error| match error {
        // It is about the members of the group.
        Error::Topics { text } => Error::Topics { text: format!("{text}, {KILLED}") },
        other => other,
    })?;
    text.push_str("\nRemoved\n");
    write_plan(&mut text, &found);
    print(&text)
}

/// Nobody can stop a member whose process is gone.
const KILLED: &str = "or, if it was killed, wait until its session timeout is over (45 s unless it is set)";

/// Why a reset would be refused.
fn hindrance(found: &Inspection) -> Option<String> {
    let members = found.members.len();
    if members > 0 {
        let members = many(members, "member", "members");
        return Some(format!("group {} has {members}; stop the application, {KILLED}", found.group));
    }
    let LocalState { folder, in_use_by, .. } = found.local.as_ref()?;
    Some(format!("the folder {} is in use by {}", folder.display(), in_use_by.as_ref()?))
}

fn look(application: &Application, target: &Target) -> Result<Inspection, Failure> {
    let mut found = application.inspect()?;
    if let Some(folder) = &target.state_dir {
        found.local = application.local(folder)?;
    }
    Ok(found)
}

fn open(target: &Target, status: &Status, embedded: &mut Option<Embedded>) -> Result<Application, Failure> {
    let (brokers, properties) = connect(&target.cluster, status, embedded)?;
    Ok(Application::new(&brokers, &target.application, target.changelog.as_deref(), &properties)?)
}

fn write_plan(text: &mut String, found: &Inspection) {
    let (positions, group) = (found.positions.len(), &found.group);
    if positions > 0 {
        let positions = many(positions, "position", "positions");
        writeln!(text, "  {positions} of group {group}: a start reads its topics from their beginning, or as start_from_latest says").expect(INFALLIBLE);
    }
    if !found.changelog.is_empty() {
        let keys = many(found.changelog.iter().map(|partition| partition.keys).sum(), "key", "keys");
        let topic = &found.changelog_topic;
        writeln!(text, "  the topic {topic} with {keys}: states, or where a file or another source was read to, which a start then reads and writes again").expect(INFALLIBLE);
    }
    if let Some(LocalState { folder, .. }) = &found.local {
        writeln!(text, "  the folder {} with the local state", folder.display()).expect(INFALLIBLE);
    }
}

fn describe(found: &Inspection, target: &Target) -> String {
    let mut text = format!("group {}: ", found.group);
    match &found.members[..] {
        [] => text.push_str("no members\n"),
        members => {
            writeln!(text, "{}", many(members.len(), "member", "members")).expect(INFALLIBLE);
            for member in members {
                let instance = member.instance_id.as_deref().map(|id| format!(" ({id})")).unwrap_or_default();
                let (id, host) = (&member.client_id, &member.host);
                let partitions = many(member.partitions.len(), "partition", "partitions");
                writeln!(text, "  {id}{instance} at {host}: {partitions}").expect(INFALLIBLE);
            }
        }
    }
    let rows = found.positions.iter().map(|one| {
        let open = match (one.pending, one.stable < one.high) {
            (true, _) => "its next position".to_owned(),
            (false, true) => format!("records from {}", one.stable),
            (false, false) => "-".to_owned(),
        };
        let id = one.transactional_id.clone().unwrap_or_else(|| "-".to_owned());
        let place = format!("{}/{}", one.topic, one.partition);
        [place, one.position.to_string(), one.stable.to_string(), one.lag().to_string(), open, id]
    });
    table(&mut text, ["input", "position", "end", "lag", "open transaction", "committed by"], rows.collect());
    let rows = found.changelog.iter().map(|one| {
        let open = if one.stable < one.high { format!("records from {}", one.stable) } else { "-".to_owned() };
        let place = format!("{}/{}", found.changelog_topic, one.partition);
        let records = one.high - one.low;
        [place, one.keys.to_string(), one.bytes.to_string(), one.others.to_string(), records.to_string(), open]
    });
    table(
        &mut text,
        ["changelog", "keys", "bytes", "timers and cursors", "records", "open transaction"],
        rows.collect(),
    );
    match (&found.local, &target.state_dir) {
        (Some(local), _) => describe_local(&mut text, local),
        (None, Some(folder)) => {
            writeln!(text, "\nno local state: there is no folder {}", folder.display()).expect(INFALLIBLE);
        }
        (None, None) => {}
    }
    text
}

fn describe_local(text: &mut String, local: &LocalState) {
    write!(text, "\nlocal state in {}: ", local.folder.display()).expect(INFALLIBLE);
    if let Some(owner) = &local.in_use_by {
        writeln!(text, "in use by {owner}; it can be read once that process has ended").expect(INFALLIBLE);
        return;
    }
    writeln!(text, "{}", many(local.tasks.len(), "task", "tasks")).expect(INFALLIBLE);
    let rows = local.tasks.iter().map(|one| {
        let text = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let owned = one.owned_until.map_or_else(|| "-".to_owned(), iso);
        let start = one.distrusted.as_ref().map_or_else(|| "reads on".to_owned(), |why| format!("wipes it: {why}"));
        [one.task.to_string(), text(one.position), owned, start]
    });
    table(text, ["task", "position in the changelog", "owned until", "a start"], rows.collect());
}

/// Columns as wide as their widest cell; nothing where there are no rows.
fn table<const N: usize>(text: &mut String, head: [&str; N], rows: Vec<[String; N]>) {
    if rows.is_empty() {
        return;
    }
    text.push('\n');
    let width = |column: usize| rows.iter().map(|row| row[column].len()).chain([head[column].len()]).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in [head.map(str::to_owned)].iter().chain(&rows) {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ")).expect(INFALLIBLE);
    }
}

fn many(count: usize, one: &str, many: &str) -> String {
    counted(count as u64, one, many)
}

const INFALLIBLE: &str = "a String takes all text";

fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that has seen enough (`| head`) is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::new(Exit::Failed, format!("cannot write to stdout: {error}"))),
    }
}
