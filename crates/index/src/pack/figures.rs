//! Entity counts for `/v1/stats`.

use windlass_core::StoreError;
use windlass_pack::Registry;

use super::IndexContext;
use crate::EntityError;

pub(super) fn register(context: &IndexContext, registry: &mut Registry) {
    let known = [
        ("pending_entities", "Entities whose newest content is not in the index yet, counted up to 10000"),
        ("indexed_entities", "Entities whose newest content is in the index"),
    ];
    let context = context.clone();
    registry.figures(&known, move || {
        let context = context.clone();
        async move {
            let stats = context.entities().map_err(of_entities)?.stats().await.map_err(of_entities)?;
            Ok(vec![Some(stats.pending), Some(stats.indexed)])
        }
    });
}

fn of_entities(error: EntityError) -> StoreError {
    match error {
        EntityError::Store(error) => error,
        other => StoreError::Corrupt { what: other.to_string() },
    }
}
