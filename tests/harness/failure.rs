//! What a test that fails has to say, in one piece: where it panicked, and the end of what its processes said.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By the tests that run now. What a thread says that a test has started is of no test by name: that of whichever fails next.
static SAID: Mutex<Vec<(Option<String>, String)>> = Mutex::new(Vec::new());

const PANICKED: &str = "panicked";

thread_local! {
    static TEST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on a panic is a line, and is kept; with `RUST_BACKTRACE=full` the way to it is printed too.
pub(crate) fn keep_panics() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "full") {
            default(info);
        }
        say(text(info));
    }));
}

fn text(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(String::new, ToString::to_string);
    format!("{PANICKED} at {place}: {}", info.payload_as_str().unwrap_or("a panic without a text"))
}

/// Prints it, and keeps it for the end.
pub(crate) fn say(text: String) {
    let test = TEST.try_with(|test| test.borrow().clone()).unwrap_or_default();
    eprintln!("{}: {text}", test.as_deref().unwrap_or("a test's thread"));
    lock().push((test, text));
}

/// Runs the test of this name; an error is everything that it said, and why it failed at the end.
pub(crate) fn told(name: &str, test: impl FnOnce()) -> Result<(), String> {
    TEST.set(Some(name.to_owned()));
    let result = catch_unwind(AssertUnwindSafe(test));
    TEST.set(None);
    let mut said = lock();
    let mine = |test: &Option<String>| test.as_deref() == Some(name) || result.is_err() && test.is_none();
    let mut texts: Vec<String> = said.extract_if(.., |(test, _)| mine(test)).map(|(_, text)| text).collect();
    texts.sort_by_key(|text| text.starts_with(PANICKED));
    result.map_err(|_| texts.join("\n"))
}

fn lock() -> MutexGuard<'static, Vec<(Option<String>, String)>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}
