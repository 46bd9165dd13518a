//! `schedules put`: from options, or the whole schedule from a file.

use std::path::Path;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use windlass_core::Invalid;
use windlass_http::{Described, schedule_request};
use windlass_pack::api::{ApiError, ApiRequest};
use windlass_pack::{Method, StatusCode};

use super::{ONE, Session, file};
use crate::api::answer::{ask, optional_text, text};
use crate::api::exact;
use crate::args::PutSchedule;
use crate::commands::{enqueue, line};
use crate::failure::{During, Failure};
use crate::output::visible;

const WHAT: &str = "cannot write the schedule";

pub(super) async fn run(session: &Session, args: &PutSchedule) -> Result<(), Failure> {
    let body = match &args.file {
        Some(path) => file::json(path).map_err(refused)?.to_string().into_bytes(),
        None => from_flags(args)?,
    };
    let api = session.api().await?;
    let before = api.call(ApiRequest::get(ONE, &[&args.name])).await.unwrap_or(Value::Null);
    let request = ApiRequest::new(Method::PUT, ONE, &[&args.name]).raw_json(body);
    let put = ask(api.as_ref(), request).await;
    // An invalid option is wrong usage; an invalid file or an unknown kind is not.
    let usage = args.file.is_none() && put.as_ref().is_err_and(is_misuse);
    let put = put.during(WHAT).map_err(|failure| if usage { failure.misused() } else { failure.failed() })?;
    if args.json.json {
        return put.print(&session.output);
    }
    let what = match put.status {
        StatusCode::CREATED => "is new",
        _ if put.value["updated_at"] == before["updated_at"] => "was like this already",
        _ => "was changed",
    };
    let next = optional_text(&put.value, "next_tick");
    let next = next.map_or_else(|| "no next tick".to_owned(), |at| format!("next tick {}", visible(&at)));
    session.output.line(format_args!("schedule {} {what}; {next}", visible(text(&put.value, "name"))))
}

fn is_misuse(error: &ApiError) -> bool {
    let ApiError::Refused { code, problem, .. } = error else { return false };
    let named = problem["errors"].as_array().into_iter().flatten();
    code == "invalid_input" && named.filter(|one| one["field"] != "kind").count() > 0
}

fn refused(invalid: Invalid) -> Failure {
    Failure::new(WHAT, invalid).hint("nothing was written")
}

/// A schedule from a file, for calculations without a database.
pub(super) fn from_file(name: &str, path: &str) -> Result<Described, Invalid> {
    let json = file::json(path)?.to_string();
    let fields = line::fields(json.as_bytes()).map_err(|rule| Invalid::one(path, rule))?;
    schedule_request(name, fields)
}

/// The object of `PUT /v1/schedules/{name}`.
fn from_flags(args: &PutSchedule) -> Result<Vec<u8>, Failure> {
    if args.cron.is_none() && args.every.is_none() {
        return Err(Failure::usage(WHAT, "one of --cron, --every and --file is required"));
    }
    let (calendar, calendars) = calendar(args.calendar.as_deref()).map_err(refused)?;
    let during: Vec<&str> = args.during.iter().map(|phase| phase.name()).collect();
    let fields = [
        ("kind", args.kind.as_ref().map(|kind| json!(kind))),
        ("cron", args.cron.as_ref().map(|cron| json!(cron))),
        ("every", args.every.as_ref().map(|every| json!(every))),
        ("zone", args.zone.as_ref().map(|zone| json!(zone))),
        ("calendar", calendar.map(|name| json!(name))),
        ("during", (!during.is_empty()).then(|| json!(during))),
        ("calendars", calendars),
        ("misfire", args.misfire.map(|policy| json!(policy.name()))),
        ("catch_up", args.catch_up.map(|ticks| json!(ticks))),
        ("priority", args.priority.map(|priority| json!(priority))),
        ("max_attempts", args.max_attempts.map(|runs| json!(runs))),
        ("timeout", args.timeout.map(|time| json!(exact(time)))),
        ("unique_key", args.unique_key.as_ref().map(|key| json!(key))),
        ("concurrency_key", args.concurrency_key.as_ref().map(|key| json!(key))),
        ("tags", (!args.tag.is_empty()).then(|| json!(args.tag))),
    ];
    let mut body: std::collections::BTreeMap<&str, Box<RawValue>> = std::collections::BTreeMap::new();
    for (name, value) in fields {
        if let Some(value) = value {
            body.insert(name, to_raw_value(&value).map_err(|error| Failure::new(WHAT, error))?);
        }
    }
    // Raw text, because parsing would lose digits.
    body.insert("payload", enqueue::payload(WHAT, args.payload.as_deref())?);
    serde_json::to_vec(&body).map_err(|error| Failure::new(WHAT, error))
}

/// By name, or from a file, which is stored with the schedule under the file's name.
fn calendar(given: Option<&str>) -> Result<(Option<String>, Option<Value>), Invalid> {
    match given {
        Some(path) if path.ends_with(".toml") => {
            let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let calendars = json!({ name.as_str(): file::json(path)? });
            Ok((Some(name), Some(calendars)))
        }
        name => Ok((name.map(str::to_owned), None)),
    }
}
