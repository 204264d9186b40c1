//! How a promise's pipelines divide their work: which partitions commit together, and who divides them among the processes.

/// Which partitions of a process share a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Each has its own.
    Task,
    /// All of them.
    Worker,
}

/// Who divides the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The members, one of which leads.
    Classic,
    /// The broker (KIP-848).
    Consumer,
}

/// What every pipeline of a test is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) scope: Scope,
    pub(crate) protocol: Protocol,
}

impl Mode {
    /// The defaults of a pipeline. Tests that are not about delivery run in it alone.
    pub(crate) const PLAIN: Mode = Mode { scope: Scope::Task, protocol: Protocol::Classic };

    /// Those that a broker with these protocols can be tested in.
    pub(crate) fn of(protocols: &[Protocol]) -> impl Iterator<Item = Mode> {
        let scopes = [Scope::Task, Scope::Worker];
        protocols.iter().flat_map(move |&protocol| scopes.map(|scope| Mode { scope, protocol }))
    }

    /// One transaction for all partitions of a process.
    pub(crate) fn is_worker(self) -> bool {
        self.scope == Scope::Worker
    }

    /// The broker divides the partitions.
    pub(crate) fn is_consumer(self) -> bool {
        self.protocol == Protocol::Consumer
    }

    /// What differs from [`Mode::PLAIN`], in the words of the pipeline file.
    pub(crate) fn words(self) -> Vec<&'static str> {
        let words = [(self.is_consumer(), "consumer"), (self.is_worker(), "worker")];
        words.into_iter().filter_map(|(differs, word)| differs.then_some(word)).collect()
    }

    /// A name of a test's own in this mode: tests of one name do not meet in a broker's topics, groups and ids.
    pub(crate) fn named(self, name: &str) -> String {
        [&[name], &self.words()[..]].concat().join("_")
    }

    /// Whether a promise that is listed for `word` only is tested in it.
    pub(crate) fn is(self, word: &str) -> bool {
        match word {
            "plain" => self == Mode::PLAIN,
            "task" => self.scope == Scope::Task,
            "worker" => self.is_worker(),
            "classic" => self.protocol == Protocol::Classic,
            "consumer" => self.is_consumer(),
            _ => false,
        }
    }
}
