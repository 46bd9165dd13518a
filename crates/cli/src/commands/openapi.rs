//! `openapi`: the document of the HTTP interface, without a server.

use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(json: bool, output: &Output) -> Result<(), Failure> {
    let document = windlass_http::document();
    if json {
        return output.line(document);
    }
    let value: serde_json::Value =
        serde_json::from_str(&document).map_err(|error| Failure::new("cannot print the document", error))?;
    output.json(&value)
}
