//! The table that rows go to: what the file says of it, met with what the database says.

use wattle::Error;

use crate::spec::{ColumnSpec, Kind, SqlMode, SqlOutput};

/// What a column of the database can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Integer,
    Float,
    /// Decimals with all their digits.
    Numeric,
    /// Decimals with so many digits behind the point.
    Scaled(i16),
    /// Numbers of 64 bits, whole or floating: what SQLite makes of a DECIMAL column.
    NumberOnly,
    Text,
    Boolean,
    Bytes,
    /// With its time zone.
    Timestamp,
    /// Without one; it is written in UTC.
    UtcTimestamp,
    Date,
    Json,
    /// The database reads it from text.
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// The member that it takes.
    pub(super) field: String,
    pub(super) holds: Holds,
}

#[derive(Debug)]
pub(super) struct Table {
    /// As the file says it.
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// Whether a member without a column is a failed record: where the file names no columns.
    pub(super) takes_all_members: bool,
    pub(super) is_upsert: bool,
    /// Indices of the key columns.
    pub(super) key: Vec<u16>,
}

impl Table {
    /// `found`: the names of the database's columns, what each can hold, and how the database calls that.
    pub(super) fn new(
        output: &SqlOutput,
        found: Vec<(String, Holds, String)>,
        fits: impl Fn(Kind, &str, Holds) -> Option<Holds>,
    ) -> Result<Self, Error> {
        let name = &output.table;
        let unfit = |text: String| Error::Unfit { text };
        let of = |name: &str| found.iter().find(|(found, ..)| found == name);
        let declared = |spec: &ColumnSpec| {
            let Some((_, holds, called)) = of(&spec.name) else {
                let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
                return Err(unfit(format!(
                    "the table {name} has no column {}, which the output declares; it has {}. Add it to the table, or correct its name (case counts)",
                    spec.name,
                    names.join(", ")
                )));
            };
            let holds = match spec.kind {
                None => *holds,
                Some(kind) => fits(kind, called, *holds).ok_or_else(|| {
                    unfit(format!(
                        "the column {} of the table {name} is {called}, and the output declares it as {}, which it cannot keep as it is; change one of the two",
                        spec.name,
                        kind.name()
                    ))
                })?,
            };
            Ok(Column { name: spec.name.clone(), field: spec.field.clone(), holds })
        };
        let columns: Vec<Column> = if output.columns.is_empty() {
            found
                .iter()
                .map(|(name, holds, _)| Column { name: name.clone(), field: name.clone(), holds: *holds })
                .collect()
        } else {
            output.columns.iter().map(declared).collect::<Result<_, _>>()?
        };
        let is_upsert = output.mode == SqlMode::Upsert;
        let key = output.key.iter().filter(|_| is_upsert).map(|key| {
            let index = (0..).zip(&columns).find(|(_, column)| column.name == *key).map(|(index, _)| index);
            index.ok_or_else(|| {
                unfit(format!("the table {name} has no column {key}, which is part of the output's key"))
            })
        });
        let key = key.collect::<Result<_, _>>()?;
        Ok(Table { name: name.clone(), columns, takes_all_members: output.columns.is_empty(), is_upsert, key })
    }

    /// Indices of all columns.
    pub(super) fn all_columns(&self) -> Vec<u16> {
        (0..).zip(&self.columns).map(|(index, _)| index).collect()
    }

    /// The statement that writes a row with these columns. `parameter`: how the database calls the parameter of this number, from 1.
    pub(super) fn statement(&self, columns: &[u16], parameter: impl Fn(usize) -> String) -> String {
        let name = |index: &u16| quoted(&self.columns[usize::from(*index)].name);
        let list = |columns: &[u16]| columns.iter().map(name).collect::<Vec<_>>().join(", ");
        let values: Vec<_> = (1..=columns.len()).map(parameter).collect();
        let insert =
            format!("INSERT INTO {} ({}) VALUES ({})", quoted_path(&self.name), list(columns), values.join(", "));
        if !self.is_upsert {
            return insert;
        }
        let others = columns.iter().filter(|column| !self.key.contains(column));
        let set: Vec<_> = others.map(|column| format!("{0} = excluded.{0}", name(column))).collect();
        let action = if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        format!("{insert} ON CONFLICT ({}) DO {action}", list(&self.key))
    }
}

/// `CREATE TABLE` of what the file declares.
pub(super) fn create(output: &SqlOutput, type_name: impl Fn(Kind) -> &'static str) -> String {
    let columns = output.columns.iter().filter_map(|column| {
        let kind = type_name(column.kind?);
        Some(format!("{} {kind}", quoted(&column.name)))
    });
    let mut parts: Vec<_> = columns.collect();
    if !output.key.is_empty() {
        let key: Vec<_> = output.key.iter().map(|name| quoted(name)).collect();
        parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    format!("CREATE TABLE IF NOT EXISTS {} ({})", quoted_path(&output.table), parts.join(", "))
}

/// `CREATE TABLE` of the positions.
pub(super) fn create_positions(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (id text NOT NULL, topic text NOT NULL, \"partition\" integer NOT NULL, \"position\" text, \
         epoch bigint NOT NULL, PRIMARY KEY (id, topic, \"partition\"))",
        quoted_path(table)
    )
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Of a name that may have its schema before it.
pub(super) fn quoted_path(name: &str) -> String {
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

/// Says that rows cannot be written as the table is.
pub(super) fn not_writable(output: &SqlOutput, reason: &str) -> Error {
    let text = format!(
        "rows cannot be written to the table {} of {}: {reason}. It has to be a table whose columns the user may write",
        output.table,
        output.database_name()
    );
    Error::Unfit { text }
}

/// Refuses columns that need a value and would never get one. `needed`: those without a default that take no null.
pub(super) fn check_needed(output: &SqlOutput, needed: &[String]) -> Result<(), Error> {
    let written = |name: &String| output.columns.iter().any(|column| column.name == *name);
    let never: Vec<_> = needed.iter().filter(|name| !written(name)).map(String::as_str).collect();
    if output.columns.is_empty() || never.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the table {} needs a value for {}, which the output does not write: add it to columns, or give the column a default",
        output.table,
        never.join(", ")
    );
    Err(Error::Unfit { text })
}

/// Says that a table is missing.
pub(super) fn missing(output: &SqlOutput) -> Error {
    let text = format!(
        "the database {} has no table {} (case counts): create it, or let create_table: true do so",
        output.database_name(),
        output.table
    );
    Error::Unfit { text }
}

/// Says that the key of an upsert is none.
pub(super) fn no_key(output: &SqlOutput, reason: &str) -> Error {
    let text = format!(
        "the table {} cannot take mode: upsert with key: [{}]: {reason}. The key has to be the primary key, or the columns of another unique index",
        output.table,
        output.key.join(", ")
    );
    Error::Unfit { text }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn table(columns: &[(&str, Holds)]) -> Table {
        let column = |(name, holds): &(&str, Holds)| Column {
            name: (*name).to_owned(),
            field: (*name).to_owned(),
            holds: *holds,
        };
        Table {
            name: "s.t".to_owned(),
            columns: columns.iter().map(column).collect(),
            takes_all_members: true,
            is_upsert: false,
            key: Vec::new(),
        }
    }

    #[test]
    fn statements_name_what_a_row_has() {
        let mut table = table(&[("id", Holds::Integer), ("a\"b", Holds::Text), ("c", Holds::Text)]);
        let statement = |table: &Table, columns: &[u16]| table.statement(columns, |n| format!("${n}"));
        let insert = r#"INSERT INTO "s"."t" ("id", "a""b") VALUES ($1, $2)"#;
        assert_eq!(statement(&table, &[0, 1]), insert);
        (table.is_upsert, table.key) = (true, vec![0]);
        let upsert = format!(r#"{insert} ON CONFLICT ("id") DO UPDATE SET "a""b" = excluded."a""b""#);
        assert_eq!(statement(&table, &[0, 1]), upsert);
        assert!(statement(&table, &[0]).ends_with(r#"ON CONFLICT ("id") DO NOTHING"#));
    }
}
