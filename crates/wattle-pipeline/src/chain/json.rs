//! JSON text ↔ VRL values, without a number ever changing its value: what a 64-bit integer or float cannot hold is refused.

use std::fmt;
use std::io::Write as _;

use hifijson::num::{self, Lex as _, LexWrite as _};
use hifijson::str::{Lex as _, LexAlloc as _};
use hifijson::token::Lex as _;
use hifijson::{Expect, SliceLexer};
use vrl::prelude::{Bytes, KeyString, NotNan, ObjectMap, Value};

/// Lists and objects may be nested this deep, in what is read and in what is written: a bound that keeps the stack safe.
const DEEPEST: usize = 128;

/// Why a text is not accepted as a value, or a value has no JSON text; without any of the contents but member names.
#[derive(Debug)]
pub(crate) struct Invalid {
    /// Where, from the inside out.
    path: Vec<Segment>,
    text: String,
    /// Whether the text around is worth a byte position.
    syntax: bool,
}

#[derive(Debug)]
enum Segment {
    Member(String),
    Index(usize),
}

impl Invalid {
    fn new(text: impl Into<String>) -> Self {
        Invalid { path: Vec::new(), text: text.into(), syntax: false }
    }

    fn syntax(text: impl Into<String>) -> Self {
        Invalid { syntax: true, ..Invalid::new(text) }
    }

    fn too_deep() -> Self {
        Invalid { path: Vec::new(), text: format!("lists and objects are nested deeper than {DEEPEST}"), syntax: false }
    }

    fn inside(mut self, segment: impl FnOnce() -> Segment) -> Self {
        // A path into the depths helps nobody.
        if self.path.len() < 16 && !self.syntax {
            self.path.push(segment());
        }
        self
    }

    fn at(self, position: usize) -> Self {
        match self.syntax {
            true => Invalid { text: format!("not JSON at byte {position}: {}", self.text), ..self },
            false => self,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.path.iter().rev().enumerate() {
            match segment {
                Segment::Member(name) => write!(f, ".{name}")?,
                Segment::Index(index) if i == 0 => write!(f, ".[{index}]")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        write!(f, "{}{}", if self.path.is_empty() { "" } else { ": " }, self.text)
    }
}

impl std::error::Error for Invalid {}

impl From<Expect> for Invalid {
    fn from(expected: Expect) -> Self {
        Invalid::syntax(format!("expected {expected}"))
    }
}

impl From<num::Error> for Invalid {
    fn from(error: num::Error) -> Self {
        Invalid::syntax(error.to_string())
    }
}

impl From<hifijson::str::Error> for Invalid {
    fn from(error: hifijson::str::Error) -> Self {
        Invalid::syntax(error.to_string())
    }
}

/// Reads one JSON value. Of members with one name the last wins.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, Invalid> {
    let mut lexer = SliceLexer::new(bytes);
    let result = lexer.exactly_one(SliceLexer::ws_peek, |next, lexer| value(next, lexer, DEEPEST));
    result.map_err(|invalid: Invalid| invalid.at(bytes.len() - lexer.as_slice().len()))
}

/// Checks that the bytes are one JSON value, whatever numbers it has.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Invalid> {
    if let Err(error) = std::str::from_utf8(bytes) {
        return Err(Invalid::syntax("invalid UTF-8").at(error.valid_up_to()));
    }
    let mut lexer = SliceLexer::new(bytes);
    let result = lexer.exactly_one(SliceLexer::ws_peek, |next, lexer| ignore(next, lexer, DEEPEST));
    result.map_err(|invalid: Invalid| invalid.at(bytes.len() - lexer.as_slice().len()))
}

fn value<'a>(next: u8, lexer: &mut SliceLexer<'a>, depth: usize) -> Result<Value, Invalid> {
    match next {
        b'"' => {
            let string = lexer.discarded().str_string()?;
            Ok(Value::Bytes(Bytes::copy_from_slice(string.as_bytes())))
        }
        b'0'..=b'9' | b'-' => {
            let (text, parts) = lexer.num_string().validated()?;
            number(text, parts.is_int())
        }
        b'{' => object(lexer, depth.checked_sub(1).ok_or_else(Invalid::too_deep)?),
        b'[' => array(lexer, depth.checked_sub(1).ok_or_else(Invalid::too_deep)?),
        b'a'..=b'z' => Ok(lexer.null_or_bool().ok_or(Expect::Value)?.map_or(Value::Null, Value::Boolean)),
        _ => Err(Expect::Value.into()),
    }
}

fn object(lexer: &mut SliceLexer<'_>, depth: usize) -> Result<Value, Invalid> {
    let mut members = ObjectMap::new();
    lexer.discarded().seq(b'}', SliceLexer::ws_peek, |next, lexer| {
        lexer.expect(|_| Some(next), b'"').ok_or(Expect::String)?;
        let name = lexer.str_string()?;
        lexer.expect(SliceLexer::ws_peek, b':').ok_or(Expect::Colon)?;
        let next = lexer.ws_peek().ok_or(Expect::Value)?;
        let member = value(next, lexer, depth).map_err(|e| e.inside(|| Segment::Member(name.to_string())))?;
        members.insert(KeyString::from(name.into_owned()), member);
        Ok::<_, Invalid>(())
    })?;
    Ok(Value::Object(members))
}

fn array(lexer: &mut SliceLexer<'_>, depth: usize) -> Result<Value, Invalid> {
    let mut items = Vec::new();
    lexer.discarded().seq(b']', SliceLexer::ws_peek, |next, lexer| {
        items.push(value(next, lexer, depth).map_err(|e| e.inside(|| Segment::Index(items.len())))?);
        Ok::<_, Invalid>(())
    })?;
    Ok(Value::Array(items))
}

fn ignore(next: u8, lexer: &mut SliceLexer<'_>, depth: usize) -> Result<(), Invalid> {
    let deeper = || depth.checked_sub(1).ok_or_else(Invalid::too_deep);
    match next {
        b'"' => Ok(lexer.discarded().str_ignore()?),
        b'0'..=b'9' | b'-' => Ok(lexer.num_ignore().validate().map(drop)?),
        b'{' => {
            let depth = deeper()?;
            lexer.discarded().seq(b'}', SliceLexer::ws_peek, |next, lexer| {
                lexer.expect(|_| Some(next), b'"').ok_or(Expect::String)?;
                lexer.str_ignore()?;
                lexer.expect(SliceLexer::ws_peek, b':').ok_or(Expect::Colon)?;
                let next = lexer.ws_peek().ok_or(Expect::Value)?;
                ignore(next, lexer, depth)
            })
        }
        b'[' => {
            let depth = deeper()?;
            lexer.discarded().seq(b']', SliceLexer::ws_peek, |next, lexer| ignore(next, lexer, depth))
        }
        b'a'..=b'z' => Ok(lexer.null_or_bool().map(drop).ok_or(Expect::Value)?),
        _ => Err(Expect::Value.into()),
    }
}

fn number(text: &str, is_integer: bool) -> Result<Value, Invalid> {
    if is_integer {
        // "-0" becomes 0: the sign of zero is not a value.
        return text.parse().map(Value::Integer).map_err(|_| Invalid::new("the integer does not fit into 64 bits"));
    }
    let lossy = || Invalid::new("a 64-bit float cannot hold all digits of the number; send it as a string");
    let float: f64 = text.parse().map_err(|_| lossy())?;
    if !is_exact(text, float) {
        return Err(lossy());
    }
    NotNan::new(float).map(Value::Float).map_err(|_| lossy())
}

/// Whether the float gives the digits of the text back: printed with as few digits as identify it, or with the 16 or 17 that C
/// programs print a float with.
pub(crate) fn is_exact(text: &str, float: f64) -> bool {
    let Some(decimal) = Decimal::of(text) else { return false };
    // Any 15 digits survive, as long as the exponent is far from the ends of the range.
    if decimal.count <= 15 && (-290..290).contains(&decimal.exponent) {
        return true;
    }
    let prints = [format!("{float:e}"), format!("{float:.15e}"), format!("{float:.16e}")];
    float.is_finite() && prints.iter().any(|print| Decimal::of(print).is_some_and(|printed| decimal.equals(&printed)))
}

/// A number's significant digits, and the power of ten of the last of them.
struct Decimal<'a> {
    mantissa: &'a str,
    /// Number of digits between the leading and the trailing zeros.
    count: usize,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// `None` where the exponent is beyond all bounds.
    fn of(text: &'a str) -> Option<Self> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (mut count, mut zeros, mut decimals, mut fraction) = (0, 0, 0_i64, false);
        for byte in mantissa.bytes() {
            match byte {
                b'.' => fraction = true,
                b'0' => zeros += 1,
                b'1'..=b'9' => {
                    count = if count == 0 { 1 } else { count + zeros + 1 };
                    zeros = 0;
                }
                _ => continue,
            }
            decimals += i64::from(fraction && byte != b'.');
        }
        let exponent = if count == 0 { 0 } else { i64::from(exponent) - decimals + i64::try_from(zeros).ok()? };
        Some(Decimal { mantissa, count, exponent })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|byte| *byte == b'0').take(self.count)
    }

    fn equals(&self, other: &Decimal<'_>) -> bool {
        self.exponent == other.exponent && self.count == other.count && self.digits().eq(other.digits())
    }
}

/// Writes the value's JSON text. Members come in the order of their names.
pub(crate) fn encode(value: &Value, text: &mut Vec<u8>) -> Result<(), Invalid> {
    write(value, text, DEEPEST)
}

fn write(value: &Value, text: &mut Vec<u8>, depth: usize) -> Result<(), Invalid> {
    match value {
        Value::Null => text.extend_from_slice(b"null"),
        Value::Boolean(true) => text.extend_from_slice(b"true"),
        Value::Boolean(false) => text.extend_from_slice(b"false"),
        Value::Integer(integer) => display(text, integer),
        // `Debug` prints the fewest digits that identify the float, and always a point or an exponent.
        Value::Float(float) if float.is_finite() => display(text, &format_args!("{:?}", float.into_inner())),
        Value::Float(_) => return Err(Invalid::new("JSON has no number for infinity")),
        Value::Bytes(bytes) => {
            let string = std::str::from_utf8(bytes).map_err(|_| Invalid::new("the string is not valid UTF-8"))?;
            write_string(string, text);
        }
        Value::Regex(regex) => write_string(regex.as_str(), text),
        Value::Timestamp(time) => write_string(&time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true), text),
        Value::Array(items) => {
            let depth = depth.checked_sub(1).ok_or_else(Invalid::too_deep)?;
            text.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(b',');
                }
                write(item, text, depth).map_err(|e| e.inside(|| Segment::Index(i)))?;
            }
            text.push(b']');
        }
        Value::Object(members) => {
            let depth = depth.checked_sub(1).ok_or_else(Invalid::too_deep)?;
            text.push(b'{');
            for (i, (name, member)) in members.iter().enumerate() {
                if i > 0 {
                    text.push(b',');
                }
                write_string(name, text);
                text.push(b':');
                write(member, text, depth).map_err(|e| e.inside(|| Segment::Member(name.to_string())))?;
            }
            text.push(b'}');
        }
    }
    Ok(())
}

fn display(text: &mut Vec<u8>, value: &dyn fmt::Display) {
    write!(text, "{value}").expect("writing to memory does not fail");
}

fn write_string(string: &str, text: &mut Vec<u8>) {
    text.push(b'"');
    let mut rest = string.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        text.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => text.extend_from_slice(&[b'\\', byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            byte => display(text, &format_args!("\\u{byte:04x}")),
        }
        rest = &rest[at + 1..];
    }
    text.extend_from_slice(rest);
    text.push(b'"');
}

/// A string as JSON text.
pub(crate) fn quoted(string: &str) -> String {
    let mut text = Vec::with_capacity(string.len() + 2);
    write_string(string, &mut text);
    String::from_utf8(text).expect("made from a str and ASCII")
}

/// Whether the text is a JSON number.
pub(crate) fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && check(text.as_bytes()).is_ok()
}
