//! What a user writes: a [`Transformer`], what it emits, and how it fails.

mod emit;
mod transformer;

pub use emit::{Message, Output, Sent};
pub use transformer::{FnTransformer, StageError, Transformer, transformer};
