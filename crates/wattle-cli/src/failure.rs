//! Why the program ends with a code other than 0, in words for stderr.

use std::error::Error;
use std::fmt::Write;

use wattle::Exit;
use wattle_pipeline::Problems;

/// An exit code and what to tell.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) causes: Vec<Cause>,
}

/// One thing that went wrong.
#[derive(Debug)]
pub(crate) enum Cause {
    /// A text, with the code under which `docs/errors` says more.
    Error { code: Option<&'static str>, text: String },
    /// Says by itself that something is wrong, over several lines.
    Report(String),
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Failure { exit, causes: vec![Cause::Error { code: None, text: text.into() }] }
    }

    /// The command line or a file it names cannot be used.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Failure::new(Exit::Config, text)
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Failure { exit: Exit::Config, causes: vec![Cause::Report(problems.to_string().trim_end().to_owned())] }
    }
}

impl From<wattle::Error> for Failure {
    fn from(error: wattle::Error) -> Self {
        Failure { exit: error.exit(), causes: vec![Cause::Error { code: error.code(), text: chain(&error) }] }
    }
}

/// The error and each of its sources that its text does not tell already.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            write!(text, "\n  caused by: {cause_text}").expect("a String takes all text");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let source = io::Error::other("no space left on device");
        let error = wattle::Error::Io { what: "write to stdout".into(), source };
        assert_eq!(chain(&error), "write to stdout: no space left on device");
    }

    #[test]
    fn a_cause_that_the_text_hides_is_added() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("cannot go on")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        assert_eq!(chain(&Outer(io::Error::other("disk is gone"))), "cannot go on\n  caused by: disk is gone");
    }
}
