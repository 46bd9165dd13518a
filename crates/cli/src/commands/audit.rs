//! `audit list`.

use serde_json::Value;
use windlass_pack::api::ApiRequest;

use super::Session;
use crate::api::answer::{ask, dash, items, text, time};
use crate::args::{Audit, AuditVerb, ListAudit};
use crate::failure::{During, Failure};
use crate::output::job::seconds;
use crate::output::more;
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: Audit) -> Result<(), Failure> {
    let list = match args.verb {
        Some(AuditVerb::List(list)) => list,
        None => args.list,
    };
    let ListAudit { actor, act, subject, from, to, paging, json } = list;
    let asked = [&actor, &act, &subject, &from, &to].iter().any(|condition| condition.is_some());
    let api = session.api().await?;
    let request = paging.of(ApiRequest::get("/v1/audit", &[]));
    let request = request.query("actor", actor).query("act", act).query("subject", subject);
    let request = request.query("from", from).query("to", to);
    let answer = ask(api.as_ref(), request).await.during("cannot read the audit")?;
    if json.json {
        return answer.print(&session.output);
    }
    let acts = items(&answer.value);
    if acts.is_empty() {
        return session.output.line(match asked {
            true => "no act matches",
            false => "no operator has changed anything yet",
        });
    }
    let mut table = Table::new(&["when", "who", "act", "subject", "before", "after"]);
    for act in acts {
        table.row(vec![
            time(act, "at").map(seconds).unwrap_or_default(),
            text(act, "actor").to_owned(),
            text(act, "act").to_owned(),
            text(act, "subject").to_owned(),
            fields(&act["before"]),
            fields(&act["after"]),
        ]);
    }
    table.print(&session.output)?;
    more(&session.output, &answer.value);
    Ok(())
}

/// `limit 500.00, tokens none`.
fn fields(fields: &Value) -> String {
    let value = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let each = fields.as_object().into_iter().flatten();
    let each: Vec<String> = each.map(|(name, field)| format!("{name} {}", value(field))).collect();
    if each.is_empty() { dash() } else { each.join(", ") }
}
