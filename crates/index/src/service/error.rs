//! Errors of the entity service.

use windlass_core::entity::WriteRefusal;
use windlass_core::{Invalid, StoreError};

use crate::embed::EmbedError;

#[derive(Debug, thiserror::Error)]
pub enum EntityError {
    #[error(transparent)]
    Invalid(#[from] Invalid),

    #[error(transparent)]
    Store(#[from] StoreError),

    #[error(transparent)]
    Embed(#[from] EmbedError),

    #[error("there is no type `{name}`; known types: {known}")]
    UnknownType { name: String, known: String },

    #[error("there is no {entity_type} `{id}`")]
    Missing { entity_type: String, id: String },

    #[error("`{id}` has no vector yet: {why}")]
    NotIndexed { id: String, why: String },

    #[error("`{id}` was not written: {}", why(refusal))]
    Refused { id: String, refusal: WriteRefusal },

    #[error(
        "the text fields of `{name}` cannot change while it has entities: their vectors are of the old fields"
    )]
    TextChanged { name: String },

    #[error(
        "the type `{name}` is defined by the configuration or by a pack of this program; change it in \
         [entities.{name}] and restart"
    )]
    Configured { name: String },

    #[error(
        "the configuration says that the text fields of `{name}` are {configured}, but its entities are indexed by \
         {indexed}: write that into [entities.{name}], or delete the entities first, or give the type another name"
    )]
    ConfiguredText { name: String, configured: String, indexed: String },

    #[error("the type `{name}` is not in the database yet; a server or worker writes it when it starts")]
    TypeUnsaved { name: String },

    #[error("kind {kind} is not registered; open the client with the handlers of this index")]
    NotRegistered { kind: &'static str },

    #[error("entities are off in this process: call Builder::entities")]
    Off,

    #[error("the index could not answer: {0}")]
    Index(String),

    #[error("the store did not answer for every entity")]
    Unanswered,
}

fn why(refusal: &WriteRefusal) -> String {
    match refusal {
        WriteRefusal::Missing => "there is no such entity".to_owned(),
        WriteRefusal::Exists { version } => format!("it is there already, at version {version}"),
        WriteRefusal::Version { found } => format!("it is at version {found} now"),
        WriteRefusal::TooLarge { bytes } => format!("it would be {bytes} bytes; at most 1 MiB is taken"),
        WriteRefusal::KeyUsed => "its idempotency key was used for another request".to_owned(),
    }
}

impl EntityError {
    /// The error with its causes, for a log line.
    pub fn chain(&self) -> String {
        match self {
            EntityError::Store(error) => error.chain(),
            other => other.to_string(),
        }
    }
}
