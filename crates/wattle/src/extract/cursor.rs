//! What a cursor is called: the key of its record in the changelog.

use std::fmt;

/// Keys that begin so are cursors; no other record of a changelog may have one.
const PREFIX: &str = "\0wattle.cursor\0";

/// Names the source that a cursor belongs to, within one transactional id. It must be the same after a restart: a source whose cursor
/// is not found begins at its beginning. No part may contain a zero byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CursorName {
    /// What kind of source, with its instance where the transactional id does not tell it: `file`.
    pub source: String,
    /// What of the source: a topic, or a file's path.
    pub topic: String,
    /// Its partition there; 0 for sources without.
    pub partition: i32,
}

impl CursorName {
    pub(crate) fn key(&self) -> Vec<u8> {
        format!("{PREFIX}{}\0{}\0{}", self.source, self.topic, self.partition).into_bytes()
    }

    /// The name in a record's key; `None` where the record is no cursor.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?.split('\0');
        let (source, topic, partition) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
        let name = CursorName { source: source.to_owned(), topic: topic.to_owned(), partition };
        parts.next().is_none().then_some(name)
    }
}

impl fmt::Display for CursorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.source, self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_source() {
        let name = CursorName { source: "file".into(), topic: "a/b c.jsonl".into(), partition: 3 };
        assert_eq!(name.key(), b"\0wattle.cursor\0file\0a/b c.jsonl\x003");
        assert_eq!(CursorName::of_key(&name.key()), Some(name));
    }

    #[test]
    fn other_keys_are_no_cursors() {
        for key in
            ["", "k", "\0wattle.cursor\0file\0a", "\0wattle.cursor\0file\0a\0x", "\0wattle.cursor\0file\0a\x000\0more"]
        {
            assert_eq!(CursorName::of_key(key.as_bytes()), None, "{key:?}");
        }
    }
}
