//! The codecs of Kafka's batches.

use std::borrow::Cow;
use std::io::{self, Read, Write};

/// More than any batch that a request can hold expands to in earnest.
const LIMIT: u64 = 128 << 20;

/// Before the blocks of snappy-java, each with its length in front.
const SNAPPY_JAVA: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const SNAPPY_BLOCK: usize = 32 << 10;

/// Whether `codec` is one that exists.
pub(crate) fn is_known(codec: i16) -> bool {
    (0..=4).contains(&codec)
}

/// What `bytes` were before compression. Errors say why not.
pub(crate) fn expand(codec: i16, bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let expanded = match codec {
        0 => return Ok(Cow::Borrowed(bytes)),
        1 => limited(flate2::read::MultiGzDecoder::new(bytes)),
        2 => expand_snappy(bytes),
        3 => limited(lz4_flex::frame::FrameDecoder::new(bytes)),
        4 => zstd::stream::read::Decoder::with_buffer(bytes).and_then(limited),
        _ => return Err(format!("compression codec {codec} is not known")),
    };
    expanded.map(Cow::Owned).map_err(|error| format!("the {} data cannot be read: {error}", name(codec)))
}

/// Compresses with the same codec as the client did.
pub(crate) fn compress(codec: i16, bytes: &[u8]) -> io::Result<Vec<u8>> {
    match codec {
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        2 => compress_snappy(bytes),
        3 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(vec![]);
            encoder.write_all(bytes)?;
            encoder.finish().map_err(io::Error::other)
        }
        4 => zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
        _ => Ok(bytes.to_vec()),
    }
}

fn name(codec: i16) -> &'static str {
    ["plain", "gzip", "snappy", "lz4", "zstd"][codec as usize]
}

fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut out = vec![];
    from.take(LIMIT + 1).read_to_end(&mut out)?;
    check_limit(out.len())?;
    Ok(out)
}

fn check_limit(size: usize) -> io::Result<()> {
    if size as u64 > LIMIT {
        return Err(io::Error::other(format!("it expands to more than {LIMIT} bytes")));
    }
    Ok(())
}

fn expand_snappy(bytes: &[u8]) -> io::Result<Vec<u8>> {
    // librdkafka writes one bare block, snappy-java a stream of them; the versions after its name vary
    let Some(mut rest) = bytes.strip_prefix(&SNAPPY_JAVA[..8]).and_then(|rest| rest.get(8..)) else {
        check_limit(snap::raw::decompress_len(bytes)?)?;
        return Ok(snap::raw::Decoder::new().decompress_vec(bytes)?);
    };
    let mut out = vec![];
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let block = after.get(..length).ok_or_else(|| io::Error::other("a block is cut short"))?;
        check_limit(out.len().saturating_add(snap::raw::decompress_len(block)?))?;
        out.extend(snap::raw::Decoder::new().decompress_vec(block)?);
        rest = &after[length..];
    }
    if rest.is_empty() { Ok(out) } else { Err(io::Error::other("a block is cut short")) }
}

fn compress_snappy(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = SNAPPY_JAVA.to_vec();
    for block in bytes.chunks(SNAPPY_BLOCK) {
        let block = snap::raw::Encoder::new().compress_vec(block)?;
        out.extend((block.len() as u32).to_be_bytes());
        out.extend(block);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_comes_back() {
        let plain: Vec<u8> = (0..100_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for codec in 0..=4 {
            let packed = compress(codec, &plain).unwrap();
            assert!(codec == 0 || packed.len() < plain.len(), "{codec}");
            assert_eq!(expand(codec, &packed).unwrap(), plain, "{codec}");
            if codec > 0 {
                assert!(expand(codec, &packed[..packed.len() / 2]).is_err(), "{codec}");
            }
        }
        assert!(expand(5, &plain).is_err());
    }

    #[test]
    fn a_bare_snappy_block_is_read() {
        let packed = snap::raw::Encoder::new().compress_vec(b"hello hello hello hello").unwrap();
        assert_eq!(expand(2, &packed).unwrap(), &b"hello hello hello hello"[..]);
    }

    #[test]
    fn what_expands_without_end_is_refused() {
        let zeros = vec![0; LIMIT as usize + 1];
        for codec in [3, 4] {
            let error = expand(codec, &compress(codec, &zeros).unwrap()).unwrap_err();
            assert!(error.contains("more than"), "{codec}: {error}");
        }
    }
}
