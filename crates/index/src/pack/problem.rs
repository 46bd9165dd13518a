//! Entity errors as HTTP problems with stable codes.

use windlass_core::Invalid;
use windlass_core::entity::WriteRefusal;
use windlass_core::input::shown;
use windlass_pack::{Problem, StatusCode};

use crate::EntityError;

impl From<EntityError> for Problem {
    fn from(error: EntityError) -> Problem {
        of(error)
    }
}

pub(super) fn of(error: EntityError) -> Problem {
    match error {
        EntityError::Invalid(invalid) => Problem::invalid(invalid),
        EntityError::Store(store) => store.into(),
        EntityError::UnknownType { .. } => unknown_type(error.to_string()),
        EntityError::Missing { entity_type, id } => {
            Problem::not_found(format!("there is no {} `{}`", shown(&entity_type), shown(&id)))
        }
        EntityError::Refused { refusal, .. } => refused(refusal),
        EntityError::NotIndexed { .. } => Problem::conflict("not_indexed", error.to_string()),
        EntityError::TextChanged { .. } => Problem::conflict("text_fields_in_use", error.to_string()),
        EntityError::Configured { .. } => Problem::conflict("type_configured", error.to_string()),
        EntityError::ConfiguredText { .. } => Problem::conflict("text_fields_in_use", error.to_string()),
        EntityError::TypeUnsaved { .. } => Problem::conflict("type_unsaved", error.to_string()),
        EntityError::Embed(_)
        | EntityError::NotRegistered { .. }
        | EntityError::Index(_)
        | EntityError::Off
        | EntityError::Unanswered => Problem::internal("the index failed", &error.chain()),
    }
}

fn unknown_type(detail: String) -> Problem {
    let detail = format!("{detail}; PUT /v1/types/{{type}} adds one");
    Problem::new(StatusCode::NOT_FOUND, "unknown_type", "There is no such type", detail)
}

fn refused(refusal: WriteRefusal) -> Problem {
    match refusal {
        WriteRefusal::Missing => Problem::not_found("there is no such entity; nothing was written"),
        WriteRefusal::Exists { version } => {
            let detail = format!("it is there already, at version {version}; nothing was written");
            let title = "There is one already";
            Problem::new(StatusCode::PRECONDITION_FAILED, "exists", title, detail)
        }
        WriteRefusal::Version { found } => {
            let detail = format!("it is at version {found} now; nothing was written");
            let title = "Another write came first";
            Problem::new(StatusCode::PRECONDITION_FAILED, "version_mismatch", title, detail)
        }
        WriteRefusal::TooLarge { bytes } => {
            let rule = format!("would be {bytes} bytes; at most 1 MiB is taken");
            Problem::invalid(Invalid::one("fields", rule))
        }
        WriteRefusal::KeyUsed => Problem::key_used("it was used for another request; nothing was written"),
    }
}
