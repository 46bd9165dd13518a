//! Budgets with their figures, and live changes by operators.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::Invalid;
use windlass_core::budget::Month;
use windlass_core::input::shown;
use windlass_core::store::CONFIGURED;
use windlass_engine::operate::{MonthChange, OperateError};
use windlass_pack::fields::Fields;
use windlass_pack::{Answer, Call, Problem, Route, SMALL_BODY, Schemas, Scope, Shape, ok};

use super::{Table, route};
use crate::app::App;
use crate::view::{BudgetMonthView, BudgetView, ListView};

const MONTHS: u32 = 12;
const MOST_MONTHS: u32 = 120;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let months = json!({ "type": "integer", "minimum": 1, "maximum": MOST_MONTHS, "default": MONTHS });
    vec![
        route(
            app,
            Method::GET,
            "/v1/budgets",
            "list_budgets",
            "Every budget with this month's figures and costs",
            list,
        )
        .needs(Scope::Read)
        .json::<ListView<BudgetView>>(200, "The budgets, by name"),
        route(
            app,
            Method::GET,
            "/v1/budgets/{name}/history",
            "budget_history",
            "The months of a budget that have figures, and future ones with live limits",
            history,
        )
        .needs(Scope::Read)
        .path_example("name", "ai")
        .path("name", "Name of the budget")
        .query("months", "How many months, including this one", months)
        .json::<ListView<BudgetMonthView>>(200, "The months, newest first"),
        route(
            app,
            Method::PATCH,
            "/v1/budgets/{name}/{month}",
            "change_budget",
            "Change a month's limits or reset it, live",
            change,
        )
        .needs(Scope::Operate)
        .example(json!({ "limit": "750.00" }))
        .path_example("name", "ai")
        .path_example("month", "2099-12")
        .path("name", "Name of the budget")
        .path("month", "This month or a future one, such as 2026-11")
        .body::<ChangeOf>(SMALL_BODY)
        .json::<BudgetMonthView>(200, "The month after the change"),
    ]
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    let budgets = app.client.budgets().await?;
    let views = budgets.into_iter().map(|(budget, costs)| BudgetView::new(&budget, costs));
    ok(&ListView::whole(views.collect()))
}

async fn history(app: Arc<App>, call: Call) -> Answer {
    let months = match call.query("months") {
        None => MONTHS,
        Some(text) => match text.parse() {
            Ok(months) if (1..=MOST_MONTHS).contains(&months) => months,
            _ => {
                let rule = format!("must be 1 to {MOST_MONTHS}, not `{}`", shown(text));
                return Err(Problem::parameter(Invalid::one("months", rule)));
            }
        },
    };
    let (spec, standings) = app.client.budget_history(call.path("name"), months).await?;
    let view = |figures| BudgetMonthView::new(&spec, figures);
    ok(&ListView::whole(standings.iter().map(view).collect()))
}

struct ChangeOf;

impl Shape for ChangeOf {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("BudgetChange", "What to change about a month; at least one field.", |change| {
            let about = "Money, as text or number; null takes the limit away, `configured` gives it back to the \
                         configuration. Holds for that month only";
            change.optional::<AmountOf>("limit", about);
            let about = "Tokens, input and output together; null and `configured` as for limit. One of the two stays";
            change.optional::<TokensOf>("tokens", about);
            change.optional::<bool>("reset", "Set what was used to zero; running calls stay reserved");
        })
    }
}

struct AmountOf;

impl Shape for AmountOf {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": ["string", "number", "null"], "examples": ["750.00", 750, null, CONFIGURED] })
    }
}

struct TokensOf;

impl Shape for TokensOf {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": ["integer", "string", "null"], "minimum": 0, "examples": [5_000_000, null, CONFIGURED] })
    }
}

fn tokens(fields: &mut Fields<'_>, name: &'static str) -> Option<u64> {
    let tokens = u64::try_from(fields.integer(name)?).ok();
    if tokens.is_none() {
        fields.refuse(name, "must not be negative");
    }
    tokens
}

async fn change(app: Arc<App>, call: Call) -> Answer {
    let month = call.path("month").parse::<Month>();
    let mut fields = call.object()?;
    let limit = fields.live("limit", Fields::amount);
    let tokens = fields.live("tokens", tokens);
    let reset = fields.flag("reset").unwrap_or(false);
    let change = MonthChange { limit, tokens, reset };
    let mut found = Invalid::default();
    if let Err(error) = &month {
        found.add("month", error.to_string());
    }
    let found = found.and(fields.end().err().unwrap_or_default());
    let changed = app.client.change_month(call.path("name"), month.ok(), &change, found, call.actor()).await;
    let (spec, figures) = changed.map_err(|error| match error {
        // Only the month is wrong, which is not a field of the body.
        OperateError::Invalid(wrong) if wrong.problems.iter().all(|problem| problem.field == "month") => {
            Problem::parameter(wrong)
        }
        other => other.into(),
    })?;
    ok(&BudgetMonthView::new(&spec, &figures))
}
