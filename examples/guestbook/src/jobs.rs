//! The job that thanks a guest, and the one that counts the book once a day.

use serde::{Deserialize, Serialize};
use windlass::pack::{Host, Registry};
use windlass::{
    Change, Completion, Entities, JobError, KindSpec, RuleSpec, SaveRequest, ScheduleSpec, handler,
};

use crate::{entries, settings};

pub(crate) const THANK: &str = "GUESTBOOK_THANK";
const COUNT: &str = "GUESTBOOK_COUNT";
/// The type under which entries are searched.
pub(crate) const ENTITY: &str = "guest_entry";

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

/// The row and the job's completion are one commit: however often the job runs, the guest is thanked once.
async fn run(
    host: Host,
    context: windlass::pack::Context,
    thank: Thank,
    greeting: String,
) -> Result<Completion, JobError> {
    let Some(entry) = entries::find(&host, thank.entry).await? else {
        return Err(JobError::fail("the entry is gone"));
    };
    // Slow work comes before the transaction: it holds the only writer of SQLite.
    if let Some(entities) = host.find::<Entities>() {
        let fields = [("name", &entry.name), ("message", &entry.message)];
        let fields = fields.map(|(field, text)| (field.to_owned(), serde_json::json!(text)));
        let change = Change::Put(fields.into_iter().collect());
        entities.save(SaveRequest::new(ENTITY, &entry.id.to_string(), change)).await?;
    }
    context.log(greeting.replace("{name}", &entry.name));
    let now = host.now().await?;
    let mut tx = host.begin().await?;
    entries::thank(&mut tx, entry.id, now).await?;
    match tx.settle(&context).await? {
        true => tx.commit().await?,
        false => tx.rollback().await?,
    }
    Ok(Completion::done())
}
