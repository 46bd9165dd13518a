//! `audit list`: what operators did.

use serde_json::{Map, Value};
use windlass_core::audit::Act;
use windlass_http::view::{ActView, ListView};

use super::Session;
use crate::args::{Audit, AuditVerb, ListAudit};
use crate::failure::{During, Failure};
use crate::output::job::seconds;
use crate::output::table::Table;

pub(crate) async fn run(session: &Session, args: Audit) -> Result<(), Failure> {
    let list = match args.verb {
        Some(AuditVerb::List(list)) => list,
        None => args.list,
    };
    let ListAudit { paging, json } = list;
    let client = session.client().await?;
    let mut acts =
        client.store().audit(paging.cursor, paging.asked()).await.during("cannot read the audit")?;
    let next_cursor = paging.cut(&mut acts, |act| act.seq.to_string());
    if json.json {
        let items = acts.iter().map(ActView::from).collect();
        return session.output.json(&ListView { items, next_cursor });
    }
    if acts.is_empty() {
        return session.output.line("no operator has changed anything yet");
    }
    let mut table = Table::new(&["when", "who", "act", "subject", "before", "after"]);
    for act in &acts {
        table.row(row(act));
    }
    table.print(&session.output)?;
    if let Some(cursor) = next_cursor {
        session.output.note(format_args!("more with --cursor {cursor}"));
    }
    Ok(())
}

fn row(act: &Act) -> Vec<String> {
    let (before, after) = act.sides();
    vec![
        seconds(act.at),
        act.actor.clone(),
        act.act.clone(),
        act.subject.clone(),
        fields(&before),
        fields(&after),
    ]
}

/// `limit 500.00, tokens none`.
fn fields(fields: &Map<String, Value>) -> String {
    let value = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let each: Vec<String> = fields.iter().map(|(name, said)| format!("{name} {}", value(said))).collect();
    if each.is_empty() { "–".to_owned() } else { each.join(", ") }
}
