//! How a state is written in bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StageError;

/// The bytes of a state. Whatever serde can write and read is kept as JSON; [`Raw`] bytes stay what they are. For another format, wrap the
/// value in a type of your own, without serde's traits, and implement this for it.
///
/// ```
/// use wattle::{Codec, StageError};
///
/// /// A count in eight bytes.
/// struct Count(u64);
///
/// impl Codec for Count {
///     fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), StageError> {
///         bytes.extend(self.0.to_be_bytes());
///         Ok(())
///     }
///
///     fn decode(bytes: &[u8]) -> Result<Self, StageError> {
///         Ok(Count(u64::from_be_bytes(bytes.try_into()?)))
///     }
/// }
/// ```
pub trait Codec: Sized {
    /// Appends the bytes of the value. They are the same for equal values, or states are written that have not changed; and not empty,
    /// since no bytes mean that there is no state.
    ///
    /// # Errors
    /// Where the value has no bytes.
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), StageError>;

    /// Reads what [`Codec::encode`] has written.
    ///
    /// # Errors
    /// Where the bytes are no such value. Leave their contents out of the text: it is logged.
    fn decode(bytes: &[u8]) -> Result<Self, StageError>;

    /// Whether these bytes mean that the key has no state: they are not decoded, and to set a state that has them deletes it. Only
    /// [`FlechtwerkJson`](super::FlechtwerkJson) has such bytes.
    #[doc(hidden)]
    fn is_no_state(bytes: &[u8]) -> bool {
        let _ = bytes;
        false
    }
}

impl<T: Serialize + DeserializeOwned> Codec for T {
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), StageError> {
        Ok(serde_json::to_writer(bytes, self)?)
    }

    fn decode(bytes: &[u8]) -> Result<Self, StageError> {
        serde_json::from_slice(bytes).map_err(|error| StageError::new(json_problem(&error)))
    }
}

/// Bytes that are kept as they are. Empty ones are no state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Raw(pub Vec<u8>);

impl Codec for Raw {
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), StageError> {
        bytes.extend_from_slice(&self.0);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, StageError> {
        Ok(Raw(bytes.to_vec()))
    }
}

/// What is wrong with a JSON text, without quoting it as serde's own words do.
pub(super) fn json_problem(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let what = match error.classify() {
        Category::Eof => "it ends too early",
        Category::Syntax => "it is no JSON",
        Category::Data => "it is not what the type expects",
        Category::Io => "it cannot be read",
    };
    format!("{what}, at line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_and_raw_bytes_stay() {
        let mut bytes = Vec::new();
        vec![1, 2].encode(&mut bytes).expect("it has a JSON form");
        assert_eq!((bytes.as_slice(), Vec::<i32>::decode(&bytes).expect("it is")), (&b"[1,2]"[..], vec![1, 2]));
        bytes.clear();
        Raw(vec![0, 255]).encode(&mut bytes).expect("bytes");
        assert_eq!((bytes.as_slice(), Raw::decode(&bytes).expect("bytes")), (&[0, 255][..], Raw(vec![0, 255])));
    }

    #[test]
    fn an_error_does_not_quote_the_state() {
        let text = u64::decode(br#""secret""#).expect_err("a string").to_string();
        assert!(!text.contains("secret") && text.contains("column"), "{text}");
    }
}
