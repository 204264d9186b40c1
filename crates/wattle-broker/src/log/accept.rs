//! What a batch from a client must be like before it is written.

use super::Refused;
use super::batch::{self, Header};
use super::compression;
use super::record::Records;
use crate::topic::TopicConfig;
use crate::types::{Code, Millis};

/// The header of the one batch that `bytes` are. Single records are looked at only where the topic is compacted, or limits how old they may be.
pub(super) fn check(bytes: &[u8], config: &TopicConfig, now: Millis) -> Result<Header, Refused> {
    let header = check_format(bytes)?;
    if bytes.len() > config.max_message_bytes {
        let text = format!("the batch has {} bytes, max.message.bytes is {}", bytes.len(), config.max_message_bytes);
        return Err(Refused::Code(Code::MessageTooLarge, Some(text)));
    }
    if !batch::is_intact(bytes) {
        return Err(Refused::Code(Code::CorruptMessage, Some("the batch does not fit its checksum".into())));
    }
    check_fields(&header)?;
    if !config.log_append_time {
        check_times(&header, config, now)?;
    }
    if config.compact || (!config.log_append_time && config.timestamp_before_max_ms < i64::MAX) {
        check_records(&header, bytes, config, now)?;
    }
    Ok(header)
}

fn check_format(bytes: &[u8]) -> Result<Header, Refused> {
    if bytes.is_empty() {
        return invalid("no batch");
    }
    if let Some(0 | 1) = bytes.get(16) {
        let text = "message formats 0 and 1 are not written any more".to_owned();
        return Err(Refused::Code(Code::UnsupportedForMessageFormat, Some(text)));
    }
    let corrupt = |reason: &str| Refused::Code(Code::CorruptMessage, Some(reason.to_owned()));
    let header = Header::parse(bytes).map_err(corrupt)?;
    if header.size > bytes.len() {
        return Err(corrupt("the batch is cut short"));
    }
    if header.size < bytes.len() {
        return invalid("more than one batch for a partition in a request");
    }
    Ok(header)
}

fn check_fields(header: &Header) -> Result<(), Refused> {
    if header.is_control() {
        return invalid("clients do not write control batches");
    }
    if header.delete_horizon().is_some() {
        return invalid("clients do not set delete horizons");
    }
    if header.count == 0 || i64::from(header.last_delta) + 1 != i64::from(header.count) {
        return invalid(format!("{} records with last offset delta {}", header.count, header.last_delta));
    }
    if !compression::is_known(header.codec()) {
        let text = format!("compression codec {} is not known", header.codec());
        return Err(Refused::Code(Code::UnsupportedCompressionType, Some(text)));
    }
    let has_sequence = header.producer.epoch >= 0 && header.sequence >= 0;
    if header.producer.id >= 0 && !has_sequence {
        return invalid("a producer id without epoch and sequence");
    }
    if header.producer.id < 0 && header.is_transactional() {
        return invalid("a transactional batch without a producer id");
    }
    Ok(())
}

fn check_times(header: &Header, config: &TopicConfig, now: Millis) -> Result<(), Refused> {
    if header.has_log_append_time() {
        let text = "clients do not set the log append time".to_owned();
        return Err(Refused::Code(Code::InvalidTimestamp, Some(text)));
    }
    if header.max_timestamp.saturating_sub(now) > config.timestamp_after_max_ms {
        let text = format!(
            "timestamp {} is later than the broker's time {now} by more than message.timestamp.after.max.ms={}",
            header.max_timestamp, config.timestamp_after_max_ms
        );
        return Err(Refused::Code(Code::InvalidTimestamp, Some(text)));
    }
    Ok(())
}

fn check_records(header: &Header, batch: &[u8], config: &TopicConfig, now: Millis) -> Result<(), Refused> {
    let records = Records::open(header, batch).or_else(invalid)?;
    for (index, record) in records.iter().enumerate() {
        let Ok(record) = record else { return invalid(format!("record {index} of the batch cannot be read")) };
        if usize::try_from(record.offset_delta) != Ok(index) {
            return invalid(format!("record {index} of the batch has offset delta {}", record.offset_delta));
        }
        if config.compact && record.key.is_none() {
            return invalid(format!("record {index} of the batch has no key, which compacted topics need"));
        }
        let timestamp = record.timestamp(header);
        if !config.log_append_time && now.saturating_sub(timestamp) > config.timestamp_before_max_ms {
            let text = format!(
                "timestamp {timestamp} of record {index} is earlier than the broker's time {now} by more than message.timestamp.before.max.ms={}",
                config.timestamp_before_max_ms
            );
            return Err(Refused::Code(Code::InvalidTimestamp, Some(text)));
        }
    }
    Ok(())
}

fn invalid<T>(text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Code(Code::InvalidRecord, Some(text.into())))
}
