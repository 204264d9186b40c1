//! Lists of promises, and where each of them is tested.

use crate::harness::room::Room;

/// A test whose name is the promise's sentence.
#[derive(Clone, Copy)]
pub(crate) struct Promise {
    pub(crate) module: &'static str,
    pub(crate) name: &'static str,
    /// The one kind of broker that it runs on; `None`: on all.
    pub(crate) only: Option<&'static str>,
    pub(crate) test: fn(&Room),
}

/// Declares the modules and lists their tests: `name`, or `name (kind only: "why")`.
macro_rules! promises {
    ($($module:ident: $($name:ident $(($kind:ident only: $why:literal))?),+;)+) => {
        $(mod $module;)+

        /// All tests of this list.
        pub(crate) fn all() -> Vec<$crate::promise::Promise> {
            vec![$($($crate::promise::Promise {
                module: stringify!($module),
                name: stringify!($name),
                only: [$(stringify!($kind))?].first().copied(),
                test: $module::$name,
            }),+),+]
        }
    };
}
pub(crate) use promises;
