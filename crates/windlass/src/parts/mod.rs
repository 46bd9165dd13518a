//! Parts that come with the library: the engine's own upkeep, and kinds for trying things out.

mod engine;
mod tryout;

pub use engine::EnginePart;
pub use tryout::Tryout;
