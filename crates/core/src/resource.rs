//! Named resources: what a job holds while it runs, of which a worker process has only so many.

pub const MAX_PERMITS: u32 = 10_000;

/// What a queue or a kind says about the resource its jobs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    /// How many of it one worker process has. `None` leaves what others said of the resource, one at first.
    pub permits: Option<u32>,
}

impl Resource {
    pub fn new(name: &str, permits: u32) -> Resource {
        Resource { name: name.to_owned(), permits: Some(permits) }
    }
}
