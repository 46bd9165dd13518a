//! Parts that come with the library: the engine's queues and upkeep, and kinds for trying things out.

mod engine;
mod families;
mod tryout;

pub use engine::EnginePart;
pub use families::{DEFAULT_QUEUE, families};
pub use tryout::Tryout;
