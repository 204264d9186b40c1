//! The values that a store on disk was asked for last, so that a hot key, and the look at what a batch has changed, cost no second search.

use std::collections::HashMap;

use fjall::Slice;

/// Keys, and bytes of keys and values, of one store. What would be beyond is forgotten together: a batch has fewer keys.
const MOST: (usize, usize) = (32_768, 4 << 20);

#[derive(Default)]
pub(super) struct Cache {
    /// `None` as value: the store has none.
    /// Slices, since a short one needs no memory of its own.
    values: HashMap<Slice, Option<Slice>>,
    bytes: usize,
}

impl Cache {
    #[allow(clippy::option_option)] // unknown, or known not to be there
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Slice>> {
        self.values.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: &[u8], value: Option<&Slice>) {
        let bytes = key.len() + value.map_or(0, |value| value.len());
        if self.values.len() >= MOST.0 || self.bytes + bytes > MOST.1 {
            self.values.clear();
            self.bytes = 0;
        }
        if bytes <= MOST.1 / 64 {
            self.bytes += bytes;
            self.values.insert(key.into(), value.cloned());
        }
    }

    /// The value of a key has changed.
    pub(super) fn update(&mut self, key: &[u8], value: Option<&[u8]>) {
        if let Some(known) = self.values.get_mut(key) {
            // Counted without those before: a bound, not an account.
            self.bytes += value.map_or(0, <[u8]>::len);
            *known = value.map(Into::into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_what_is_not_there_and_stays_small() {
        let mut cache = Cache::default();
        cache.put(b"gone", None);
        cache.put(b"a", Some(&Slice::from("1")));
        assert_eq!((cache.get(b"gone"), cache.get(b"unknown")), (Some(None), None));
        cache.update(b"a", Some(b"2"));
        cache.update(b"unknown", Some(b"2"));
        assert_eq!((cache.get(b"a"), cache.get(b"unknown")), (Some(Some(Slice::from("2"))), None));
        let large = Slice::from(vec![0; MOST.1 / 100]);
        for n in 0..1000_u32 {
            cache.put(&n.to_be_bytes(), Some(&large));
            assert!(cache.bytes <= MOST.1 && cache.values.len() <= 102);
        }
        let too_large = Slice::from(vec![0; MOST.1]);
        cache.put(b"large", Some(&too_large));
        assert_eq!(cache.get(b"large"), None);
    }
}
