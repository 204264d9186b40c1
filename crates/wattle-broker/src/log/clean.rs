//! Retention and compaction. Whole segments are removed by time and size; compaction keeps the newest value of every key in what lies
//! before the segment that is written to and before the last stable offset.
//!
//! A pass first maps keys to their newest offsets, then writes segments anew without what is superseded. It goes on over several calls, so that
//! nobody waits long for the lock, and its map is bounded: what does not fit is the next pass's. A new segment replaces old ones in one rename.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};

use super::PartitionLog;
use super::batch::Header;
use super::compression;
use super::producers::Producers;
use super::record::{Record, Records, marker_commits};
use super::segment::{Replacement, Segment};
use crate::error::Error;
use crate::topic::TopicConfig;
use crate::types::Millis;

/// Bytes that one call reads, about.
const BYTES_A_CALL: u64 = 8 << 20;
/// Keys that one pass maps: some 8 MiB.
const KEYS_A_PASS: usize = 200_000;

/// How far compaction has come.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// Everything before it was compacted since the log was opened.
    cleaned: i64,
    /// When the next tombstone or marker may be removed.
    horizon: Option<Millis>,
    pass: Option<Pass>,
}

/// One round over the log.
#[derive(Debug, Default)]
struct Pass {
    now: Millis,
    delete_retention_ms: i64,
    /// Of each key between where the last pass ended and `mapped`: the offset of its newest record.
    newest: HashMap<u128, i64>,
    mapped: i64,
    until: i64,
    /// The first offset of the segment that is written anew next.
    next: i64,
    /// First offset and marker of the aborted transactions of a producer, in order.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
    /// Producers of whose current transaction a batch was seen.
    with_data: HashSet<i64>,
    removed_markers: HashSet<i64>,
    horizon: Option<Millis>,
}

/// What becomes of a batch.
#[derive(Debug, PartialEq)]
enum Verdict {
    Keep,
    Drop,
    Replace(Vec<u8>),
}

impl PartitionLog {
    /// Retention by time and size, compaction, and forgetting of idle producers. To be called every few seconds; cheap when there is nothing to do.
    /// Returns true while there is more to do now: call it again soon, before other partitions, since a pass keeps a map of some MB until it is
    /// done. Never removes anything at or past the last stable offset.
    pub(crate) fn clean(&mut self, config: &TopicConfig, now: Millis) -> Result<bool, Error> {
        self.producers.forget_idle(now, |id| self.transactions.is_open(id));
        self.segments.iter_mut().for_each(Segment::rest);
        if self.is_roll_due(config, now) {
            self.roll()?;
        }
        if config.delete {
            self.retain(config, now)?;
        }
        if config.compact {
            return self.compact(config, now);
        }
        self.cleaner = Cleaner::default();
        Ok(false)
    }

    /// Whether the segment that is written to has to be closed, so that it can be removed or compacted though nothing is written any more.
    fn is_roll_due(&self, config: &TopicConfig, now: Millis) -> bool {
        let active = self.active();
        let (Some(born), Some((largest, _))) = (active.born, active.largest) else { return false };
        let is_older = |since: Millis, limit: i64| now.saturating_sub(since) >= limit;
        is_older(born, config.segment_ms)
            || (config.compact && is_older(born, config.max_compaction_lag_ms))
            || (config.delete
                && active.next <= self.last_stable()
                && config.retention_ms.is_some_and(|limit| is_older(largest, limit)))
    }

    /// Removes segments that are too old or too many.
    fn retain(&mut self, config: &TopicConfig, now: Millis) -> Result<(), Error> {
        let stable = self.last_stable();
        let mut bytes = self.bytes();
        let mut start = self.start;
        for pair in self.segments.windows(2) {
            let [segment, after] = pair else { continue };
            let is_old = |limit| segment.largest.is_none_or(|(largest, _)| now.saturating_sub(largest) >= limit);
            let is_surplus = |limit| bytes - segment.size >= limit;
            if after.base > stable
                || !(config.retention_ms.is_some_and(is_old) || config.retention_bytes.is_some_and(is_surplus))
            {
                break;
            }
            bytes -= segment.size;
            start = after.base;
        }
        if start > self.start { self.delete_before(start) } else { Ok(()) }
    }

    fn compact(&mut self, config: &TopicConfig, now: Millis) -> Result<bool, Error> {
        let Some(mut pass) = self.cleaner.pass.take().or_else(|| self.pass_due(config, now)) else { return Ok(false) };
        let mut left = BYTES_A_CALL;
        while left > 0 {
            let worked = if pass.mapped < pass.until { self.map(&mut pass)? } else { self.rewrite(&mut pass, config)? };
            if worked == 0 {
                self.cleaner = Cleaner { cleaned: pass.until, horizon: pass.horizon, pass: None };
                return Ok(false);
            }
            left = left.saturating_sub(worked);
        }
        self.cleaner.pass = Some(pass);
        Ok(true)
    }

    /// A new pass, if enough was written since the last one, or something may be forgotten now.
    fn pass_due(&self, config: &TopicConfig, now: Millis) -> Option<Pass> {
        let stable = self.last_stable();
        let (mut until, mut total, mut dirty, mut is_late) = (self.start, 0, 0, false);
        for pair in self.segments.windows(2) {
            let [segment, after] = pair else { continue };
            let age = segment.largest.map_or(i64::MAX, |(largest, _)| now.saturating_sub(largest));
            let is_young = config.min_compaction_lag_ms > 0 && age < config.min_compaction_lag_ms;
            if after.base > stable || is_young {
                break;
            }
            until = after.base;
            total += segment.size;
            if segment.next > self.cleaner.cleaned {
                dirty += segment.size;
                is_late |= segment.born.is_some_and(|born| now.saturating_sub(born) >= config.max_compaction_lag_ms);
            }
        }
        let is_dirty =
            dirty > 0 && (is_late || dirty as f64 * 1e6 >= total as f64 * f64::from(config.min_cleanable_dirty_ratio));
        let is_horizon = total > 0 && self.cleaner.horizon.is_some_and(|horizon| horizon <= now);
        if !is_dirty && !is_horizon {
            return None;
        }
        let mut aborted: HashMap<_, Vec<_>> = HashMap::new();
        for one in self.transactions.aborted() {
            aborted.entry(one.producer).or_default().push((one.first, one.marker));
        }
        Some(Pass {
            now,
            delete_retention_ms: config.delete_retention_ms,
            mapped: self.cleaner.cleaned.min(until),
            until,
            aborted,
            ..Pass::default()
        })
    }

    /// Maps the keys of one more segment; returns the bytes read.
    fn map(&self, pass: &mut Pass) -> Result<u64, Error> {
        let number = self.segments.partition_point(|segment| segment.next <= pass.mapped);
        let Some(segment) = self.segments.get(number).filter(|segment| segment.base < pass.until) else {
            pass.mapped = pass.until;
            return Ok(1);
        };
        let mut walk = segment.walk(pass.mapped)?;
        while let Some((header, at)) = walk.next()? {
            if !header.is_control() && !pass.is_aborted(&header) {
                if !pass.newest.is_empty() && pass.newest.len() + header.count as usize > KEYS_A_PASS {
                    pass.until = pass.mapped;
                    return Ok(segment.size);
                }
                pass.map(&header, walk.batch(&header, at)?);
            }
            pass.mapped = header.last() + 1;
        }
        // past it even if it is empty
        pass.mapped = pass.mapped.max(segment.next);
        Ok(segment.size.max(1))
    }

    /// Writes the next few segments anew as one; returns the bytes read, 0 if there are no more.
    fn rewrite(&mut self, pass: &mut Pass, config: &TopicConfig) -> Result<u64, Error> {
        let first = self.segments.partition_point(|segment| segment.base < pass.next);
        let mut size = 0;
        let fits = |segment: &&Segment| {
            size += segment.size;
            segment.base < pass.until && size <= config.segment_bytes
        };
        let sealed = &self.segments[..self.segments.len() - 1];
        let several = sealed.iter().skip(first).take_while(fits).count();
        // a segment that alone is too large is written anew alone
        let count = if sealed.get(first).is_some_and(|segment| segment.base < pass.until) { several.max(1) } else { 0 };
        if count == 0 {
            return Ok(0);
        }
        let old = &self.segments[first..first + count];
        let (base, end) = (old[0].base, self.segments[first + count].base);
        let mut replacement = Replacement::begin(self.folder.as_deref(), base, end)?;
        let mut is_changed = count > 1;
        for segment in old {
            let mut walk = segment.walk_at(0);
            while let Some((header, at)) = walk.next()? {
                let batch = walk.batch(&header, at)?;
                let verdict = pass.judge(&header, batch, &self.producers);
                is_changed |= verdict != Verdict::Keep;
                match &verdict {
                    Verdict::Drop => {}
                    Verdict::Keep => replacement.append(batch, segment.born)?,
                    Verdict::Replace(batch) => replacement.append(batch, segment.born)?,
                }
            }
        }
        let worked = old.iter().map(|segment| segment.size).sum::<u64>().max(1);
        pass.next = end;
        if is_changed {
            let old = self.segments.splice(first..first + count, []).collect();
            self.segments.insert(first, replacement.finish(old)?);
            self.transactions.forget(&pass.removed_markers);
        } else {
            replacement.give_up()?;
        }
        Ok(worked)
    }
}

impl Pass {
    fn is_aborted(&self, header: &Header) -> bool {
        let Some(all) = self.aborted.get(&header.producer.id).filter(|_| header.is_transactional()) else {
            return false;
        };
        let ended = all.partition_point(|(_, marker)| *marker < header.base);
        all.get(ended).is_some_and(|(first, _)| *first <= header.base)
    }

    fn map(&mut self, header: &Header, batch: &[u8]) {
        let Ok(records) = Records::open(header, batch) else { return };
        for record in records.iter().map_while(Result::ok) {
            if let Some(key) = record.key {
                self.newest.insert(hash(key), header.base + i64::from(record.offset_delta));
            }
        }
    }

    /// Batches come in order, from the beginning of the log.
    fn judge(&mut self, header: &Header, batch: &[u8], producers: &Producers) -> Verdict {
        if header.is_control() {
            return self.judge_marker(header, batch, producers);
        }
        if header.is_transactional() {
            self.with_data.insert(header.producer.id);
        }
        match self.filter(header, batch) {
            Some(Verdict::Drop) if producers.needs(header) && header.count == 0 => Verdict::Keep,
            Some(Verdict::Drop) if producers.needs(header) => Verdict::Replace(header.without_records().encode(&[])),
            Some(verdict) => verdict,
            // what cannot be read is not ours to throw away
            None => Verdict::Keep,
        }
    }

    /// A marker stays while there are batches of its transaction, and then for as long as a tombstone, so that no reader misses it.
    fn judge_marker(&mut self, header: &Header, batch: &[u8], producers: &Producers) -> Verdict {
        let had_data = self.with_data.remove(&header.producer.id);
        if had_data || marker_commits(header, batch).is_none() || producers.needs(header) {
            return Verdict::Keep;
        }
        match header.delete_horizon() {
            Some(horizon) if horizon <= self.now => {
                self.removed_markers.insert(header.base);
                Verdict::Drop
            }
            Some(horizon) => {
                self.wait_until(horizon);
                Verdict::Keep
            }
            None => {
                let horizon = self.new_horizon();
                self.wait_until(horizon);
                select(header, batch, horizon, |_, _| true).map_or(Verdict::Keep, |selected| selected.verdict)
            }
        }
    }

    /// `None` if the records cannot be read.
    fn filter(&mut self, header: &Header, batch: &[u8]) -> Option<Verdict> {
        if header.count == 0 || self.is_aborted(header) {
            return Some(Verdict::Drop);
        }
        let is_over = header.delete_horizon().is_some_and(|horizon| horizon <= self.now);
        let selected = select(header, batch, self.new_horizon(), |record, offset| {
            let Some(key) = record.key else { return false };
            let is_newest = self.newest.get(&hash(key)).is_none_or(|newest| offset >= *newest);
            is_newest && !(record.is_tombstone() && is_over)
        })?;
        if let Some(horizon) = selected.horizon {
            self.wait_until(horizon);
        }
        Some(selected.verdict)
    }

    fn new_horizon(&self) -> Millis {
        self.now.saturating_add(self.delete_retention_ms)
    }

    fn wait_until(&mut self, horizon: Millis) {
        self.horizon = Some(self.horizon.map_or(horizon, |before| before.min(horizon)));
    }
}

/// A batch without the records that are not wanted.
struct Selected {
    verdict: Verdict,
    /// When the tombstones that are left may go.
    horizon: Option<Millis>,
}

/// Selects by record and offset. A marker, or a batch with tombstones, that has no delete horizon gets this one. `None` if the records cannot be read.
fn select(
    header: &Header,
    batch: &[u8],
    horizon: Millis,
    is_wanted: impl Fn(&Record<'_>, i64) -> bool,
) -> Option<Selected> {
    let records = Records::open(header, batch).ok()?;
    let all = records.iter().collect::<Result<Vec<_>, _>>().ok()?;
    let is_kept = |record: &&Record<'_>| is_wanted(record, header.base + i64::from(record.offset_delta));
    let kept: Vec<_> = all.iter().filter(is_kept).collect();
    let has_horizon = header.is_control() || kept.iter().any(|record| record.is_tombstone());
    let horizon = has_horizon.then(|| header.delete_horizon().unwrap_or(horizon));
    if kept.is_empty() {
        return Some(Selected { verdict: Verdict::Drop, horizon: None });
    }
    let mut new = match horizon {
        Some(at) => header.with_delete_horizon(at),
        None => *header,
    };
    if kept.len() == all.len() && new == *header {
        return Some(Selected { verdict: Verdict::Keep, horizon });
    }
    new.count = kept.len() as i32;
    new.max_timestamp = kept.iter().map(|record| record.timestamp(header)).max()?;
    let mut body = vec![];
    kept.iter().for_each(|record| record.write(header, new.base_timestamp, &mut body));
    let body = compression::compress(header.codec(), &body).ok()?;
    Some(Selected { verdict: Verdict::Replace(new.encode(&body)), horizon })
}

/// 128 bits: with any number of keys that fits, no two are ever the same.
fn hash(key: &[u8]) -> u128 {
    let half = |seed| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        hasher.write(key);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
