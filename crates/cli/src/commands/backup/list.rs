//! `backup list`: the backups recorded in the database.

use windlass_pack::api::ApiRequest;

use super::super::Session;
use crate::api::answer::{ask, items, number, optional_text, text};
use crate::failure::{During, Failure};
use crate::output::table::Table;

pub(super) async fn run(session: &Session, json: bool) -> Result<(), Failure> {
    let api = session.api().await?;
    let answer = ask(api.as_ref(), ApiRequest::get("/v1/backups", &[])).await;
    let answer = answer.during("cannot list the backups")?;
    if json {
        return answer.print(&session.output);
    }
    let copies = items(&answer.value);
    if copies.is_empty() {
        return session.output.line("no backups yet; `windlass backup FILE` makes one");
    }
    let mut table = Table::new(&["taken", ">rows", ">bytes", "verified", "file"]);
    for copy in copies {
        let file = text(copy, "file");
        table.row(vec![
            text(copy, "taken_at").to_owned(),
            number(copy, "rows").to_string(),
            number(copy, "bytes").to_string(),
            optional_text(copy, "verified_at").unwrap_or_else(|| "never".to_owned()),
            if copy["there"] == true { file.to_owned() } else { format!("{file} (not there)") },
        ]);
    }
    table.print(&session.output)
}
