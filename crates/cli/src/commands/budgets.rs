//! `budgets list|history|set|reset`.

use windlass_core::budget::{BudgetChange, Standing};
use windlass_core::input::shown;
use windlass_core::store::{Budget, Changed};
use windlass_engine::Client;
use windlass_http::view::{BudgetMonthView, BudgetView, CostView, ListView};

use super::{ACTOR, Session};
use crate::args::{Budgets, BudgetsVerb};
use crate::failure::{During, Failure};
use crate::output::table::Table;

/// Rows of costs per budget that a person gets to see; `--json` has more.
const COSTS: usize = 5;

pub(crate) async fn run(session: &Session, args: Budgets) -> Result<(), Failure> {
    let client = session.client().await?;
    match args.verb.unwrap_or(BudgetsVerb::List(args.list)) {
        BudgetsVerb::List(json) => list(session, &client, json.json).await,
        BudgetsVerb::History { name, months, json } => {
            history(session, &client, &name, months, json.json).await
        }
        BudgetsVerb::Set { name, limit, tokens, month, json } => {
            let budget = named(&client, &name).await?;
            let month = month.unwrap_or(budget.standing.month);
            let change = BudgetChange { limit, tokens, ..BudgetChange::new(&name, month, ACTOR) };
            apply(session, &client, &budget, &change, json.json).await
        }
        BudgetsVerb::Reset { name, json } => {
            let budget = named(&client, &name).await?;
            let change = BudgetChange::new(&name, budget.standing.month, ACTOR);
            apply(session, &client, &budget, &BudgetChange { reset: true, ..change }, json.json).await
        }
    }
}

async fn list(session: &Session, client: &Client, json: bool) -> Result<(), Failure> {
    let mut views = Vec::new();
    let what = "cannot read the budgets";
    let budgets = client.store().budgets().await.during(what)?;
    for budget in &budgets {
        let costs = client.store().costs(&budget.spec.name, budget.standing.month).await.during(what)?;
        views.push(BudgetView::new(budget, costs));
    }
    if json {
        return session.output.json(&ListView::whole(views));
    }
    if views.is_empty() {
        return session.output.line("no budgets; describe one under [budgets.NAME] in windlass.toml");
    }
    let rows = budgets.iter().map(|b| (vec![b.spec.name.clone()], &b.standing, b.spec.currency.as_str()));
    months(session, &["budget"], rows)?;
    for view in views {
        let by = [
            ("kind", view.costs.by_kind),
            ("user", view.costs.by_user),
            ("provider", view.costs.by_provider),
        ];
        for (dimension, costs) in by {
            costs_table(session, &view.figures.name, dimension, &costs)?;
        }
    }
    Ok(())
}

fn costs_table(
    session: &Session,
    budget: &str,
    dimension: &'static str,
    costs: &[CostView],
) -> Result<(), Failure> {
    if costs.is_empty() {
        return Ok(());
    }
    session.output.line(format_args!("\n{budget}, by {dimension}"))?;
    let mut table = Table::new(&[dimension, ">calls", ">tokens in", ">tokens out", ">cost"]);
    for cost in costs.iter().take(COSTS) {
        table.row(vec![
            cost.key.clone(),
            cost.requests.to_string(),
            cost.tokens_in.to_string(),
            cost.tokens_out.to_string(),
            cost.amount.0.to_string(),
        ]);
    }
    table.print(&session.output)
}

async fn history(
    session: &Session,
    client: &Client,
    name: &str,
    count: u32,
    json: bool,
) -> Result<(), Failure> {
    let budget = named(client, name).await?;
    let standings = client.store().history(name, count).await.during("cannot read the months")?;
    let standings = standings.unwrap_or_default();
    let currency = budget.spec.currency.as_str();
    if json {
        let views = standings.iter().map(|standing| BudgetMonthView::new(&budget.spec, standing));
        return session.output.json(&ListView::whole(views.collect()));
    }
    months(
        session,
        &["month"],
        standings.iter().map(|standing| (vec![standing.month.to_string()], standing, currency)),
    )
}

/// One line per budget or month.
fn months<'a>(
    session: &Session,
    first: &[&'static str],
    rows: impl Iterator<Item = (Vec<String>, &'a Standing, &'a str)>,
) -> Result<(), Failure> {
    let figures =
        ["state", ">used %", ">settled", ">reserved", ">limit", "currency", ">tokens", ">token limit"];
    let mut table = Table::new(&[first, &figures].concat());
    for (mut row, standing, currency) in rows {
        let dash = || "–".to_owned();
        row.extend([
            standing.state().to_string(),
            format!("{:.1}", standing.percent()),
            standing.settled.amount.to_string(),
            standing.reserved.amount.to_string(),
            standing.limits.amount.map_or_else(dash, |limit| limit.to_string()),
            currency.to_owned(),
            standing.used().tokens.to_string(),
            standing.limits.tokens.map_or_else(dash, |limit| limit.to_string()),
        ]);
        table.row(row);
    }
    table.print(&session.output)
}

async fn apply(
    session: &Session,
    client: &Client,
    budget: &Budget,
    change: &BudgetChange,
    json: bool,
) -> Result<(), Failure> {
    let standing = match client.change_budget(change).await.during("cannot change the budget")? {
        Changed::Done { standing, .. } => standing,
        Changed::Unknown => return Err(unknown(&change.budget, &[])),
        Changed::Unbounded => {
            let what = format!("cannot change {}", change.budget);
            return Err(Failure::new(what, "no limit would be left, and a budget bounds something")
                .hint("nothing was changed; give the other one with --limit or --tokens"));
        }
        Changed::Over => {
            let what = format!("cannot change {}", change.month);
            return Err(Failure::new(what, "it is over and its books are closed").hint("nothing was changed"));
        }
    };
    if json {
        return session.output.json(&BudgetMonthView::new(&budget.spec, &standing));
    }
    let first = vec![budget.spec.name.clone(), standing.month.to_string()];
    months(session, &["budget", "month"], [(first, &standing, budget.spec.currency.as_str())].into_iter())
}

async fn named(client: &Client, name: &str) -> Result<Budget, Failure> {
    let mut budgets = client.store().budgets().await.during("cannot read the budgets")?;
    match budgets.iter().position(|budget| budget.spec.name == name) {
        Some(place) => Ok(budgets.swap_remove(place)),
        None => Err(unknown(name, &budgets)),
    }
}

fn unknown(name: &str, known: &[Budget]) -> Failure {
    let names: Vec<&str> = known.iter().map(|budget| budget.spec.name.as_str()).collect();
    let known = if names.is_empty() {
        "none is configured".to_owned()
    } else {
        format!("known: {}", names.join(", "))
    };
    Failure::new(format!("there is no budget `{}`", shown(name)), known)
        .hint("nothing was changed; describe budgets under [budgets.NAME] in windlass.toml")
}
