//! The bookkeeping of a provider call: reserved, then settled, or swept when it is never settled.

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::budget::{Alert, Amount, Month, Sums, Usage, user_of};
use windlass_core::store::{Ask, Booked, Charged, Grant, Leak, Reserved, UNKNOWN};
use windlass_core::{JobId, ReservationId, Token};

use super::month::{self, month_of, whole};
use super::spec::{self, Known};
use crate::error::{Answer, Fault};
use crate::lease;
use crate::row::tags;
use crate::scope::Scope;

pub(super) const SWEPT_AT_ONCE: usize = 500;

pub(super) fn reserve(scope: &mut Scope<'_>, ask: &Ask) -> Answer<Reserved> {
    let connection = scope.connection;
    let Some(budget) = spec::named(connection, &ask.budget)? else { return Ok(Reserved::Unknown) };
    let held = lease::load(connection, ask.token)?;
    if held.is_none_or(|held| !held.holds(ask.job)) {
        return Ok(Reserved::Stale);
    }
    let before = month::open(scope, &budget, Month::of(scope.now))?;
    let (kind, tags) = origin(connection, ask.job)?;
    let estimate = &ask.estimate;
    let figures = match before.reserve(estimate, estimate.trigger_among(&tags), scope.now) {
        Ok(after) => after,
        Err(refusal) => return Ok(Reserved::Refused(refusal)),
    };
    let user = estimate.user.as_deref().or_else(|| user_of(&tags));
    connection
        .prepare_cached(
            "insert into windlass_reservations (budget, month, job_id, token, kind, user_id, amount, tokens, at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute((
            budget.id,
            figures.month.to_string(),
            ask.job.0,
            ask.token.0,
            kind,
            user,
            estimate.amount.0,
            whole(estimate.tokens),
            scope.now.0,
        ))?;
    let id = ReservationId(connection.last_insert_rowid());
    month::put(scope, &budget, &figures)?;
    let alerts = month::fire(scope, &budget, &figures)?;
    Ok(Reserved::Granted(Grant { id, figures, alerts }))
}

fn origin(connection: &Connection, job: JobId) -> Answer<(String, Vec<String>)> {
    connection
        .prepare_cached(
            "select k.name, j.tags from windlass_jobs j join windlass_kinds k on k.id = j.kind where j.id = ?1",
        )?
        .query_row([job.0], |row| Ok((row.get(0)?, tags(row.get(1)?))))
        .optional()?
        .ok_or_else(|| Fault::corrupt(format!("job {job} was leased but has no row in jobs")))
}

struct Open {
    id: ReservationId,
    budget: String,
    month: String,
    job: JobId,
    token: Token,
    kind: String,
    user: Option<String>,
    sums: Sums,
}

const OPEN: &str = "select r.id, b.name, r.month, r.job_id, r.token, r.kind, r.user_id, r.amount, r.tokens
     from windlass_reservations r join windlass_budgets b on b.id = r.budget";

fn open(row: &Row<'_>) -> rusqlite::Result<Open> {
    Ok(Open {
        id: ReservationId(row.get(0)?),
        budget: row.get(1)?,
        month: row.get(2)?,
        job: JobId(row.get(3)?),
        token: Token(row.get(4)?),
        kind: row.get(5)?,
        user: row.get(6)?,
        sums: Sums { amount: Amount(row.get(7)?), tokens: row.get::<_, i64>(8)?.unsigned_abs() },
    })
}

pub(super) fn settle_reservation(
    scope: &mut Scope<'_>,
    id: ReservationId,
    token: Token,
    usage: &Usage,
) -> Answer<Charged> {
    let sql = format!("{OPEN} where r.id = ?1 and r.token = ?2");
    let found = scope.connection.prepare_cached(&sql)?.query_row((id.0, token.0), open).optional()?;
    match found {
        Some(open) => Ok(Charged::Booked(book(scope, &open, usage, Booked::Settled)?)),
        None => booked_before(scope.connection, id, token),
    }
}

fn booked_before(connection: &Connection, id: ReservationId, token: Token) -> Answer<Charged> {
    let how: Option<String> = connection
        .prepare_cached("select how from windlass_usage_ledger where reservation = ?1 and token = ?2")?
        .query_row((id.0, token.0), |row| row.get(0))
        .optional()?;
    Ok(match how.as_deref().and_then(Booked::named) {
        Some(Booked::Settled) => Charged::Already,
        Some(_) => Charged::Swept,
        None => Charged::Unknown,
    })
}

const LEAKED: &str = "where not exists
     (select 1 from windlass_leases l where l.token = r.token and l.id = r.job_id)";

pub(super) fn has_leaks(connection: &Connection) -> Answer<bool> {
    let sql = format!("select exists (select 1 from windlass_reservations r {LEAKED})");
    Ok(connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))?)
}

pub(super) fn sweep_reservations(scope: &mut Scope<'_>) -> Answer<Vec<Leak>> {
    let sql = format!("{OPEN} {LEAKED} order by r.id limit {SWEPT_AT_ONCE}");
    let mut statement = scope.connection.prepare_cached(&sql)?;
    let leaked = statement.query_map([], open)?.collect::<Result<Vec<_>, _>>()?;
    let mut leaks = Vec::with_capacity(leaked.len());
    for open in leaked {
        let full = Usage { amount: open.sums.amount, tokens_in: open.sums.tokens, ..Usage::default() };
        book(scope, &open, &full, Booked::Leaked)?;
        let Open { id, budget, month, job, kind, sums, .. } = open;
        let month = month_of(&month)?;
        leaks.push(Leak { id, budget, month, kind, job, amount: sums.amount, tokens: sums.tokens });
    }
    Ok(leaks)
}

/// Ends the reservation: removes it, and books it in the ledger, its month and the sums by kind, user and provider.
fn book(scope: &Scope<'_>, open: &Open, usage: &Usage, how: Booked) -> Answer<Vec<Alert>> {
    let Some(budget) = spec::named(scope.connection, &open.budget)? else {
        return Err(Fault::corrupt(format!("reservation {} belongs to an unknown budget", open.id)));
    };
    let before = month::open(scope, &budget, month_of(&open.month)?)?;
    scope
        .connection
        .prepare_cached("delete from windlass_reservations where id = ?1")?
        .execute([open.id.0])?;
    enter(scope, &budget, open, usage, how)?;
    add_costs(scope, &budget, open, usage)?;
    let after = before.settle(open.sums, usage.sums());
    month::put(scope, &budget, &after)?;
    match how {
        Booked::Settled => month::fire(scope, &budget, &after),
        // Usage did not grow, so no alert can fire.
        Booked::Leaked | Booked::Reset => Ok(Vec::new()),
    }
}

fn enter(scope: &Scope<'_>, budget: &Known, open: &Open, usage: &Usage, how: Booked) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert into windlass_usage_ledger (at, budget, month, how, reservation, token, job_id, kind, user_id,
                 provider, model, tokens_in, tokens_out, amount)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute((
            scope.now.0,
            budget.id,
            &open.month,
            how.name(),
            open.id.0,
            open.token.0,
            open.job.0,
            &open.kind,
            &open.user,
            &usage.provider,
            &usage.model,
            whole(usage.tokens_in),
            whole(usage.tokens_out),
            usage.amount.0,
        ))?;
    Ok(())
}

fn add_costs(scope: &Scope<'_>, budget: &Known, open: &Open, usage: &Usage) -> Answer<()> {
    let provider = usage.provider.as_deref().unwrap_or(UNKNOWN);
    let user = open.user.as_deref().unwrap_or(UNKNOWN);
    for (dimension, key) in [("kind", open.kind.as_str()), ("provider", provider), ("user", user)] {
        scope
            .connection
            .prepare_cached(
                "insert into windlass_budget_costs (budget, month, dimension, key, requests, tokens_in, tokens_out,
                     amount, updated_at)
                 values (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8)
                 on conflict (budget, month, dimension, key) do update set requests = requests + 1,
                     tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out,
                     amount = amount + excluded.amount, updated_at = excluded.updated_at",
            )?
            .execute((
                budget.id,
                &open.month,
                dimension,
                key,
                whole(usage.tokens_in),
                whole(usage.tokens_out),
                usage.amount.0,
                scope.now.0,
            ))?;
    }
    Ok(())
}
