//! `budgets list|history|set|reset`.

use serde_json::{Map, Value, json};
use windlass_core::budget::Month;
use windlass_core::store::{CONFIGURED, Live};
use windlass_pack::api::{Api, ApiError, ApiRequest};
use windlass_pack::{Method, StatusCode};

use super::Session;
use crate::api::answer::{Answered, ask, dash, figure, items, list, number, text};
use crate::args::{Budgets, BudgetsVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;
use crate::output::visible;

/// Cost rows shown per budget; `--json` has more.
const COSTS: usize = 5;
const MISSING: &str = "nothing was changed; describe budgets under [budgets.NAME] in windlass.toml";

pub(crate) async fn run(session: &Session, args: Budgets) -> Result<(), Failure> {
    let verb = args.verb.unwrap_or(BudgetsVerb::List(args.list));
    let api = match &verb {
        BudgetsVerb::List(_) | BudgetsVerb::History { .. } => session.api().await?,
        BudgetsVerb::Set { .. } | BudgetsVerb::Reset { .. } => session.acting_api().await?,
    };
    match verb {
        BudgetsVerb::List(json) => all(session, api.as_ref(), json.json).await,
        BudgetsVerb::History { name, months, json } => {
            let request =
                ApiRequest::get("/v1/budgets/{name}/history", &[&name]).query("months", Some(months));
            let answer = with_hint(ask(api.as_ref(), request).await, "cannot read the months")?;
            match json.json {
                true => answer.print(&session.output),
                false => table(session, &["month"], items(&answer.value)),
            }
        }
        BudgetsVerb::Set { name, limit, tokens, month, json } => {
            let limit =
                limit.map(|limit| live_json(limit.map(|amount| amount.map(|amount| amount.to_string()))));
            let fields = [("limit", limit), ("tokens", tokens.map(live_json))];
            let change: Map<String, Value> =
                fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
            let change = Value::Object(change);
            change_month(session, api.as_ref(), &name, month, &change, json.json).await
        }
        BudgetsVerb::Reset { name, json } => {
            change_month(session, api.as_ref(), &name, None, &json!({ "reset": true }), json.json).await
        }
    }
}

/// A live value as the routes read it.
fn live_json<T: serde::Serialize>(live: Live<T>) -> Value {
    match live {
        Live::Configured => json!(CONFIGURED),
        Live::Set(value) => json!(value),
    }
}

/// Adds a hint for a missing budget: configure it first.
fn with_hint(answer: Result<Answered, ApiError>, what: &str) -> Result<Answered, Failure> {
    let missing =
        matches!(&answer, Err(ApiError::Refused { status, .. }) if *status == StatusCode::NOT_FOUND);
    answer.during(what).map_err(|failure| if missing { failure.hint(MISSING) } else { failure })
}

async fn all(session: &Session, api: &dyn Api, json: bool) -> Result<(), Failure> {
    let answer = ask(api, ApiRequest::get("/v1/budgets", &[])).await.during("cannot read the budgets")?;
    if json {
        return answer.print(&session.output);
    }
    let budgets = items(&answer.value);
    if budgets.is_empty() {
        return session
            .output
            .line("no budgets; `windlass serve` registers those under [budgets.NAME] in windlass.toml");
    }
    table(session, &["budget"], budgets)?;
    for budget in budgets {
        for (dimension, field) in [("kind", "by_kind"), ("user", "by_user"), ("provider", "by_provider")] {
            costs(session, text(budget, "name"), dimension, list(&budget["costs"], field))?;
        }
    }
    Ok(())
}

fn costs(session: &Session, budget: &str, dimension: &'static str, costs: &[Value]) -> Result<(), Failure> {
    if costs.is_empty() {
        return Ok(());
    }
    session.output.line(format_args!("\n{}, by {dimension}", visible(budget)))?;
    let mut table = Table::new(&[dimension, ">calls", ">tokens in", ">tokens out", ">cost"]);
    for cost in costs.iter().take(COSTS) {
        table.row(vec![
            text(cost, "key").to_owned(),
            number(cost, "requests").to_string(),
            number(cost, "tokens_in").to_string(),
            number(cost, "tokens_out").to_string(),
            text(cost, "amount").to_owned(),
        ]);
    }
    table.print(&session.output)
}

/// One row per budget or month.
fn table(session: &Session, first: &[&'static str], months: &[Value]) -> Result<(), Failure> {
    let figures =
        ["state", ">used %", ">settled", ">reserved", ">limit", "currency", ">tokens", ">token limit"];
    let mut table = Table::new(&[first, &figures].concat());
    for month in months {
        let name = |title: &&str| text(month, if *title == "budget" { "name" } else { "month" }).to_owned();
        let mut row: Vec<String> = first.iter().map(name).collect();
        row.extend([
            text(month, "state").to_owned(),
            format!("{:.1}", month["percent_used"].as_f64().unwrap_or_default()),
            text(month, "settled").to_owned(),
            text(month, "reserved").to_owned(),
            month["limit"].as_str().map_or_else(dash, str::to_owned),
            text(month, "currency").to_owned(),
            number(month, "tokens_used").to_string(),
            figure(month, "tokens_limit"),
        ]);
        table.row(row);
    }
    table.print(&session.output)
}

async fn change_month(
    session: &Session,
    api: &dyn Api,
    name: &str,
    month: Option<Month>,
    change: &Value,
    json: bool,
) -> Result<(), Failure> {
    let month = match month {
        Some(month) => month.to_string(),
        None => this_month(api, name).await?,
    };
    let request = ApiRequest::new(Method::PATCH, "/v1/budgets/{name}/{month}", &[name, &month]).json(change);
    let changed = with_hint(ask(api, request).await, &format!("cannot change {name}"));
    let changed = changed.map_err(|failure| failure.failed().unchanged())?;
    match json {
        true => changed.print(&session.output),
        false => table(session, &["budget", "month"], std::slice::from_ref(&changed.value)),
    }
}

/// The current month by the database clock. The route refuses an unknown budget.
async fn this_month(api: &dyn Api, name: &str) -> Result<String, Failure> {
    let what = "cannot read the budgets";
    let budgets = api.call(ApiRequest::get("/v1/budgets", &[])).await.during(what)?;
    if let Some(budget) = items(&budgets).iter().find(|budget| text(budget, "name") == name) {
        return Ok(text(budget, "month").to_owned());
    }
    with_hint(ask(api, ApiRequest::get("/v1/budgets/{name}/history", &[name])).await, what)?;
    Err(Failure::new(what, "it was only just created").hint("try again"))
}
