//! The bookkeeping of a provider call: reserved, then settled, or swept when it is never settled.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::budget::{Alert, Amount, BudgetMonth, Month, Sums, Usage, user_of};
use windlass_core::store::{Ask, Booked, Charged, Grant, Leak, Reserved, UNKNOWN};
use windlass_core::{JobId, ReservationId, StoreError, Time, Token};

use super::month::month_of;
use super::spec::Known;
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, big_in, count, get};

/// Does not lock the lease: if it ends a moment later, the sweep books the reservation as if the call had begun. A
/// separate statement under the month's lock, so that the result is not older than the wait for that lock.
const ORIGIN: &str = "
    select k.name, j.tags from windlass.claims c
    join windlass.jobs j on j.id = $1 join windlass.kinds k on k.id = j.kind
    where c.token = $2 and $1 = any (c.ids)";

const RESERVE: &str = "
    insert into windlass.reservations (budget, month, job_id, token, kind, user_id, amount, tokens, at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id";

const OPEN: &str = "
    select r.id, b.name, r.month, r.job_id, r.token, r.kind, r.user_id, r.amount, r.tokens
    from windlass.reservations r join windlass.budgets b on b.id = r.budget
    where r.id = $1 and r.token = $2";

const BEFORE: &str = "select how from windlass.usage_ledger where reservation = $1 and token = $2";

/// A lease never returns, so a reservation without one in a snapshot stays without one.
const LEAKED: &str = "
    select r.id, b.name, r.month, r.job_id, r.token, r.kind, r.user_id, r.amount, r.tokens
    from windlass.reservations r join windlass.budgets b on b.id = r.budget
    where not exists (select from windlass.claims c where c.token = r.token and r.job_id = any (c.ids))
    order by r.id limit 500";

const CLOSE: &str = "delete from windlass.reservations where id = $1";

const ENTER: &str = "
    insert into windlass.usage_ledger (at, budget, month, how, reservation, token, job_id, kind, user_id, provider,
                                       model, tokens_in, tokens_out, amount)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

/// By kind, provider and user.
const ADD_COSTS: &str = "
    insert into windlass.budget_costs as c (budget, month, dimension, key, requests, tokens_in, tokens_out, amount,
                                            updated_at)
    select $1, $2, dimension, key, 1, $5, $6, $7, $8 from unnest($3::text[], $4::text[]) u (dimension, key)
    on conflict (budget, month, dimension, key) do update
    set requests = c.requests + 1, tokens_in = c.tokens_in + excluded.tokens_in,
        tokens_out = c.tokens_out + excluded.tokens_out, amount = c.amount + excluded.amount,
        updated_at = excluded.updated_at";

const RESERVE_OP: &str = "reserve";
const SETTLE_OP: &str = "settle a reservation";
const SWEEP_OP: &str = "sweep reservations";

/// What a call was made for.
struct Origin<'a> {
    kind: String,
    user: Option<&'a str>,
}

struct Open {
    id: ReservationId,
    budget: String,
    month: Month,
    job: JobId,
    token: Token,
    kind: String,
    user: Option<String>,
    sums: Sums,
}

fn open(row: &PgRow) -> Result<Open, StoreError> {
    Ok(Open {
        id: ReservationId(get(row, "id")?),
        budget: get(row, "name")?,
        month: month_of(&get::<String>(row, "month")?)?,
        job: JobId(get(row, "job_id")?),
        token: Token(get(row, "token")?),
        kind: get(row, "kind")?,
        user: get(row, "user_id")?,
        sums: Sums { amount: Amount(get(row, "amount")?), tokens: count(row, "tokens")? },
    })
}

impl PostgresStore {
    pub(super) async fn reserve_call(&self, ask: &Ask) -> Result<Reserved, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(RESERVE_OP))?;
        let reserved = self.reserve_on(&mut tx, ask).await?;
        // Awaited either way: a dropped transaction would keep the month's row locked until the pool rolls it back.
        let ended = match &reserved {
            Reserved::Granted(_) => tx.commit().await,
            _ => tx.rollback().await,
        };
        ended.map_err(failed(RESERVE_OP))?;
        Ok(reserved)
    }

    async fn reserve_on(&self, conn: &mut PgConnection, ask: &Ask) -> Result<Reserved, StoreError> {
        let now = self.now_on(conn).await?;
        let Some(budget) = self.budget_named(conn, &ask.budget).await? else { return Ok(Reserved::Unknown) };
        let before = self.lock_month(conn, &budget, Month::of(now), now).await?;
        let origin = sqlx::query(self.sql(ORIGIN)).bind(ask.job.0).bind(ask.token.0);
        let Some(origin) = origin.fetch_optional(&mut *conn).await.map_err(failed(RESERVE_OP))? else {
            return Ok(Reserved::Stale);
        };
        let tags: Vec<String> = get::<Option<Vec<String>>>(&origin, "tags")?.unwrap_or_default();
        let (kind, estimate) = (get(&origin, "name")?, &ask.estimate);
        let figures = match before.reserve(estimate, estimate.trigger_among(&tags), now) {
            Ok(after) => after,
            Err(refusal) => return Ok(Reserved::Refused(refusal)),
        };
        let origin = Origin { kind, user: estimate.user.as_deref().or_else(|| user_of(&tags)) };
        let id = self.open_call(conn, &budget, ask, &figures, origin, now).await?;
        self.put_month(conn, &budget, &figures, now).await?;
        let alerts = self.fire(conn, &budget, &figures, now).await?;
        Ok(Reserved::Granted(Grant { id, figures, alerts }))
    }

    async fn open_call(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        ask: &Ask,
        figures: &BudgetMonth,
        origin: Origin<'_>,
        now: Time,
    ) -> Result<ReservationId, StoreError> {
        let row = sqlx::query(self.sql(RESERVE))
            .bind(budget.id)
            .bind(figures.month.to_string())
            .bind(ask.job.0)
            .bind(ask.token.0)
            .bind(origin.kind)
            .bind(origin.user)
            .bind(ask.estimate.amount.0)
            .bind(big_in(ask.estimate.tokens))
            .bind(PgTime(now))
            .fetch_one(conn)
            .await
            .map_err(failed(RESERVE_OP))?;
        Ok(ReservationId(get(&row, "id")?))
    }

    pub(super) async fn settle_call(
        &self,
        id: ReservationId,
        token: Token,
        usage: &Usage,
    ) -> Result<Charged, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(SETTLE_OP))?;
        let about = |sql| sqlx::query(self.sql(sql)).bind(id.0).bind(token.0);
        let found = about(OPEN).fetch_optional(&mut *tx).await.map_err(failed(SETTLE_OP))?;
        if let Some(row) = found {
            let open = open(&row)?;
            let now = self.now_on(&mut tx).await?;
            if let Some(alerts) = self.book(&mut tx, &open, usage, Booked::Settled, now).await? {
                tx.commit().await.map_err(failed(SETTLE_OP))?;
                return Ok(Charged::Booked(alerts));
            }
        }
        let row = about(BEFORE).fetch_optional(&mut *tx).await.map_err(failed(SETTLE_OP))?;
        let how = row.map(|row| get::<String>(&row, "how")).transpose()?;
        Ok(match how.as_deref().and_then(Booked::named) {
            Some(Booked::Settled) => Charged::Already,
            Some(_) => Charged::Swept,
            None => Charged::Unknown,
        })
    }

    /// One transaction per budget and month, so that none holds two of these contended rows.
    pub(super) async fn sweep_calls(&self) -> Result<Vec<Leak>, StoreError> {
        let rows = sqlx::query(self.sql(LEAKED)).fetch_all(&self.pool).await.map_err(failed(SWEEP_OP))?;
        let mut months: BTreeMap<(String, Month), Vec<Open>> = BTreeMap::new();
        for row in &rows {
            let open = open(row)?;
            months.entry((open.budget.clone(), open.month)).or_default().push(open);
        }
        let mut leaks = Vec::with_capacity(rows.len());
        for opens in months.into_values() {
            let mut tx = self.pool.begin().await.map_err(failed(SWEEP_OP))?;
            let now = self.now_on(&mut tx).await?;
            let mut booked = Vec::with_capacity(opens.len());
            for open in opens {
                let full =
                    Usage { amount: open.sums.amount, tokens_in: open.sums.tokens, ..Usage::default() };
                if self.book(&mut tx, &open, &full, Booked::Leaked, now).await?.is_some() {
                    booked.push(leak(open));
                }
            }
            tx.commit().await.map_err(failed(SWEEP_OP))?;
            leaks.extend(booked);
        }
        Ok(leaks)
    }

    /// Ends the reservation: removes it, and books it in the ledger, its month and the sums by kind, user and
    /// provider. `None` when it was ended elsewhere before the month was locked.
    async fn book(
        &self,
        conn: &mut PgConnection,
        open: &Open,
        usage: &Usage,
        how: Booked,
        now: Time,
    ) -> Result<Option<Vec<Alert>>, StoreError> {
        let Some(budget) = self.budget_named(conn, &open.budget).await? else {
            return Err(StoreError::Corrupt {
                what: format!("reservation {} belongs to an unknown budget", open.id),
            });
        };
        let before = self.lock_month(conn, &budget, open.month, now).await?;
        let closed = sqlx::query(self.sql(CLOSE))
            .bind(open.id.0)
            .execute(&mut *conn)
            .await
            .map_err(failed(SETTLE_OP))?;
        if closed.rows_affected() == 0 {
            return Ok(None);
        }
        self.enter(conn, &budget, open, usage, how, now).await?;
        self.add_costs(conn, &budget, open, usage, now).await?;
        let after = before.settle(open.sums, usage.sums());
        self.put_month(conn, &budget, &after, now).await?;
        match how {
            Booked::Settled => self.fire(conn, &budget, &after, now).await.map(Some),
            // Usage did not grow, so no alert can fire.
            Booked::Leaked | Booked::Reset => Ok(Some(Vec::new())),
        }
    }

    async fn enter(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        open: &Open,
        usage: &Usage,
        how: Booked,
        now: Time,
    ) -> Result<(), StoreError> {
        sqlx::query(self.sql(ENTER))
            .bind(PgTime(now))
            .bind(budget.id)
            .bind(open.month.to_string())
            .bind(how.name())
            .bind(open.id.0)
            .bind(open.token.0)
            .bind(open.job.0)
            .bind(&open.kind)
            .bind(&open.user)
            .bind(&usage.provider)
            .bind(&usage.model)
            .bind(big_in(usage.tokens_in))
            .bind(big_in(usage.tokens_out))
            .bind(usage.amount.0)
            .execute(conn)
            .await
            .map_err(failed(SETTLE_OP))?;
        Ok(())
    }

    async fn add_costs(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        open: &Open,
        usage: &Usage,
        now: Time,
    ) -> Result<(), StoreError> {
        let provider = usage.provider.as_deref().unwrap_or(UNKNOWN);
        let user = open.user.as_deref().unwrap_or(UNKNOWN);
        sqlx::query(self.sql(ADD_COSTS))
            .bind(budget.id)
            .bind(open.month.to_string())
            .bind(["kind", "provider", "user"])
            .bind([open.kind.as_str(), provider, user])
            .bind(big_in(usage.tokens_in))
            .bind(big_in(usage.tokens_out))
            .bind(usage.amount.0)
            .bind(PgTime(now))
            .execute(conn)
            .await
            .map_err(failed(SETTLE_OP))?;
        Ok(())
    }
}

fn leak(open: Open) -> Leak {
    let Open { id, budget, month, job, kind, sums, .. } = open;
    Leak { id, budget, month, kind, job, amount: sums.amount, tokens: sums.tokens }
}
