//! A part's access to the engine and its database, under the part's own name.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windlass_core::backup::Holdings;
use windlass_core::store::{Sql, SqlRow, SqlValue};
use windlass_core::{StoreError, Time, TxRef, TypeSpec};
use windlass_engine::Client;

use crate::tx::PackTx;

/// Created when a part registers, usable once the system is open. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    pack: &'static str,
    opened: Arc<OnceLock<Opened>>,
}

pub(crate) struct Opened {
    pub(crate) client: Client,
    /// Entity types of all parts.
    pub(crate) types: Vec<TypeSpec>,
    /// The tables in a backup.
    pub(crate) holdings: Holdings,
    offered: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Opened {
    pub(crate) fn new(client: Client, types: Vec<TypeSpec>, holdings: Holdings) -> Opened {
        Opened { client, types, holdings, offered: Mutex::default() }
    }
}

impl Host {
    pub(crate) fn new(pack: &'static str, opened: Arc<OnceLock<Opened>>) -> Host {
        Host { pack, opened }
    }

    pub fn pack(&self) -> &'static str {
        self.pack
    }

    /// Fails while the system is only described, as in `windlass openapi`.
    pub fn client(&self) -> Result<&Client, StoreError> {
        self.opened().map(|opened| &opened.client)
    }

    /// Makes something available to other parts by its type. The index offers its `Entities`.
    pub fn offer<T: Any + Send + Sync>(&self, thing: T) -> Result<(), StoreError> {
        let mut offered = self.opened()?.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.insert(TypeId::of::<T>(), Arc::new(thing));
        Ok(())
    }

    /// What another part offered; `None` if that part is not present.
    pub fn find<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let offered = self.opened().ok()?.offered.lock().unwrap_or_else(PoisonError::into_inner);
        offered.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// Entity types of all parts.
    pub fn entity_types(&self) -> Result<&[TypeSpec], StoreError> {
        self.opened().map(|opened| opened.types.as_slice())
    }

    /// All tables in a backup of this process.
    pub fn holdings(&self) -> Result<&Holdings, StoreError> {
        self.opened().map(|opened| &opened.holdings)
    }

    /// A write transaction. If it stays open for too long, it is rolled back and logged.
    pub async fn begin(&self) -> Result<PackTx, StoreError> {
        PackTx::begin(self.pack, self.client()?).await
    }

    /// One read-only statement.
    pub async fn rows(&self, text: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        self.client()?.store().read().await?.rows(text, values).await
    }

    /// Statements in a transaction that the application opened.
    pub fn sql_in<'a>(&'a self, tx: TxRef<'a>) -> Result<Box<dyn Sql + 'a>, StoreError> {
        self.client()?.store().sql_in(tx)
    }

    /// The database clock.
    pub async fn now(&self) -> Result<Time, StoreError> {
        self.client()?.store().now().await
    }

    fn opened(&self) -> Result<&Opened, StoreError> {
        self.opened.get().ok_or_else(|| StoreError::Open {
            what: format!("the part {}", self.pack),
            why: "the system is described here, not running".to_owned(),
        })
    }
}
