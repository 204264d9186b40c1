//! What a user writes: a [`Transformer`], what it emits, and how it fails.

mod emit;
mod stateful;
mod transformer;

pub use emit::{Message, Output, Sent};
pub use stateful::{Next, Stateful, StatefulTransformer};
pub use transformer::{FnTransformer, StageError, Transformer, transformer};
