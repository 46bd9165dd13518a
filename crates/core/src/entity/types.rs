//! Entity types: which fields are searched as text, and how writes are indexed.

use serde::{Deserialize, Serialize};

use super::Strategy;
use crate::Invalid;
use crate::input::MAX_KEY_BYTES;

/// The built-in type: `title`, `text` and free metadata.
pub const DOCUMENT: &str = "document";
pub const MAX_TEXT_FIELDS: usize = 32;
const MAX_WEIGHT: u32 = 10;

/// A field that is searched by keyword and by meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextField {
    pub name: String,
    /// Weight of each word.
    #[serde(default = "one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeSpec {
    #[serde(default)]
    pub name: String,
    /// If empty, every string field is searched.
    #[serde(default)]
    pub text: Vec<TextField>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_create: Option<Strategy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_update: Option<Strategy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<Strategy>,
}

impl TypeSpec {
    pub fn named(name: &str) -> TypeSpec {
        TypeSpec {
            name: name.to_owned(),
            text: Vec::new(),
            strategy: None,
            on_create: None,
            on_update: None,
            on_delete: None,
        }
    }

    pub fn document() -> TypeSpec {
        let field = |name: &str| TextField { name: name.to_owned(), weight: 1 };
        TypeSpec { text: vec![field("title"), field("text")], ..TypeSpec::named(DOCUMENT) }
    }

    pub fn check(&self) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        invalid.check_word("type", &self.name);
        if self.text.len() > MAX_TEXT_FIELDS {
            invalid.add(
                "text",
                format!("has {} fields; at most {MAX_TEXT_FIELDS} are allowed", self.text.len()),
            );
        }
        for (n, field) in self.text.iter().enumerate() {
            let at = format!("text[{n}]");
            if field.name.is_empty() || field.name.len() > MAX_KEY_BYTES {
                invalid.add(format!("{at}.name"), format!("must be 1–{MAX_KEY_BYTES} bytes"));
            }
            if field.name.contains('\0') {
                invalid.add(format!("{at}.name"), "must not hold NUL: no entity has such a field");
            }
            if !(1..=MAX_WEIGHT).contains(&field.weight) {
                invalid.add(format!("{at}.weight"), format!("must be 1 to {MAX_WEIGHT}"));
            }
            if self.text[..n].iter().any(|other| other.name == field.name) {
                invalid.add(format!("{at}.name"), "is listed twice");
            }
        }
        invalid.into_result()
    }
}
