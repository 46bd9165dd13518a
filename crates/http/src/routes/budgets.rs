//! Budgets with their figures, and what an operator changes about them live.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::Invalid;
use windlass_core::budget::{BudgetChange, Month};
use windlass_core::input::shown;
use windlass_core::store::{Budget, CONFIGURED, Changed};
use windlass_engine::EngineError;

use super::{ACTOR, Table, jobs, route};
use crate::app::App;
use crate::call::Call;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::route::{Answer, Route, SMALL_BODY, ok};
use crate::shape::{Schemas, Shape};
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
        .json::<ListView<BudgetView>>(200, "The budgets, by name"),
        route(
            app,
            Method::GET,
            "/v1/budgets/{name}/history",
            "budget_history",
            "The months of a budget that have figures, and those ahead whose limits were set",
            history,
        )
        .path("name", "Name of the budget")
        .query("months", "How far back, this month included", months)
        .json::<ListView<BudgetMonthView>>(200, "The months, newest first"),
        route(
            app,
            Method::PATCH,
            "/v1/budgets/{name}/{month}",
            "change_budget",
            "Change a month's limits or begin it anew, live",
            change,
        )
        .path("name", "Name of the budget")
        .path("month", "This month or one ahead, such as 2026-11")
        .body::<ChangeOf>(SMALL_BODY)
        .json::<BudgetMonthView>(200, "The month after the change"),
    ]
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    let store = app.client.store();
    let mut views = Vec::new();
    for budget in store.budgets().await? {
        let costs = store.costs(&budget.spec.name, budget.standing.month).await?;
        views.push(BudgetView::new(&budget, costs));
    }
    ok(&ListView::whole(views))
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
    let budget = named(&app, &call).await?;
    let standings = app.client.store().history(&budget.spec.name, months).await?.unwrap_or_default();
    let view = |standing| BudgetMonthView::new(&budget.spec, standing);
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
            change.optional::<bool>("reset", "Forget what was used; calls under way stay reserved");
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
    let month: Month = call
        .path("month")
        .parse()
        .map_err(|error| Problem::parameter(Invalid::one("month", format!("{error}"))))?;
    let mut fields = jobs::read(&call)?;
    let limit = fields.live("limit", Fields::amount);
    let tokens = fields.live("tokens", tokens);
    let reset = fields.flag("reset").unwrap_or(false);
    fields.end().map_err(Problem::invalid)?;
    let budget = named(&app, &call).await?;
    let change = BudgetChange { limit, tokens, reset, ..BudgetChange::new(&budget.spec.name, month, ACTOR) };
    match app.client.change_budget(&change).await {
        Ok(Changed::Done { standing, .. }) => ok(&BudgetMonthView::new(&budget.spec, &standing)),
        Ok(Changed::Unknown) => Err(missing(&call, &[])),
        Ok(Changed::Over) => {
            let why = format!("{month} is over and its books are closed; nothing was written");
            Err(Problem::conflict("month_over", why))
        }
        Ok(Changed::Unbounded) => {
            let rule = "or tokens has to stay: a budget bounds something";
            Err(Problem::invalid(Invalid::one("limit", rule)))
        }
        Err(EngineError::Invalid(invalid)) => Err(Problem::invalid(invalid)),
        Err(EngineError::Store(error)) => Err(error.into()),
    }
}

async fn named(app: &App, call: &Call) -> Result<Budget, Problem> {
    let mut budgets = app.client.store().budgets().await?;
    match budgets.iter().position(|budget| budget.spec.name == call.path("name")) {
        Some(place) => Ok(budgets.swap_remove(place)),
        None => Err(missing(call, &budgets)),
    }
}

fn missing(call: &Call, known: &[Budget]) -> Problem {
    let names: Vec<&str> = known.iter().map(|budget| budget.spec.name.as_str()).collect();
    let known = if names.is_empty() {
        "none is configured".to_owned()
    } else {
        format!("known: {}", names.join(", "))
    };
    Problem::not_found(format!("there is no budget `{}`; {known}", shown(call.path("name"))))
}
