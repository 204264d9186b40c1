//! Types of PostgreSQL. Values go there as text, which the server reads as it reads literals: so every type has one way, and keeps its digits.

use std::error::Error;
use std::fmt::Write as _;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

use super::super::row::Cell;
use super::super::table::Holds;
use crate::spec::Kind;

/// `scale`: of a numeric that has one.
pub(super) fn holds(oid: u32, scale: Option<i32>) -> Holds {
    match Type::from_oid(oid) {
        Some(Type::INT2 | Type::INT4 | Type::INT8) => Holds::Integer,
        Some(Type::FLOAT4 | Type::FLOAT8) => Holds::Float,
        Some(Type::NUMERIC) => {
            scale.map_or(Holds::Numeric, |scale| Holds::Scaled(i16::try_from(scale).unwrap_or(i16::MAX)))
        }
        Some(Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME) => Holds::Text,
        Some(Type::BOOL) => Holds::Boolean,
        Some(Type::BYTEA) => Holds::Bytes,
        Some(Type::TIMESTAMPTZ) => Holds::Timestamp,
        Some(Type::TIMESTAMP) => Holds::UtcTimestamp,
        Some(Type::DATE) => Holds::Date,
        Some(Type::JSON | Type::JSONB) => Holds::Json,
        _ => Holds::Other,
    }
}

/// What a column holds that the file declares too; `None` where it is something else.
pub(super) fn fits(kind: Kind, _: &str, holds: Holds) -> Option<Holds> {
    let fits = match kind {
        Kind::Integer => holds == Holds::Integer,
        Kind::Float => holds == Holds::Float,
        Kind::Numeric => matches!(holds, Holds::Numeric | Holds::Scaled(_)),
        Kind::Text => matches!(holds, Holds::Text | Holds::Other),
        Kind::Boolean => holds == Holds::Boolean,
        Kind::Bytes => holds == Holds::Bytes,
        Kind::Timestamp => matches!(holds, Holds::Timestamp | Holds::UtcTimestamp),
        Kind::Date => holds == Holds::Date,
        Kind::Json => holds == Holds::Json,
    };
    fits.then_some(holds)
}

/// The type of a column that is created.
pub(super) fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "bigint",
        Kind::Float => "double precision",
        Kind::Numeric => "numeric",
        Kind::Text => "text",
        Kind::Boolean => "boolean",
        Kind::Bytes => "bytea",
        Kind::Timestamp => "timestamptz",
        Kind::Date => "date",
        Kind::Json => "jsonb",
    }
}

impl ToSql for Cell {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Cell::Null => return Ok(IsNull::Yes),
            Cell::Boolean(value) => write!(out, "{value}")?,
            Cell::Integer(value) => write!(out, "{value}")?,
            // The fewest digits that give the float back.
            Cell::Float(value) => write!(out, "{value:?}")?,
            Cell::Text(value) => out.extend_from_slice(value.as_bytes()),
            Cell::Bytes(value) => {
                out.extend_from_slice(b"\\x");
                value.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    tokio_postgres::types::to_sql_checked!();
}
