//! `/v1/guestbook`: list, sign, remove.

use serde_json::{Value, json};
use windlass::pack::paging::{Paging, paged};
use windlass::pack::view::{Id, ListView, Stamp};
use windlass::pack::{
    Answer, Answered, Call, Host, Method, NewAudit, Problem, Registry, Route, SMALL_BODY, Schemas, Scope,
    Shape, StatusCode, json as answer, nothing, ok, shape,
};
use windlass::{Invalid, JobRequest};

use crate::entries::{self, Entry};
use crate::jobs::{THANK, Thank};
use crate::{search, settings};

shape! {
    /// An entry of the guest book.
    pub struct EntryView as "GuestbookEntry" {
        pub id: Id,
        pub name: String,
        pub message: String,
        pub signed_at: Stamp,
        /// null until a job has thanked the guest.
        pub thanked_at: Option<Stamp>,
    }
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> EntryView {
        EntryView {
            id: Id(entry.id),
            name: entry.name,
            message: entry.message,
            signed_at: Stamp(entry.signed_at),
            thanked_at: entry.thanked_at.map(Stamp),
        }
    }
}

/// Body of `POST /v1/guestbook`.
struct NewEntry;

impl Shape for NewEntry {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("NewGuestbookEntry", "An entry to leave.", |entry| {
            entry.required::<String>("name", "Who signs, at most 100 characters");
            entry.required::<String>("message", "What to say");
        })
    }
}

pub(crate) fn register(registry: &mut Registry) {
    let host = registry.host();
    let list = Route::get("/v1/guestbook", "list_guestbook", "Entries, newest first", move |call| {
        list(host.clone(), call)
    });
    let list = list.needs(Scope::Read).query("name", "Only of this name", json!({ "type": "string" }));
    registry
        .route(paged(list, "Most entries on a page").json::<ListView<EntryView>>(200, "A page of entries"));
    let (host, longest) = (registry.host(), settings::longest(registry.settings()));
    registry.route(
        Route::post(
            "/v1/guestbook",
            "sign_guestbook",
            "Leave an entry; a job thanks the guest",
            move |call| sign(host.clone(), longest, call),
        )
        .needs(Scope::Write)
        .body::<NewEntry>(SMALL_BODY)
        .example(json!({ "name": "Ada", "message": "What a lovely engine!" }))
        .json::<EntryView>(201, "The entry"),
    );
    let host = registry.host();
    let about = "Remove an entry";
    registry.route(
        Route::new(Method::DELETE, "/v1/guestbook/{id}", "remove_guestbook", about, move |call| {
            remove(host.clone(), call)
        })
        .needs(Scope::Operate)
        .path("id", "Id of the entry")
        .answers(204, "It is gone", Answered::Nothing),
    );
}

async fn list(host: Host, call: Call) -> Answer {
    let paging = Paging::read(&call, |text| text.parse::<i64>().ok())?;
    let entries = entries::list(&host, call.query("name"), paging.cursor, paging.wanted()).await?;
    ok(&paging.list(entries, |entry| entry.id.to_string(), EntryView::from)?)
}

/// The entry and its job are one commit.
async fn sign(host: Host, longest: usize, call: Call) -> Answer {
    let (name, message) = checked(&call, longest)?;
    let signed_at = host.now().await?;
    // The time in microseconds is unique enough for a guest book, and sorts by time.
    let entry = Entry { id: signed_at.0, name, message, signed_at, thanked_at: None };
    let payload = serde_json::to_vec(&Thank { entry: entry.id })
        .map_err(|error| Problem::internal("a job could not be written", &error.to_string()))?;
    let mut tx = host.begin().await?;
    entries::insert(&mut tx, &entry).await?;
    tx.enqueue(JobRequest::new(THANK, payload)).await?;
    tx.commit().await?;
    answer(StatusCode::CREATED, &EntryView::from(entry))
}

/// Reports every broken rule at once, before anything is written.
fn checked(call: &Call, longest: usize) -> Result<(String, String), Problem> {
    let mut fields = call.object()?;
    let (name, message) = (fields.required_text("name"), fields.required_text("message"));
    let mut invalid = fields.end().err().unwrap_or_default();
    let mut check = |field: &str, text: &str, most: usize| {
        let count = text.chars().count();
        if count > most {
            invalid.add(field, format!("has {count} characters; at most {most} are allowed"));
        }
        if text.trim().is_empty() && !invalid.problems.iter().any(|problem| problem.field == field) {
            invalid.add(field, "must not be empty");
        }
    };
    check("name", &name, 100);
    check("message", &message, longest);
    invalid.into_result().map_err(Problem::invalid)?;
    Ok((name, message))
}

async fn remove(host: Host, call: Call) -> Answer {
    let id = call.path("id").parse::<i64>();
    let id = id.map_err(|_| Problem::parameter(Invalid::one("id", "must be a number")))?;
    let mut tx = host.begin().await?;
    let Some(entry) = entries::delete(&mut tx, id).await? else {
        return Err(Problem::not_found(format!("there is no entry {id}")));
    };
    search::remove(&host, &mut tx, id).await?;
    // The action is recorded in the audit log, in the transaction of the change.
    let detail = [("name", entry.name), ("message", entry.message)];
    let detail = detail.map(|(field, was)| (field.to_owned(), json!({ "from": was, "to": null })));
    let detail = detail.into_iter().collect();
    let note = NewAudit { act: "guestbook.remove", subject: format!("guestbook/{id}"), detail };
    tx.audit(call.actor(), &note).await?;
    tx.commit().await?;
    Ok(nothing())
}
