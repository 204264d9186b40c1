//! A file as an output: a value a line, in segments. A segment has its final name only when it is complete and on the disk; until then it is a
//! hidden file that its writer holds a lock on. What a dead writer has left is completed by the next start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wattle::{Batch, Error, Sent, Stop};

use super::outside::{Refusals, Target};
use super::post::push_line;
use super::retry::{Refusal, Retry, Written};
use super::spawn;
use crate::chain::json;
use crate::spec::FileOutput;

/// The end of the name of a segment that is not complete.
const PARTIAL: &str = ".partial";
/// How often the age of a segment is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// The segments of one task.
pub(super) struct Segments {
    shared: Arc<Mutex<Writer>>,
    retry: Retry,
    text: Vec<u8>,
}

struct Writer {
    output: FileOutput,
    open: Option<Segment>,
    /// Why the thread that looks at the age could not complete a segment.
    failed: Option<Error>,
}

struct Segment {
    file: File,
    path: PathBuf,
    /// Bytes that are on the disk.
    length: u64,
    begun: Instant,
}

impl Segments {
    /// Completes what dead writers have left, and writes on in new segments.
    pub(super) fn open(output: FileOutput, retry: Retry) -> Result<Self, Error> {
        fs::create_dir_all(output.folder()).map_err(|source| failed("make the folder", output.folder(), source))?;
        complete_left(&output)?;
        let interval = output.roll_interval;
        let shared = Arc::new(Mutex::new(Writer { output, open: None, failed: None }));
        let writer = Arc::downgrade(&shared);
        spawn("wattle-roll".to_owned(), move || roll_by_age(&writer, interval))?;
        Ok(Segments { shared, retry, text: Vec::new() })
    }
}

impl Target for Segments {
    fn write(&mut self, _: &Batch, messages: &[Sent<'_>], refused: &mut Refusals, stop: &Stop) -> Result<bool, Error> {
        self.text.clear();
        messages.iter().for_each(|message| push_line(message.value.unwrap_or(b"null"), &mut self.text));
        let mut fatal = None;
        let written = self.retry.run(stop, || {
            let mut writer = lock(&self.shared);
            writer.append(&self.text).map_err(|error| match error {
                Append::Again(source) => Refusal::Later { reason: source.to_string(), after: None },
                Append::Over(error) => {
                    let reason = error.to_string();
                    fatal = Some(error);
                    Refusal::Never { reason }
                }
            })
        });
        match (written, fatal) {
            (_, Some(error)) => Err(error),
            (Written::Yes, None) => Ok(true),
            (Written::Stopped, None) => Ok(false),
            (Written::Refused(reason) | Written::GivenUp(reason), None) => {
                messages.iter().all(|message| refused.add(message.source, reason.clone()));
                Ok(true)
            }
        }
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        if let Err(error) = lock(&self.shared).complete() {
            tracing::error!(%error, "the last segment is not completed; if it is there, the next start completes it");
        }
    }
}

/// Why lines were not written.
enum Append {
    /// Nothing of them is in the file.
    Again(io::Error),
    /// What is in it is not known.
    Over(Error),
}

impl Writer {
    /// Adds lines, and syncs.
    fn append(&mut self, text: &[u8]) -> Result<(), Append> {
        if let Some(error) = self.failed.take() {
            return Err(Append::Over(error));
        }
        if self.open.is_none() {
            self.open = Some(Segment::begin(&self.output).map_err(Append::Again)?);
        }
        let segment = self.open.as_mut().expect("set in the lines above");
        segment.append(text)?;
        if segment.length >= self.output.roll_size {
            self.complete().map_err(Append::Over)?;
        }
        Ok(())
    }

    /// Gives the segment its final name.
    fn complete(&mut self) -> Result<(), Error> {
        let Some(segment) = self.open.take() else { return Ok(()) };
        complete(&self.output, &segment.path)
    }
}

impl Segment {
    fn begin(output: &FileOutput) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let (stem, end) = output.name();
        let name = format!("{stem}-{millis:013}-{}-{}{end}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = output.folder().join(format!(".{name}{PARTIAL}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        file.try_lock()?;
        if file.metadata()?.nlink() == 0 {
            // A start in between has held it for that of a dead writer. The next attempt has another name.
            return Err(io::Error::other("the new segment was removed by another process"));
        }
        sync_folder(output.folder())?;
        Ok(Segment { file, path, length: 0, begun: Instant::now() })
    }

    fn append(&mut self, text: &[u8]) -> Result<(), Append> {
        if let Err(error) = self.file.write_all(text) {
            let back = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            return Err(match back {
                Ok(_) => Append::Again(error),
                Err(source) => Append::Over(failed("cut", &self.path, source)),
            });
        }
        // A sync that has failed is not asked for again: the system may have dropped what it could not write.
        self.file.sync_data().map_err(|source| Append::Over(failed("sync", &self.path, source)))?;
        // Lines in a file that nobody can open any more are nowhere.
        if self.file.metadata().is_ok_and(|found| found.nlink() == 0) {
            let source =
                io::Error::new(io::ErrorKind::NotFound, "it was removed while it was written, with all lines in it");
            return Err(Append::Over(failed("write to", &self.path, source)));
        }
        self.length += text.len() as u64;
        Ok(())
    }
}

fn roll_by_age(writer: &Weak<Mutex<Writer>>, interval: Duration) {
    loop {
        std::thread::sleep(GLANCE);
        let Some(writer) = writer.upgrade() else { return };
        let mut writer = lock(&writer);
        if writer.open.as_ref().is_some_and(|segment| segment.begun.elapsed() >= interval)
            && let Err(error) = writer.complete()
        {
            tracing::error!(%error, "a segment is not completed; the next write stops the stream");
            writer.failed = Some(error);
        }
    }
}

/// Completes the segments of writers that are dead.
fn complete_left(output: &FileOutput) -> Result<(), Error> {
    let (stem, end) = output.name();
    let (begin, end) = (format!(".{stem}-"), format!("{end}{PARTIAL}"));
    let list = |source| failed("list", output.folder(), source);
    for entry in fs::read_dir(output.folder()).map_err(list)? {
        let path = entry.map_err(list)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with(&begin) || !name.ends_with(&end) {
            continue;
        }
        // Another process may have completed it in the meantime.
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        // Its writer lives.
        if file.try_lock().is_err() {
            continue;
        }
        if !path.exists() {
            continue; // it was completed just before
        }
        let length = whole_lines(&file).map_err(|source| failed("read", &path, source))?;
        if length == 0 {
            fs::remove_file(&path).map_err(|source| failed("remove", &path, source))?;
            continue;
        }
        let cut = file.set_len(length).and_then(|()| file.sync_all());
        cut.map_err(|source| failed("cut", &path, source))?;
        complete(output, &path)?;
        tracing::info!(path = %path.display(), length, "completed the segment of a process that has ended");
    }
    Ok(())
}

/// Bytes up to the first line that is not whole: a loss of power may leave anything behind what was synced.
fn whole_lines(file: &File) -> io::Result<u64> {
    let (mut reader, mut line, mut length) = (BufReader::new(file), Vec::new(), 0);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 || line.last() != Some(&b'\n') || json::check(&line).is_err() {
            return Ok(length);
        }
        length += read as u64;
    }
}

/// From the hidden name to the final one.
fn complete(output: &FileOutput, partial: &Path) -> Result<(), Error> {
    let name = partial.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.trim_start_matches('.').trim_end_matches(PARTIAL);
    let renamed = fs::rename(partial, output.folder().join(name)).and_then(|()| sync_folder(output.folder()));
    renamed.map_err(|source| failed("complete", partial, source))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    Error::Io { what: format!("{what} {}", path.display()), source }
}

fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use wattle::{Message, Output};

    use super::*;
    use crate::run::retry::Condition;
    use crate::spec::RetryPolicy;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("wattle-segments-{}-{name}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        folder
    }

    fn output(folder: &Path, roll_size: u64, roll_interval: Duration) -> FileOutput {
        let path = folder.join("out.jsonl");
        FileOutput {
            here: crate::yaml::Given::default(),
            shown: "out.jsonl".to_owned(),
            path,
            roll_size,
            roll_interval,
            retry: RetryPolicy::default(),
        }
    }

    fn segments(output: &FileOutput) -> Segments {
        let retry = Condition::new("s", "file".to_owned()).retry(output.retry);
        Segments::open(output.clone(), retry).unwrap()
    }

    fn write(segments: &mut Segments, values: &[&str]) {
        let mut output = Output::default();
        values.iter().for_each(|value| output.send(Message::to("").value(value.as_bytes())));
        let messages: Vec<_> = output.iter().collect();
        let batch = Batch::new(vec!["in".to_owned()]);
        assert!(segments.write(&batch, &messages, &mut Refusals::default(), &Stop::new()).unwrap());
    }

    /// Contents of the files with final names, in order, and how many are not complete.
    fn contents(folder: &Path) -> (Vec<String>, usize) {
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let hidden = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with('.');
        let (partial, complete): (Vec<_>, Vec<_>) = paths.into_iter().partition(hidden);
        (complete.iter().map(|path| fs::read_to_string(path).unwrap()).collect(), partial.len())
    }

    #[test]
    fn a_segment_has_its_name_when_it_is_full_or_old_or_the_writer_ends() {
        let folder = folder("roll");
        let mut by_size = segments(&output(&folder, 8, Duration::from_secs(3600)));
        write(&mut by_size, &["1", "{\n}"]);
        assert_eq!(contents(&folder), (vec![], 1));
        write(&mut by_size, &["3"]);
        assert_eq!(contents(&folder), (vec!["1\n{ }\n3\n".to_owned()], 0));
        write(&mut by_size, &["4"]);
        drop(by_size);
        assert_eq!(contents(&folder).0, ["1\n{ }\n3\n", "4\n"]);
        let mut by_age = segments(&output(&folder, 1 << 20, Duration::from_millis(1)));
        write(&mut by_age, &["5"]);
        let end = Instant::now() + Duration::from_secs(60);
        while contents(&folder).0.len() < 3 {
            assert!(Instant::now() < end, "nobody has completed it");
            std::thread::yield_now();
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_dead_writer_has_left_is_cut_and_completed_and_what_a_living_one_writes_is_not() {
        let folder = folder("left");
        let output = output(&folder, 1 << 20, Duration::from_secs(3600));
        let mut living = segments(&output);
        write(&mut living, &["1"]);
        for (name, text) in [("a", "7\n8\n{\"torn"), ("b", "{\"torn"), ("c", "9\n\0\0\0\n9\n")] {
            fs::write(folder.join(format!(".out-{name}.jsonl{PARTIAL}")), text).unwrap();
        }
        fs::write(folder.join(".other-a.jsonl.partial"), "not ours").unwrap();
        let next = segments(&output);
        assert_eq!(contents(&folder), (vec!["7\n8\n".to_owned(), "9\n".to_owned()], 2));
        drop((next, living));
        assert_eq!(contents(&folder).0[0], "1\n");
        fs::remove_dir_all(&folder).unwrap();
    }
}
