//! What a user writes: a [`Transformer`], what it emits, and how it fails.

mod codec;
mod emit;
mod flechtwerk;
mod invalid;
mod lifecycle;
mod stateful;
mod timer;
mod transformer;

pub use codec::{Codec, Raw};
pub(crate) use emit::Mark;
pub use emit::{Message, Output, Sent};
pub use flechtwerk::FlechtwerkJson;
pub use invalid::{Invalid, OnInvalid, Part};
pub(crate) use lifecycle::Opened;
pub use stateful::{Next, Stateful, StatefulTransformer};
pub(crate) use timer::SetTimer;
pub use timer::{Clock, TimeToLive, Timer};
pub use transformer::{FnTransformer, StageError, Transformer, transformer};
