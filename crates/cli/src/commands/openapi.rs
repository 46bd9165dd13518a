//! `openapi`: the OpenAPI document, without a server or database.

use std::sync::Arc;

use windlass_pack::Pack;
use windlass_pack::settings::Settings;

use crate::compose::Parts;
use crate::failure::{During, Failure};
use crate::output::Output;

pub(crate) fn run(packs: &[Arc<dyn Pack>], json: bool, output: &Output) -> Result<(), Failure> {
    let mut assembly = Parts::new(false, packs).assemble(Settings::default())?;
    let document = windlass_http::document(&mut assembly);
    if json {
        return output.line(document);
    }
    let value: serde_json::Value =
        serde_json::from_str(&document).map_err(std::io::Error::other).during("cannot print the document")?;
    output.line(serde_json::to_string_pretty(&value).unwrap_or(document))
}
