//! Packs of the library: the engine's queues and maintenance, and test kinds.

mod engine;
mod families;
mod tryout;

pub use engine::EnginePart;
pub use families::{DEFAULT_QUEUE, families};
pub use tryout::Tryout;
