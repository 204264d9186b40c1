//! The bytes of the predecessor's states, for an application that takes its place.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

use super::StageError;
use super::codec::{Codec, json_problem};

/// A state as Flechtwerk keeps it, for a stage that goes on with the changelog of a Flechtwerk transformer. It is a JSON object, written
/// byte for byte as Flechtwerk writes it: keys sorted, no spaces, text not escaped more than it has to be, floats as Python prints them
/// (`1e+16`, `1.0`). The empty object is no state: it is read as none, and to set it deletes the state.
///
/// That is why it is a type of its own: elsewhere a state without fields is one.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use wattle::{FlechtwerkJson, Next, Output, Record, StageError, StatefulTransformer};
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Counter {
///     count: u64,
/// }
///
/// struct Count;
///
/// impl StatefulTransformer for Count {
///     type State = FlechtwerkJson<Counter>;
///
///     async fn transform(
///         &self,
///         _record: &Record<'_>,
///         state: Option<FlechtwerkJson<Counter>>,
///         _out: &mut Output,
///     ) -> Result<Next<FlechtwerkJson<Counter>>, StageError> {
///         let FlechtwerkJson(Counter { count }) = state.unwrap_or_default();
///         Ok(Next::Set(FlechtwerkJson(Counter { count: count + 1 })))
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlechtwerkJson<T>(pub T);

impl<T: Serialize + DeserializeOwned> Codec for FlechtwerkJson<T> {
    /// # Errors
    /// For what is not an object, and for a number that is not finite: neither does the predecessor take.
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), StageError> {
        let value = serde_json::to_value(&self.0)?;
        if !value.is_object() {
            return Err(StageError::new("a state of Flechtwerk is a JSON object, and this one is something else"));
        }
        let mut has_null = false;
        write(&value, bytes, &mut has_null)?;
        // serde makes a null of a number that is not finite. One that the type does not take would end the run at the key's next record.
        if has_null && let Err(error) = T::deserialize(&value) {
            let problem = json_problem(&error);
            return Err(StageError::new(format!(
                "with a null for a number that is not finite it cannot be read back: {problem}"
            )));
        }
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, StageError> {
        T::decode(bytes).map(FlechtwerkJson)
    }

    fn is_no_state(bytes: &[u8]) -> bool {
        bytes.is_empty() || bytes == b"{}"
    }
}

fn write(value: &Value, bytes: &mut Vec<u8>, has_null: &mut bool) -> Result<(), StageError> {
    match value {
        Value::Null => {
            *has_null = true;
            bytes.extend(b"null");
        }
        // The same escapes as Python's: the short ones, and \u00xx for other control characters.
        Value::Bool(_) | Value::String(_) => serde_json::to_writer(bytes, value)?,
        Value::Number(number) => bytes.extend(python(number).into_bytes()),
        Value::Array(values) => {
            bytes.push(b'[');
            for (index, value) in values.iter().enumerate() {
                separate(index, bytes);
                write(value, bytes, has_null)?;
            }
            bytes.push(b']');
        }
        Value::Object(fields) => {
            // By code points, which is the order of UTF-8's bytes. serde_json's own order depends on its features.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            bytes.push(b'{');
            for (index, (name, value)) in fields.into_iter().enumerate() {
                separate(index, bytes);
                serde_json::to_writer(&mut *bytes, name)?;
                bytes.push(b':');
                write(value, bytes, has_null)?;
            }
            bytes.push(b'}');
        }
    }
    Ok(())
}

fn separate(index: usize, bytes: &mut Vec<u8>) {
    if index > 0 {
        bytes.push(b',');
    }
}

/// A number as Python prints it: whole ones as they are, floats with their shortest digits, and with an exponent of at least two digits where
/// they are below 1e-4, or 1e16 and above.
fn python(number: &Number) -> String {
    let text = number.to_string();
    let is_float = text.contains(['.', 'e', 'E']);
    let Some(float) = number.as_f64().filter(|_| is_float) else { return text };
    let scientific = format!("{float:e}");
    let parts = scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
    match parts {
        Some((digits, exponent)) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{float:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn bytes<T: Serialize + DeserializeOwned>(value: T) -> Result<String, String> {
        let mut bytes = Vec::new();
        FlechtwerkJson(value).encode(&mut bytes).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(bytes).expect("JSON is text"))
    }

    /// What `json.dumps(…, sort_keys=True, separators=(",", ":"), ensure_ascii=False)` prints for the same values.
    #[test]
    fn the_bytes_are_those_of_the_predecessor() {
        let texts = [
            r#"{"B":1,"a":{"x":[],"y":[1,"2",null,true,{}]},"b":"","é":0,"😀":false}"#,
            r#"{"escapes":"\b\t\n\f\r\u0001\u001f\"\\/ é😀"}"#,
            r#"{"n":[0,-1,18446744073709551615,-9223372036854775808]}"#,
            r#"{"n":[0.0,-0.0,1.0,0.1,-2.5,100.0,1234567890123456.8,1000000000000000.0,9007199254740993.0]}"#,
            r#"{"n":[1e+16,1.5e+16,1e+22,1e+100,1.7976931348623157e+308,0.0001,1e-05,1.25e-07,5e-324,-1e-10]}"#,
        ];
        for text in texts {
            let value: Value = serde_json::from_str(text).expect("JSON");
            // 9007199254740993.0 is the float next to it, for Python too.
            assert_eq!(bytes(value).as_deref(), Ok(text.replace("740993.0", "740992.0").as_str()));
        }
    }

    #[test]
    fn fields_and_keys_of_maps_are_sorted_however_the_type_has_them() {
        #[derive(Serialize, serde::Deserialize)]
        struct State {
            z: HashMap<String, u8>,
            a: f64,
        }
        let z = ["q", "p", "ä", "Z"].into_iter().zip(0..).map(|(key, n)| (key.to_owned(), n)).collect();
        assert_eq!(bytes(State { z, a: 3.0 }).as_deref(), Ok(r#"{"a":3.0,"z":{"Z":3,"p":1,"q":0,"ä":2}}"#));
    }

    #[test]
    fn what_the_predecessor_does_not_take_is_refused() {
        assert!(bytes(1).is_err_and(|text| text.contains("JSON object")));
        for float in [f64::NAN, f64::INFINITY] {
            let refused = bytes(HashMap::from([("n".to_owned(), float)]));
            assert!(refused.is_err_and(|text| text.contains("not finite")));
        }
        let some = HashMap::from([("n".to_owned(), None::<f64>)]);
        assert_eq!(bytes(some).as_deref(), Ok(r#"{"n":null}"#));
    }

    #[test]
    fn empty_bytes_and_the_empty_object_are_no_state_and_elsewhere_they_are_one() {
        type Fields = HashMap<String, u64>;
        assert!([&b""[..], b"{}"].into_iter().all(FlechtwerkJson::<Fields>::is_no_state));
        assert!(!FlechtwerkJson::<Fields>::is_no_state(br#"{"a":1}"#));
        assert!(!Fields::is_no_state(b"{}"));
    }
}
