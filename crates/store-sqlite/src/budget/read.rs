//! Reading budgets, their months and their ledgers.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::budget::{Alert, Amount, BudgetMonth, Level, Month, Threshold};
use windlass_core::store::{Booked, Budget, COSTS_SHOWN, Call, Cost, Costs, Entry, Fired};
use windlass_core::{JobId, ReservationId, Time};

use super::month::{STANDING, dated, figures, find, fresh};
use super::spec::{self, Known};
use crate::error::{Answer, Fault};

pub(super) fn budgets(connection: &Connection, now: Time) -> Answer<Vec<Budget>> {
    let month = Month::of(now);
    let mut budgets = Vec::new();
    for known in spec::all(connection)? {
        let figures = find(connection, &known, month)?.unwrap_or_else(|| fresh(&known.spec, month));
        let (live, alerts) = (is_live(connection, &known, month)?, fired(connection, &known, month)?);
        budgets.push(Budget { spec: known.spec, figures, live, alerts, now });
    }
    Ok(budgets)
}

fn is_live(connection: &Connection, budget: &Known, month: Month) -> Answer<bool> {
    let live = connection
        .prepare_cached(
            "select live_amount or live_tokens from windlass_budget_months where budget = ?1 and month = ?2",
        )?
        .query_row((budget.id, month.to_string()), |row| row.get(0))
        .optional()?;
    Ok(live.unwrap_or(false))
}

fn fired(connection: &Connection, budget: &Known, month: Month) -> Answer<Vec<Fired>> {
    let mut statement = connection.prepare_cached(
        "select percent, level, at from windlass_budget_alerts where budget = ?1 and month = ?2 order by percent",
    )?;
    let rows = statement.query_map((budget.id, month.to_string()), |row| {
        Ok((row.get::<_, u16>(0)?, row.get::<_, String>(1)?, Time(row.get(2)?)))
    })?;
    let mut fired = Vec::new();
    for row in rows {
        let (percent, level, at) = row?;
        fired.push(Fired { threshold: Threshold { percent, level: level_of(&level)? }, at });
    }
    Ok(fired)
}

fn level_of(text: &str) -> Answer<Level> {
    text.parse().map_err(|_| Fault::corrupt(format!("`{text}` is not an alert level")))
}

pub(super) fn alerts_since(connection: &Connection, since: Time) -> Answer<Vec<Alert>> {
    let months = STANDING.split(", ").map(|column| format!("m.{column}")).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "select {months}, b.name, b.currency, a.percent, a.level, a.at from windlass_budget_alerts a
         join windlass_budgets b on b.id = a.budget
         join windlass_budget_months m on m.budget = a.budget and m.month = a.month
         where a.at >= ?1 order by a.at, b.name, a.percent"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([since.0])?;
    let mut alerts = Vec::new();
    while let Some(row) = rows.next()? {
        let level: String = row.get(10)?;
        alerts.push(Alert {
            budget: row.get(7)?,
            currency: row.get(8)?,
            threshold: Threshold { percent: row.get(9)?, level: level_of(&level)? },
            at: Time(row.get(11)?),
            figures: dated(figures(row)?)?,
        });
    }
    Ok(alerts)
}

pub(super) fn history(
    connection: &Connection,
    budget: &str,
    months: u32,
    now: Time,
) -> Answer<Option<Vec<BudgetMonth>>> {
    let Some(known) = spec::named(connection, budget)? else { return Ok(None) };
    let this = Month::of(now);
    let sql = format!(
        "select {STANDING} from windlass_budget_months where budget = ?1 and month > ?2
             and (month <= ?3 or live_amount or live_tokens)
         order by month desc"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map((known.id, this.back(months).to_string(), this.to_string()), figures)?;
    let mut all = rows.map(|row| dated(row?)).collect::<Answer<Vec<BudgetMonth>>>()?;
    if !all.iter().any(|figures| figures.month == this) {
        let place = all.partition_point(|figures| figures.month > this);
        all.insert(place, fresh(&known.spec, this));
    }
    Ok(Some(all))
}

pub(super) fn costs(connection: &Connection, budget: &str, month: Month) -> Answer<Costs> {
    let mut statement = connection.prepare_cached(
        "select key, requests, tokens_in, tokens_out, amount from windlass_budget_costs
         where budget = (select id from windlass_budgets where name = ?1) and month = ?2 and dimension = ?3 and requests > 0
         order by amount desc, key limit ?4",
    )?;
    let mut by = |dimension: &str| -> Answer<Vec<Cost>> {
        let rows = statement.query_map((budget, month.to_string(), dimension, COSTS_SHOWN), |row| {
            Ok(Cost {
                key: row.get(0)?,
                requests: row.get::<_, i64>(1)?.unsigned_abs(),
                tokens_in: row.get::<_, i64>(2)?.unsigned_abs(),
                tokens_out: row.get::<_, i64>(3)?.unsigned_abs(),
                amount: Amount(row.get(4)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    Ok(Costs { by_kind: by("kind")?, by_user: by("user")?, by_provider: by("provider")? })
}

pub(super) fn ledger(connection: &Connection, budget: &str, month: Month, limit: u32) -> Answer<Vec<Entry>> {
    let mut statement = connection.prepare_cached(
        "select at, how, reservation, job_id, kind, user_id, provider, model, amount, tokens_in, tokens_out
         from windlass_usage_ledger
         where budget = (select id from windlass_budgets where name = ?1) and month = ?2
         order by seq desc limit ?3",
    )?;
    let rows = statement.query_map((budget, month.to_string(), limit), |row| {
        let call = match (row.get::<_, Option<i64>>(2)?, row.get::<_, Option<i64>>(3)?, row.get(4)?) {
            (Some(reservation), Some(job), Some(kind)) => {
                Some(Call { reservation: ReservationId(reservation), job: JobId(job), kind })
            }
            _ => None,
        };
        let entry = Entry {
            at: Time(row.get(0)?),
            how: Booked::Settled,
            call,
            user: row.get(5)?,
            provider: row.get(6)?,
            model: row.get(7)?,
            amount: Amount(row.get(8)?),
            tokens_in: row.get(9)?,
            tokens_out: row.get(10)?,
        };
        Ok((row.get::<_, String>(1)?, entry))
    })?;
    let mut entries = Vec::new();
    for row in rows {
        let (how, entry) = row?;
        let how =
            Booked::named(&how).ok_or_else(|| Fault::corrupt(format!("`{how}` in the ledger is unknown")))?;
        entries.push(Entry { how, ..entry });
    }
    Ok(entries)
}
