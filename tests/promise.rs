//! Lists of promises, and where each of them is tested.

use crate::harness::broker::Kind;
use crate::harness::mode::Mode;
use crate::harness::room::Room;

/// A test whose name is the promise's sentence.
#[derive(Clone, Copy)]
pub(crate) struct Promise {
    pub(crate) module: &'static str,
    pub(crate) name: &'static str,
    /// What of the mode its module is tested over: `scope`, `protocol`.
    pub(crate) each: &'static [&'static str],
    /// The kinds of broker, or the parts of the mode, that it is restricted to.
    pub(crate) only: &'static [&'static str],
    pub(crate) test: fn(&Room),
}

impl Promise {
    /// Whether it is tested there. A module that is tested over the scopes is tested over the protocols too if `full`.
    pub(crate) fn is_for(&self, kind: Kind, mode: Mode, full: bool) -> bool {
        let over = |dimension| self.each.contains(&dimension);
        (!mode.is_worker() || over("scope"))
            && (!mode.is_consumer() || over("protocol") || full && over("scope"))
            && self.only.iter().all(|only| *only == kind.name || mode.is(only))
    }
}

/// Declares the modules and lists their tests: `module:`, or `module (each scope, each protocol):`, then `name`, or
/// `name (WORD only: "why")` with a kind of broker or a part of the mode: see [`Mode::is`].
macro_rules! promises {
    ($(
        $module:ident $(($(each $each:ident),+))?:
        $($name:ident $(($($only:ident only: $why:literal),+))?),+
    );+ $(;)?) => {
        $(mod $module;)+

        /// All tests of this list.
        pub(crate) fn all() -> Vec<$crate::promise::Promise> {
            let mut all = Vec::new();
            $(
                let each: &'static [&'static str] = &[$($(stringify!($each)),+)?];
                $(all.push($crate::promise::Promise {
                    module: stringify!($module),
                    name: stringify!($name),
                    each,
                    only: &[$($(stringify!($only)),+)?],
                    test: $module::$name,
                });)+
            )+
            all
        }
    };
}
pub(crate) use promises;
