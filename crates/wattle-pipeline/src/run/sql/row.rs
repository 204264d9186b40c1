//! A JSON object → the values of a row. A value goes into a column only as what it is: nothing is rounded, cut or guessed; what does not fit is a
//! failed record.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, NaiveDate, SecondsFormat, Timelike as _, Utc};
use serde::de::{DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::table::{Holds, Table};
use crate::chain::json::{is_exact, is_number};

/// A value on its way into a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// Of every other type as the database reads it.
    Text(String),
    Bytes(Vec<u8>),
}

/// A row: the columns that it has, in the table's order, with their values. Columns that it does not have get their defaults.
#[derive(Debug)]
pub(super) struct Row {
    /// Index in its batch of the record that it was made from.
    pub(super) source: usize,
    /// Indices of columns.
    pub(super) columns: Vec<u16>,
    pub(super) cells: Vec<Cell>,
}

/// Turns values into rows of one table.
pub(super) struct Reader<'t> {
    table: &'t Table,
    /// The columns that take a member, by its name.
    members: HashMap<&'t str, Vec<u16>>,
    strict: bool,
}

impl<'t> Reader<'t> {
    pub(super) fn new(table: &'t Table) -> Self {
        let mut members: HashMap<_, Vec<_>> = HashMap::new();
        for (index, column) in (0..).zip(&table.columns) {
            members.entry(column.field.as_str()).or_default().push(index);
        }
        Reader { table, members, strict: table.takes_all_members }
    }

    /// The row of a record's value, or why there is none, without any of the contents but member names.
    pub(super) fn read(&self, source: usize, value: Option<&[u8]>) -> Result<Row, String> {
        let value = value.ok_or("the record has no value, and a row needs one: leave it out with a filter")?;
        let mut raw: Vec<Option<&RawValue>> = vec![None; self.table.columns.len()];
        let mut json = serde_json::Deserializer::from_slice(value);
        let mut unknown = None;
        let members = Members { reader: self, raw: &mut raw, unknown: &mut unknown };
        let read = json.deserialize_map(members).and_then(|()| json.end());
        read.map_err(|error| match error.is_data() {
            true => "the value is no JSON object".to_owned(),
            false => format!("the value is not JSON at column {}", error.column()),
        })?;
        if let Some(name) = unknown {
            return Err(format!("the table {} has no column {name}", self.table.name));
        }
        let mut row = Row { source, columns: Vec::new(), cells: Vec::new() };
        for (index, (raw, column)) in (0..).zip(raw.into_iter().zip(&self.table.columns)) {
            let Some(raw) = raw else { continue };
            row.columns.push(index);
            row.cells.push(cell(raw.get(), column.holds).map_err(|why| format!("the column {} {why}", column.name))?);
        }
        self.check(&row)?;
        Ok(row)
    }

    fn check(&self, row: &Row) -> Result<(), String> {
        if row.columns.is_empty() {
            return Err(format!("the record has no member for any column of the table {}", self.table.name));
        }
        let has = |key: &&u16| row.columns.iter().zip(&row.cells).any(|(c, cell)| c == *key && *cell != Cell::Null);
        match self.table.key.iter().find(|key| self.table.is_upsert && !has(key)) {
            Some(key) => Err(format!(
                "the record has no value for the key column {}",
                self.table.columns[usize::from(*key)].name
            )),
            None => Ok(()),
        }
    }
}

/// Gathers the members that have columns, as they are written; of members with one name the last counts.
struct Members<'a, 'de, 't> {
    reader: &'a Reader<'t>,
    raw: &'a mut Vec<Option<&'de RawValue>>,
    unknown: &'a mut Option<String>,
}

impl<'de> Visitor<'de> for Members<'_, 'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(found) = map.next_key_seed(Name(self.reader, self.unknown))? {
            match found {
                Some(columns) => {
                    let value: &RawValue = map.next_value()?;
                    columns.iter().for_each(|column| self.raw[usize::from(*column)] = Some(value));
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A member's name → its columns.
struct Name<'a, 't>(&'a Reader<'t>, &'a mut Option<String>);

impl<'a, 'de> DeserializeSeed<'de> for Name<'a, '_> {
    type Value = Option<&'a [u16]>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a, '_> {
    type Value = Option<&'a [u16]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let Name(reader, unknown) = self;
        let columns = reader.members.get(name).map(Vec::as_slice);
        if columns.is_none() && reader.strict && unknown.is_none() {
            *unknown = Some(name.to_owned());
        }
        Ok(columns)
    }
}

/// The value of a column, from the JSON text of a member; or what is wrong with it.
fn cell(json: &str, holds: Holds) -> Result<Cell, String> {
    if json == "null" {
        return Ok(Cell::Null);
    }
    let expected = |what: &str| Err(format!("holds {what}, and the member is {}", kind_of(json)));
    let text = || -> Option<String> { json.starts_with('"').then(|| serde_json::from_str(json).ok()).flatten() };
    let number = || json.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then(|| json.to_owned()).or_else(text);
    match holds {
        Holds::Integer => match number().map(|number| number.parse()) {
            Some(Ok(integer)) => Ok(Cell::Integer(integer)),
            Some(Err(_)) => Err("holds whole numbers of 64 bits, and the member is none".to_owned()),
            None => expected("whole numbers"),
        },
        Holds::Float => match number().map(|number| (number.parse(), number)) {
            Some((Ok(float), number)) if is_decimal(&number) => match is_exact(&number, float) {
                true => Ok(Cell::Float(float)),
                false => {
                    Err("holds 64-bit floats, which cannot give back all digits of the member; a numeric column can"
                        .to_owned())
                }
            },
            _ => expected("numbers"),
        },
        Holds::Numeric => match number() {
            Some(number) if is_decimal(&number) => Ok(Cell::Text(number)),
            _ => expected("decimal numbers"),
        },
        Holds::Scaled(scale) => match number() {
            Some(number) if is_decimal(&number) && decimals(&number) <= i64::from(scale) => Ok(Cell::Text(number)),
            Some(number) if is_decimal(&number) => {
                Err(format!("keeps {scale} digits behind the point, and the member has more"))
            }
            _ => expected("decimal numbers"),
        },
        Holds::NumberOnly => match number() {
            Some(number) if is_decimal(&number) => plain_number(&number),
            _ => expected("numbers"),
        },
        Holds::Boolean => match json {
            "true" => Ok(Cell::Boolean(true)),
            "false" => Ok(Cell::Boolean(false)),
            _ => expected("booleans"),
        },
        Holds::Text => text().map_or_else(|| expected("text"), |text| Ok(Cell::Text(text))),
        Holds::Bytes => match text().map(|text| STANDARD.decode(text)) {
            Some(Ok(bytes)) => Ok(Cell::Bytes(bytes)),
            Some(Err(_)) => Err("holds bytes, and the member is no base64".to_owned()),
            None => expected("bytes, given as base64"),
        },
        Holds::Timestamp | Holds::UtcTimestamp => match text().map(|text| timestamp(&text, holds)) {
            Some(result) => result.map(Cell::Text),
            None => expected("times, given as text (RFC 3339)"),
        },
        Holds::Date => match text().map(|text| text.parse::<NaiveDate>()) {
            Some(Ok(date)) => Ok(Cell::Text(date.to_string())),
            Some(Err(_)) => Err("holds dates, and the member is none of the form 2026-12-31".to_owned()),
            None => expected("dates, given as text"),
        },
        Holds::Json => Ok(Cell::Text(json.to_owned())),
        Holds::Other => text().map_or_else(|| expected("a type that is given as text"), |text| Ok(Cell::Text(text))),
    }
}

fn kind_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "text of another form",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "a boolean",
        _ => "a number",
    }
}

/// Whether it is a number as JSON writes one, and nothing around it.
fn is_decimal(text: &str) -> bool {
    is_number(text) && text.ends_with(|c: char| c.is_ascii_digit())
}

/// Digits behind the point.
fn decimals(number: &str) -> i64 {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let digits = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len());
    i64::try_from(digits).unwrap_or(i64::MAX).saturating_sub(exponent.parse().unwrap_or(i64::MIN))
}

/// For a column that has numbers of 64 bits and no others.
fn plain_number(number: &str) -> Result<Cell, String> {
    if let Ok(integer) = number.parse() {
        return Ok(Cell::Integer(integer));
    }
    match number.parse() {
        Ok(float) if is_exact(number, float) => Ok(Cell::Float(float)),
        _ => {
            Err("keeps numbers of 64 bits, which cannot give back all digits of the member; a TEXT column can"
                .to_owned())
        }
    }
}

/// A moment in UTC, to the microsecond, which is what databases keep.
fn timestamp(text: &str, holds: Holds) -> Result<String, String> {
    let Ok(time) = DateTime::parse_from_rfc3339(text) else {
        return Err("holds times, and the member is none of the form 2026-12-31T23:59:59.123Z (RFC 3339)".to_owned());
    };
    if time.nanosecond() % 1000 != 0 {
        return Err("keeps microseconds, and the member is finer".to_owned());
    }
    let time = time.with_timezone(&Utc);
    Ok(match holds {
        Holds::UtcTimestamp => time.naive_utc().format("%Y-%m-%dT%H:%M:%S%.f").to_string(),
        _ => time.to_rfc3339_opts(SecondsFormat::AutoSi, true),
    })
}

#[cfg(test)]
mod tests {
    use super::super::table::{Column, tests::table};
    use super::*;

    fn of(json: &str, holds: Holds) -> Result<Cell, String> {
        cell(json, holds)
    }

    fn text(text: &str) -> Result<Cell, String> {
        Ok(Cell::Text(text.to_owned()))
    }

    #[test]
    fn a_value_keeps_all_that_it_has_or_is_refused() {
        assert_eq!(of("9223372036854775807", Holds::Integer), Ok(Cell::Integer(i64::MAX)));
        assert_eq!(of("\"12\"", Holds::Integer), Ok(Cell::Integer(12)));
        assert_eq!(of("1.50", Holds::Numeric), text("1.50"));
        assert_eq!(of("\"12345678901234567890.10\"", Holds::Numeric), text("12345678901234567890.10"));
        assert_eq!(of("\"19.900\"", Holds::Scaled(2)), text("19.900"));
        assert_eq!(of("1999e-2", Holds::Scaled(2)), text("1999e-2"));
        assert_eq!(of("1.5", Holds::Float), Ok(Cell::Float(1.5)));
        assert_eq!(of("1.5", Holds::NumberOnly), Ok(Cell::Float(1.5)));
        assert_eq!(of("7", Holds::NumberOnly), Ok(Cell::Integer(7)));
        assert_eq!(of("true", Holds::Boolean), Ok(Cell::Boolean(true)));
        assert_eq!(of("\"aGk=\"", Holds::Bytes), Ok(Cell::Bytes(b"hi".to_vec())));
        assert_eq!(of("\"a\\nb\"", Holds::Text), text("a\nb"));
        assert_eq!(of("{\"a\": 1.10}", Holds::Json), text("{\"a\": 1.10}"));
        assert_eq!(of("\"2026-12-31\"", Holds::Date), text("2026-12-31"));
        assert_eq!(of("\"2026-12-31T23:00:00.5+02:00\"", Holds::Timestamp), text("2026-12-31T21:00:00.500Z"));
        assert_eq!(of("\"2026-12-31T23:00:00+02:00\"", Holds::UtcTimestamp), text("2026-12-31T21:00:00"));
        for holds in [Holds::Integer, Holds::Text, Holds::Json, Holds::Bytes] {
            assert_eq!(of("null", holds), Ok(Cell::Null));
        }
        for (json, holds) in [
            ("1.5", Holds::Integer),
            ("9223372036854775808", Holds::Integer),
            ("true", Holds::Integer),
            ("0.12345678901234567890", Holds::Float),
            ("12345678901234567.25", Holds::NumberOnly),
            ("19.905", Holds::Scaled(2)),
            ("1e-3", Holds::Scaled(2)),
            ("\"now\"", Holds::Timestamp),
            ("\"2026-12-31T23:00:00.123456789Z\"", Holds::Timestamp),
            ("1767225600", Holds::Timestamp),
            ("\"31.12.2026\"", Holds::Date),
            ("\"NaN\"", Holds::Float),
            ("\"1 \"", Holds::Numeric),
            ("\"0x10\"", Holds::Numeric),
            ("1", Holds::Boolean),
            ("5", Holds::Text),
            ("\"!\"", Holds::Bytes),
            ("[1]", Holds::Other),
        ] {
            assert!(of(json, holds).is_err(), "{json} into {holds:?}");
        }
    }

    #[test]
    fn a_row_has_the_columns_that_its_record_has() {
        let table = table(&[("id", Holds::Integer), ("name", Holds::Text)]);
        let reader = Reader::new(&table);
        let row = reader.read(3, Some(br#"{"name":"a","id":1,"name":"b"}"#)).unwrap();
        assert_eq!((row.source, &row.columns[..]), (3, &[0, 1][..]));
        assert_eq!(row.cells, [Cell::Integer(1), Cell::Text("b".to_owned())], "the last member counts");
        assert_eq!(reader.read(0, Some(br#"{"id":1}"#)).unwrap().columns, [0]);
        for (value, why) in [
            (Some(&br#"{"id":1,"nam":"a"}"#[..]), "no column nam"),
            (Some(b"[1]"), "no JSON object"),
            (Some(b"{\"id\":1"), "not JSON at column 7"),
            (Some(b"{\"id\":1}{}"), "not JSON"),
            (Some(b"{}"), "no member"),
            (Some(br#"{"id":"secret"}"#), "the column id holds whole numbers"),
            (None, "no value"),
        ] {
            let problem = reader.read(0, value).unwrap_err();
            assert!(problem.contains(why) && !problem.contains("secret"), "{why}: {problem}");
        }
    }

    #[test]
    fn declared_columns_take_their_members_and_leave_the_others() {
        let mut table = table(&[("id", Holds::Integer)]);
        table.columns[0] = Column { field: "number".to_owned(), ..table.columns[0].clone() };
        table.takes_all_members = false;
        let row = Reader::new(&table).read(0, Some(br#"{"number":1,"more":2}"#)).unwrap();
        assert_eq!(row.cells, [Cell::Integer(1)]);
    }

    #[test]
    fn an_upsert_needs_its_key() {
        let mut table = table(&[("id", Holds::Integer), ("name", Holds::Text)]);
        (table.is_upsert, table.key) = (true, vec![0]);
        let reader = Reader::new(&table);
        for value in [&br#"{"name":"a"}"#[..], br#"{"id":null,"name":"a"}"#] {
            assert!(reader.read(0, Some(value)).unwrap_err().contains("key column id"));
        }
    }
}
