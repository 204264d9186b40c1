//! One input partition number across all input topics.

pub(crate) mod process;
