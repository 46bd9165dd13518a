//! Entity errors as shown by the demo.

use windlass_index::EntityError;

use crate::failure::{During, Failure, of_store};

impl<T> During<T> for Result<T, EntityError> {
    fn during(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| match &error {
            EntityError::Store(store) => of_store(what.into(), store),
            EntityError::Refused { .. } => Failure::new(what, &error).hint("nothing was written"),
            other => Failure::new(what, other),
        })
    }
}
