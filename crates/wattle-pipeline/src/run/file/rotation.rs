//! A file that is followed: whether it has grown, was cut, or is another one by now. A file is told by its inode, and what was read of it by the
//! bytes before the place. A log that is rotated by renaming is read to its end by the descriptor that is open; what cannot be followed is said,
//! and nothing of it is guessed.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wattle::Error;

/// How often is looked whether more has come.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// A file that was replaced is finished when nothing has come for so long: its writer may not know yet.
const QUIET: Duration = Duration::from_secs(1);
/// A writer that still has a finished file after this time is not noticed.
const LATE: Duration = Duration::from_secs(60);
/// Files that wait to be read; where a name is given away more often, those between are not known.
const MOST: usize = 64;
/// Bytes before the end that tell whether a file was written anew.
const WITNESS: u64 = 256;

pub(super) struct Rotation {
    path: PathBuf,
    /// The bytes before the end that was seen last.
    witness: Option<Vec<u8>>,
    /// Since when nothing has come of a file that was replaced, and its length.
    quiet: Option<(u64, Instant)>,
    /// Files that have got the name since, in their order: open, so that each can be read wherever it is by then.
    later: VecDeque<File>,
    /// The files before, each with the length at which it was left, and when.
    left: Vec<(File, u64, Instant)>,
}

/// What has become of a file that is read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    Same,
    /// It is shorter than what was read.
    Cut,
    /// Nothing has its name.
    Gone,
    /// Another one has its name. More may still come.
    Replaced,
    /// Another one has its name, and nothing comes any more.
    Finished,
}

impl Rotation {
    pub(super) fn new(path: &Path) -> Self {
        Rotation { path: path.to_owned(), witness: None, quiet: None, later: VecDeque::new(), left: Vec::new() }
    }

    /// Whether the file was cut and has grown again since it was read to its end. Asked once, before more is read.
    pub(super) fn is_written_anew(&mut self, file: &File, position: u64) -> Result<bool, Error> {
        let Some(witness) = self.witness.take() else { return Ok(false) };
        before(file, position).map(|bytes| bytes != witness).map_err(|source| self.failed(source))
    }

    /// After the file was read to its end.
    pub(super) fn look(&mut self, file: &File, position: u64) -> Result<Look, Error> {
        self.check_left()?;
        let own = file.metadata().map_err(|source| self.failed(source))?;
        if own.len() < position {
            return Ok(Look::Cut);
        }
        let now = match fs::metadata(&self.path) {
            Ok(now) => Some(now),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(self.failed(error)),
        };
        self.witness = Some(before(file, position).map_err(|source| self.failed(source))?);
        match &now {
            Some(now) if is_same(now, &own) => {
                self.quiet = None;
                return Ok(Look::Same);
            }
            Some(now) => self.remember(now, &own).map_err(|source| self.failed(source))?,
            None if self.later.is_empty() => {
                self.quiet = None;
                return Ok(Look::Gone);
            }
            None => {}
        }
        match self.quiet {
            Some((length, since)) if length == position && since.elapsed() >= QUIET => Ok(Look::Finished),
            Some((length, _)) if length == position => Ok(Look::Replaced),
            _ => {
                self.quiet = Some((position, Instant::now()));
                Ok(Look::Replaced)
            }
        }
    }

    /// Opens the file that has the name now, unless it is known.
    fn remember(&mut self, now: &Metadata, own: &Metadata) -> io::Result<()> {
        let is_last = |found: &Metadata, later: &VecDeque<File>| {
            later.back().map_or(Ok(is_same(found, own)), |last| last.metadata().map(|last| is_same(found, &last)))
        };
        if self.later.len() >= MOST || is_last(now, &self.later)? {
            return Ok(());
        }
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // It may be still another one by now.
        if !is_last(&file.metadata()?, &self.later)? {
            self.later.push_back(file);
        }
        Ok(())
    }

    /// The file that got the name next; `None` while nothing has it. `old` is read to its end.
    pub(super) fn next(&mut self, old: &File, position: u64) -> Result<Option<File>, Error> {
        let Some(next) = self.later.pop_front() else { return Ok(None) };
        self.check_none_between(old, &next).map_err(|source| self.failed(source))??;
        let left = old.try_clone().map_err(|source| self.failed(source))?;
        self.left.push((left, position, Instant::now()));
        (self.witness, self.quiet) = (None, None);
        Ok(Some(next))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io { what: format!("look at {}", self.path.display()), source }
    }

    /// Where the name was given away more than once since it was looked at, files between the two were not read.
    fn check_none_between(&self, old: &File, next: &File) -> io::Result<Result<(), Error>> {
        let left = self.left.iter().map(|(file, ..)| file);
        let known = [old, next].into_iter().chain(&self.later).chain(left).map(File::metadata);
        let (known, old) = (known.collect::<io::Result<Vec<_>>>()?, old.metadata()?);
        for (path, found) in siblings(&self.path)? {
            let is_known = |one: &Metadata| is_same(&found, one) || is_compressed(&path, &found, one);
            // Times are as coarse as the system's clock ticks.
            if found.len() > 0 && age(&found) >= age(&old) && !known.iter().any(is_known) {
                let text = format!(
                    "{} was replaced more than once since it was read, and {} may be one that nobody has read: it was written to when the \
                     last one was, or later. Nothing behind the committed position was written. Read it with a stream of its own and move it to another folder; or move \
                     it there if it is none of them; then start again",
                    self.path.display(),
                    path.display(),
                );
                return Ok(Err(Error::Cursor { text }));
            }
        }
        Ok(Ok(()))
    }

    /// Lines that came into a file that was finished are read by nobody.
    fn check_left(&mut self) -> Result<(), Error> {
        let has_grown =
            |(file, length, _): &&(File, u64, Instant)| file.metadata().is_ok_and(|found| found.len() > *length);
        if let Some((_, length, _)) = self.left.iter().find(has_grown) {
            let text = format!(
                "the file that was {} before has grown behind byte {length}, more than {} s after it was replaced: its writer did not change to the \
                 new one, and those lines are not read. Let it open the new file when the old one is moved",
                self.path.display(),
                QUIET.as_secs()
            );
            return Err(Error::Cursor { text });
        }
        self.left.retain(|(.., at)| at.elapsed() <= LATE);
        Ok(())
    }
}

/// Finds the file of this inode: at `path`, or beside it under a name that begins with its own.
pub(super) fn find(path: &Path, inode: u64) -> Result<File, Error> {
    let failed = |source| Error::Io { what: format!("look for the file that {} was", path.display()), source };
    let is_it = |found: &Metadata| found.ino() == inode;
    if fs::metadata(path).is_ok_and(|found| is_it(&found)) {
        return File::open(path).map_err(failed);
    }
    match siblings(path).map_err(failed)?.into_iter().find(|(_, found)| is_it(found)) {
        Some((path, _)) => File::open(path).map_err(failed),
        None => {
            let path = path.display();
            let text = format!(
                "{path} is not the file that was read (inode {inode}), and no file beside it whose name begins with its own is: what was written to that \
                 one and not read yet cannot be found. Move it back beside {path} (a copy, or one that was compressed, is another file); or, to read {path} from its beginning, give the stream \
                 another transactional_id. A copy of the file that was read can be gone on with in mode: whole"
            );
            Err(Error::Cursor { text })
        }
    }
}

/// Regular files in the folder of `path` whose names begin with its own, but itself.
fn siblings(path: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let other = entry.file_name();
        if other != name && other.as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
            match entry.metadata() {
                Ok(metadata) if metadata.is_file() => found.push((entry.path(), metadata)),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Whether a file was compressed out of `old`, or is right now: `app.log.1.gz` of `app.log.1`. In the end it has the time of that one.
fn is_compressed(path: &Path, found: &Metadata, old: &Metadata) -> bool {
    let is_packed = path.extension().is_some_and(|end| ["gz", "bz2", "xz", "zst"].iter().any(|known| end == *known));
    is_packed && (age(found) == age(old) || fs::metadata(path.with_extension("")).is_ok_and(|of| is_same(&of, old)))
}

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// When it was written to last.
fn age(found: &Metadata) -> (i64, i64) {
    (found.mtime(), found.mtime_nsec())
}

fn before(file: &File, position: u64) -> io::Result<Vec<u8>> {
    let from = position.saturating_sub(WITNESS);
    let mut bytes = vec![0; usize::try_from(position - from).unwrap_or_default()];
    match file.read_exact_at(&mut bytes, from) {
        // It was cut meanwhile: none of these are those.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Vec::new()),
        result => result.map(|()| bytes),
    }
}
