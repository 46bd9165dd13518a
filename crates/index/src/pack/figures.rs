//! Figures of entities for `/v1/stats`.

use windlass_core::StoreError;
use windlass_pack::Registry;

use super::Desk;
use crate::EntityError;

pub(super) fn register(desk: &Desk, registry: &mut Registry) {
    let known = [
        ("pending_entities", "Entities whose newest content is not in the index yet, counted up to 10000"),
        ("indexed_entities", "Entities whose newest content is in the index"),
    ];
    let desk = desk.clone();
    registry.figures(&known, move || {
        let desk = desk.clone();
        async move {
            let stats = desk.entities().map_err(of_entities)?.stats().await.map_err(of_entities)?;
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
