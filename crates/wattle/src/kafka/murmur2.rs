//! Where producers put a key: Java's partitioner, which ours uses as well.

/// The partition of a key's records in a topic with so many.
pub(crate) fn partition_of(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & i32::MAX) % partitions.max(1)
}

/// As `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(key: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let (words, rest) = key.as_chunks::<4>();
    let length = u32::try_from(key.len() & 0xffff_ffff).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    (hash ^ (hash >> 15)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Kafka's own test of it.
    #[test]
    fn keys_have_the_hashes_that_java_gives_them() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
        }
        assert_eq!((partition_of(b"TT0124", 15), partition_of(b"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32)), (10, 26));
    }
}
