//! Entries as entities: added to search by the thanking job and removed with the entry, each in the transaction of the
//! change.

use windlass::pack::{Host, PackTx};
use windlass::{Change, Entities, EntityError, SaveRequest, WriteRefusal};

use crate::entries::Entry;

/// Entity type of the entries.
pub(crate) const ENTITY: &str = "guest_entry";

pub(crate) async fn put(host: &Host, tx: &mut PackTx, entry: &Entry) -> Result<(), EntityError> {
    let fields = [("name", &entry.name), ("message", &entry.message)];
    let fields = fields.map(|(field, text)| (field.to_owned(), serde_json::json!(text)));
    save(host, tx, entry.id, Change::Put(fields.into_iter().collect())).await
}

/// An entry without thanks has no entity yet, so a missing entity is no error.
pub(crate) async fn remove(host: &Host, tx: &mut PackTx, id: i64) -> Result<(), EntityError> {
    match save(host, tx, id, Change::Delete).await {
        Err(EntityError::Refused { refusal: WriteRefusal::Missing, .. }) => Ok(()),
        done => done,
    }
}

/// Does nothing in a binary without the index.
async fn save(host: &Host, tx: &mut PackTx, id: i64, change: Change) -> Result<(), EntityError> {
    let Some(entities) = host.find::<Entities>() else { return Ok(()) };
    let request = SaveRequest::new(ENTITY, &id.to_string(), change);
    tx.with(async |tx| entities.save_in(tx, request).await).await?;
    Ok(())
}
