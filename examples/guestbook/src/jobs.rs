//! A job that thanks a guest, and a scheduled job that counts the entries once a day.

use serde::{Deserialize, Serialize};
use windlass::pack::{Host, Registry};
use windlass::{Completion, JobError, KindSpec, RuleSpec, ScheduleSpec, handler};

use crate::{entries, search, settings};

pub(crate) const THANK: &str = "GUESTBOOK_THANK";
const COUNT: &str = "GUESTBOOK_COUNT";

#[derive(Serialize, Deserialize)]
pub(crate) struct Thank {
    pub(crate) entry: i64,
}

pub(crate) fn register(registry: &mut Registry) {
    let (host, greeting) = (registry.host(), settings::greeting(registry.settings()));
    let spec = KindSpec { description: "thanks a guest".to_owned(), ..KindSpec::new(THANK, "DEFAULT") };
    registry.kind(
        spec,
        handler(move |context, thank: Thank| {
            let (host, greeting) = (host.clone(), greeting.clone());
            async move { run(host, context, thank, greeting).await }
        }),
    );
    let host = registry.host();
    let spec = KindSpec { description: "counts the guest book".to_owned(), ..KindSpec::new(COUNT, "LOW") };
    registry.kind(
        spec,
        handler(move |_, _: serde::de::IgnoredAny| {
            let host = host.clone();
            async move { Completion::with(&entries::count(&host).await?) }
        }),
    );
    registry.schedule(ScheduleSpec {
        name: "guestbook-count".to_owned(),
        kind: COUNT.to_owned(),
        payload: b"{}".to_vec(),
        rules: vec![RuleSpec { expr: "@daily".to_owned(), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    });
}

/// The row, its entity and the job's completion are one commit. So a job that runs twice thanks the guest once, and an
/// entry removed meanwhile stays out of the search.
async fn run(
    host: Host,
    context: windlass::pack::Context,
    thank: Thank,
    greeting: String,
) -> Result<Completion, JobError> {
    let Some(entry) = entries::find(&host, thank.entry).await? else {
        return Err(JobError::fail("the entry is gone"));
    };
    context.log(greeting.replace("{name}", &entry.name));
    let now = host.now().await?;
    // Only statements from here on: the transaction holds SQLite's single writer.
    let mut tx = host.begin().await?;
    if !entries::thank(&mut tx, entry.id, now).await? {
        return Err(JobError::fail("the entry was removed meanwhile"));
    }
    search::put(&host, &mut tx, &entry).await?;
    match tx.settle(&context).await? {
        true => tx.commit().await?,
        false => tx.rollback().await?,
    }
    Ok(Completion::done())
}
