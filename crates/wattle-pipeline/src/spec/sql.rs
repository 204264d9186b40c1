//! An output of type `sql`: rows in a table, beside the positions.

use std::path::PathBuf;
use std::time::Duration;

use super::Surroundings;
use crate::yaml::{Field, Given, Map, Value};

#[derive(Clone)]
pub(crate) struct SqlOutput {
    pub(crate) database: Database,
    /// Perhaps with its schema: `SCHEMA.TABLE`. Blank after a problem.
    pub(crate) table: String,
    pub(crate) mode: Mode,
    /// Of an upsert; empty for an insert.
    pub(crate) key: Vec<String>,
    /// Empty: those of the table, each from the member of its name.
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) create_table: bool,
    pub(crate) positions_table: String,
    /// Whose rows in that table are ours. A kafka input's consumer group unless given.
    pub(crate) positions_id: Option<Given<String>>,
    /// How long a database that is away is tried again.
    pub(crate) retry_for: Duration,
    /// The output itself, for problems about keys that it lacks.
    pub(crate) here: Given<()>,
}

#[derive(Clone)]
pub(crate) enum Database {
    Sqlite {
        /// As the pipeline file says it.
        name: String,
        /// Where it is, seen from the working directory.
        #[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
        path: PathBuf,
    },
    Postgres {
        /// With the password.
        uri: String,
    },
    /// After a problem.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Insert,
    Upsert,
}

/// A column that the file declares.
#[derive(Clone, Debug)]
pub(crate) struct ColumnSpec {
    pub(crate) name: String,
    /// The member of the JSON object that it takes.
    pub(crate) field: String,
    pub(crate) kind: Option<Kind>,
}

/// What a column holds, in the words of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 64 bits.
    Integer,
    /// 64 bits.
    Float,
    /// Decimal, with all its digits.
    Numeric,
    Text,
    Boolean,
    Bytes,
    /// A moment.
    Timestamp,
    Date,
    Json,
}

impl Kind {
    pub(crate) const ALL: [(&'static str, Kind); 9] = [
        ("integer", Kind::Integer),
        ("float", Kind::Float),
        ("numeric", Kind::Numeric),
        ("text", Kind::Text),
        ("boolean", Kind::Boolean),
        ("bytes", Kind::Bytes),
        ("timestamp", Kind::Timestamp),
        ("date", Kind::Date),
        ("json", Kind::Json),
    ];

    pub(crate) fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).expect("all are listed").0
    }
}

pub(crate) const POSITIONS_TABLE: &str = "wattle_positions";
const RETRY_FOR: Duration = Duration::from_secs(300);

impl SqlOutput {
    /// What messages and routes call the database: never with a password.
    pub(crate) fn database_name(&self) -> &str {
        match &self.database {
            Database::Sqlite { name, .. } => name,
            Database::Postgres { uri } => shown(uri),
            Database::Unknown => "",
        }
    }

    /// What kind of database, in a word.
    pub(crate) fn system(&self) -> &'static str {
        match &self.database {
            Database::Sqlite { .. } => "sqlite",
            Database::Postgres { .. } => "postgres",
            Database::Unknown => "sql",
        }
    }

    /// Two outputs with the same answer keep their positions in one table.
    pub(crate) fn positions_place(&self) -> (&str, &str) {
        (self.database_name(), &self.positions_table)
    }
}

/// Host and database of a URI, as far as they can be told from what may be secret.
fn shown(uri: &str) -> &str {
    let rest = uri.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split('?').next().unwrap_or_default();
    let shown = rest.rsplit_once('@').map_or(rest, |(_, shown)| shown);
    if shown.is_empty() { "postgres" } else { shown }
}

pub(super) fn read(map: &mut Map, field: &Field, surroundings: &Surroundings) -> SqlOutput {
    let database = map.required(
        "output_type",
        "an sql output needs a database: {type: sqlite, path: FILE} or {type: postgres, uri: \"postgres://USER:PASSWORD@HOST/DATABASE\"}",
    );
    let modes = [("insert", Mode::Insert), ("upsert", Mode::Upsert)];
    let mode = map.get("mode").and_then(|field| field.word(&modes)).unwrap_or(Mode::Insert);
    let key = map.get("key");
    if mode == Mode::Upsert && key.is_none() {
        map.missing(
            "key",
            "mode: upsert needs the columns of the table's primary key, or of another unique index: key: [id]",
        );
    }
    let columns = map.get("columns").map(|field| columns(&field)).unwrap_or_default();
    let create = map.get("create_table");
    let table_name = map.required("table_name", "an sql output needs a table_name");
    let output = SqlOutput {
        database: database.and_then(|field| self::database(&field, surroundings)).unwrap_or(Database::Unknown),
        table: table_name.as_ref().and_then(table).unwrap_or_default(),
        mode,
        key: key.as_ref().map(|field| field.names().into_iter().map(|name| name.value).collect()).unwrap_or_default(),
        create_table: create.as_ref().and_then(Field::bool).unwrap_or(false),
        positions_table: map
            .get("positions_table")
            .and_then(|f| table(&f))
            .unwrap_or_else(|| POSITIONS_TABLE.to_owned()),
        positions_id: map.get("positions_id").and_then(|field| field.name().map(|name| field.given(name))),
        retry_for: map.get("retry_for").and_then(|field| field.duration()).unwrap_or(RETRY_FOR),
        columns,
        here: field.given(()),
    };
    check(&output, key.as_ref(), create.as_ref());
    if let Some(field) = table_name.filter(|_| output.table == output.positions_table) {
        field.problem("is the table of the positions; rows need another one");
    }
    output
}

/// Keys among themselves.
fn check(output: &SqlOutput, key: Option<&Field>, create: Option<&Field>) {
    let causes = ["columns*", "key*"].map(|key| format!("{}.{key}", output.here.path));
    if let Some(key) = key {
        if output.mode == Mode::Insert && !output.create_table {
            key.problem("is for mode: upsert, and for the primary key of a table that create_table: true makes; set one of them, or remove key");
        }
        let declared = |name: &String| output.columns.iter().any(|column| column.name == *name);
        if !output.columns.is_empty()
            && let Some(name) = output.key.iter().find(|name| !declared(name))
        {
            key.problem_unless(&causes, format!("{name} is none of the columns; add it there"));
        }
    }
    if let Some(create) = create.filter(|_| output.create_table) {
        if output.columns.is_empty() {
            create.problem_unless(
                &causes,
                "needs the table's columns with their types: columns: {id: integer, name: text}",
            );
        }
        let untyped = output.columns.iter().find(|column| column.kind.is_none());
        if let Some(column) = untyped {
            create.problem_unless(&causes, format!("needs a type of the column {}: {}", column.name, kinds()));
        }
    }
}

fn kinds() -> String {
    Kind::ALL.map(|(name, _)| name).join(", ")
}

#[derive(Clone, Copy)]
enum Type {
    Sqlite,
    Postgres,
}

fn database(field: &Field, surroundings: &Surroundings) -> Option<Database> {
    let mut map = Map::of(field)?;
    let kind = map.required("type", "needs type: sqlite or type: postgres")?;
    let database = match kind.word(&[("sqlite", Type::Sqlite), ("postgres", Type::Postgres)])? {
        Type::Sqlite => {
            built(&kind, "sqlite", cfg!(feature = "sqlite"));
            let name = map.required("path", "needs the path of the database's file").and_then(|field| field.name());
            let name = name.unwrap_or_default();
            Database::Sqlite { path: surroundings.folder.join(&name), name }
        }
        Type::Postgres => {
            built(&kind, "postgres", cfg!(feature = "postgres"));
            let uri = map.required("uri", "needs a uri: postgres://USER:PASSWORD@HOST:PORT/DATABASE");
            if let Some(ssl) = map.get_filled("ssl") {
                no_tls(&ssl);
            }
            Database::Postgres { uri: uri.and_then(|field| self::uri(&field)).unwrap_or_default() }
        }
    };
    map.finish();
    Some(database)
}

fn built(kind: &Field, feature: &str, is_there: bool) {
    if !is_there {
        kind.problem(format!("this wattle was built without {feature}: build it with the feature {feature}"));
    }
}

const TLS: &str = "connections with TLS to a database are not built in; use a network that is safe, or a tunnel, and ssl_mode: disable";

/// The block that the predecessor has for TLS.
fn no_tls(field: &Field) {
    let Some(mut map) = Map::of(field) else { return };
    if let Some(mode) = map.get("ssl_mode") {
        match mode.string().as_deref() {
            Some("disable" | "allow" | "prefer") | None => {}
            Some(_) => mode.problem(TLS),
        }
    }
    for key in ["root_cert", "client_cert", "client_key"] {
        if let Some(field) = map.get_filled(key)
            && field.string().is_some()
        {
            field.problem(TLS);
        }
    }
    map.finish();
}

/// Messages do not show it: it may hold a password.
fn uri(field: &Field) -> Option<String> {
    let uri = field.name()?;
    if !uri.starts_with("postgres://") && !uri.starts_with("postgresql://") {
        field.problem("must begin with postgres://");
        return None;
    }
    if ["sslmode=require", "sslmode=verify-ca", "sslmode=verify-full"].iter().any(|mode| uri.contains(mode)) {
        field.problem(TLS);
        return None;
    }
    #[cfg(feature = "postgres")]
    if uri.parse::<tokio_postgres::Config>().is_err() {
        field.problem(
            "is no uri of a database: postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for @ in a password",
        );
        return None;
    }
    Some(uri)
}

fn table(field: &Field) -> Option<String> {
    let name = field.name()?;
    if name.split('.').any(|part| part.trim().is_empty()) || name.split('.').count() > 2 || name.contains('\0') {
        field.problem("must be the name of a table, or SCHEMA.TABLE");
        return None;
    }
    Some(name)
}

/// A list of names, or a map: `NAME: TYPE`, or `NAME: {as: TYPE, field: MEMBER}`.
fn columns(field: &Field) -> Vec<ColumnSpec> {
    if matches!(field.node.value, Value::List(_)) {
        let names = field.names().into_iter().map(|name| name.value);
        return names.map(|name| ColumnSpec { field: name.clone(), name, kind: None }).collect();
    }
    let Some(map) = Map::of(field) else { return Vec::new() };
    let entries: Vec<_> = map.entries().collect();
    if entries.is_empty() {
        field.problem("must name at least one column; without it the table's own columns are taken");
    }
    entries.iter().filter_map(|(name, field)| column(name, field)).collect()
}

fn column(name: &str, field: &Field) -> Option<ColumnSpec> {
    let spec = |member: Option<String>, kind| ColumnSpec {
        name: name.to_owned(),
        field: member.unwrap_or_else(|| name.to_owned()),
        kind,
    };
    if field.node.is_null() {
        return Some(spec(None, None));
    }
    if !field.is_structure() {
        return Some(spec(None, Some(field.word(&Kind::ALL)?)));
    }
    let mut map = Map::of(field)?;
    let kind = map.get("as").and_then(|field| field.word(&Kind::ALL));
    let member = map.get("field").and_then(|field| field.name());
    map.finish();
    Some(spec(member, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(shown("postgres://me:secret@db:5432/shop?application_name=x"), "db:5432/shop");
        assert_eq!(shown("postgres://me:s@cret@db/shop"), "db/shop");
        assert_eq!(shown("postgres://db/shop"), "db/shop");
        assert_eq!(shown("postgres://"), "postgres");
    }
}
