//! What is wrong with a pipeline file: every problem, each with its place, its key and a remedy.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use crate::schema::Look;

/// All that is wrong with a pipeline file. `Display` is a block for the terminal.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The file.
    pub file: PathBuf,
    /// In the order of their places.
    pub list: Vec<Problem>,
}

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The key, for example `streams[0].output.topic`.
    pub path: String,
    /// What is wrong and what to do.
    pub text: String,
}

/// One line: the place, the key and the text.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} {}", self.line, self.path, self.text)
    }
}

/// Texts are not pushed further to the right than this by a long key.
const WIDEST_PATH: usize = 44;

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.list.len();
        writeln!(f, "{} has {count} problem{}\n", self.file.display(), if count == 1 { "" } else { "s" })?;
        let places: Vec<_> = self.list.iter().map(|p| format!("{}:{}", p.line, p.column)).collect();
        let place_width = places.iter().map(String::len).max().unwrap_or(0);
        let path_width =
            self.list.iter().map(|p| p.path.len()).filter(|width| *width <= WIDEST_PATH).max().unwrap_or(0);
        for (place, problem) in places.iter().zip(&self.list) {
            let start = format!("  {place:>place_width$}   {:<path_width$}   ", problem.path);
            let indent = place_width + path_width + 8;
            for (i, line) in problem.text.lines().enumerate() {
                if i == 0 {
                    writeln!(f, "{start}{line}")?;
                } else {
                    writeln!(f, "{:indent$}{line}", "")?;
                }
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A place in the file, both numbers from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Collects problems, so that checking can go on after the first.
#[derive(Default)]
pub(crate) struct Report {
    problems: RefCell<Vec<Problem>>,
    /// Problems that are there only because of others, with the paths of these.
    consequences: RefCell<Vec<(Problem, Vec<String>)>>,
    /// Paths whose value is not what was meant: nothing else is said of it.
    unread: RefCell<BTreeSet<String>>,
    notes: RefCell<Vec<Problem>>,
    /// What the readers asked for, which the schema has to say too.
    #[cfg(test)]
    pub(crate) seen: RefCell<crate::schema::Seen>,
}

impl Report {
    pub(crate) fn add(&self, place: Place, path: impl Into<String>, text: impl Into<String>) {
        self.problems.borrow_mut().push(Problem::new(place, path, text));
    }

    /// What is wrong with a value before anybody has read it: it is the one thing that is said of it.
    pub(crate) fn add_unread(&self, place: Place, path: &str, text: impl Into<String>) {
        self.add(place, path, text);
        self.unread.borrow_mut().insert(path.to_owned());
    }

    /// A problem that is none if one of `causes` has one: who refuses a value goes on with a default. A path that ends in `*` stands for all
    /// that begin so.
    pub(crate) fn add_unless(&self, causes: &[String], place: Place, path: impl Into<String>, text: impl Into<String>) {
        self.consequences.borrow_mut().push((Problem::new(place, path, text), causes.to_vec()));
    }

    /// What is no problem, and what whoever wrote the key should know.
    pub(crate) fn note(&self, place: Place, path: impl Into<String>, text: impl Into<String>) {
        self.notes.borrow_mut().push(Problem::new(place, path, text));
    }

    /// What a reader does, for the test of the schema; elsewhere nobody listens.
    #[cfg_attr(not(test), allow(unused_variables, clippy::unused_self))]
    pub(crate) fn saw(&self, look: Look<'_>) {
        #[cfg(test)]
        self.seen.borrow_mut().add(look);
    }

    pub(crate) fn take_notes(&self) -> Vec<Problem> {
        let mut notes = self.notes.take();
        notes.sort_by_key(|note| (note.line, note.column));
        notes
    }

    /// Nothing if there was no problem.
    pub(crate) fn into_problems(self, file: PathBuf) -> Option<Problems> {
        let (mut list, unread) = (self.problems.into_inner(), self.unread.into_inner());
        let mut told = BTreeSet::new();
        list.retain(|problem| !unread.contains(&problem.path) || told.insert(problem.path.clone()));
        let has_problem = |cause: &String| match cause.strip_suffix('*') {
            Some(start) => list.iter().any(|problem| problem.path.starts_with(start)),
            None => list.iter().any(|problem| problem.path == *cause),
        };
        let own = |(problem, causes): (Problem, Vec<String>)| {
            (!unread.contains(&problem.path) && !causes.iter().any(has_problem)).then_some(problem)
        };
        let rest: Vec<_> = self.consequences.into_inner().into_iter().filter_map(own).collect();
        list.extend(rest);
        list.sort_by_key(|p| (p.line, p.column));
        (!list.is_empty()).then_some(Problems { file, list })
    }
}

impl Problem {
    fn new(place: Place, path: impl Into<String>, text: impl Into<String>) -> Self {
        Problem { line: place.line, column: place.column, path: path.into(), text: text.into() }
    }
}

/// The known name that was probably meant.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), *candidate))
        .filter(|(distance, candidate)| *distance < candidate.len().min(2 + candidate.len() / 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How a message about an unknown name goes on: with the nearest known one, or with all of them.
pub(crate) fn hint(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(candidate) => format!("did you mean {candidate}?"),
        None => format!("known here: {}", known.join(", ")),
    }
}
