//! Verbs about entities: load, search, look at types.

mod filter;
pub(crate) mod index;
pub(crate) mod search;
pub(crate) mod types;

use std::sync::Arc;

use windlass_engine::{Client, Handlers};
use windlass_index::embed::StaticTable;
use windlass_index::{Entities, EntityError, Indexing};

use super::Session;
use crate::failure::{During, Failure};

/// The index over the session's database, and what runs its boxes.
pub(crate) struct Desk {
    pub(crate) entities: Entities,
    pub(crate) client: Client,
    pub(crate) handlers: Handlers,
}

impl Desk {
    /// To look at what is there.
    pub(crate) async fn open(session: &Session) -> Result<Desk, Failure> {
        Desk::over(session, session.client().await?).await
    }

    /// To bring entities.
    pub(crate) async fn open_to_write(session: &Session) -> Result<Desk, Failure> {
        Desk::over(session, session.writer().await?).await
    }

    async fn over(session: &Session, client: Client) -> Result<Desk, Failure> {
        let indexing = indexing()?;
        let mut handlers = Handlers::default();
        indexing.add_to(&mut handlers);
        let entities = Entities::open(client.clone(), &indexing, &session.config.types)
            .await
            .during("cannot open the index")?;
        Ok(Desk { entities, client, handlers })
    }
}

/// The embedding in this binary, and the handlers that use it.
pub(crate) fn indexing() -> Result<Indexing, Failure> {
    let table = StaticTable::load().map_err(EntityError::from).during("cannot load the embedding")?;
    Ok(Indexing::new(Arc::new(table)))
}
