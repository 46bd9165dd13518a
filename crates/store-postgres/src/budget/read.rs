//! Reading budgets, their months and their ledgers.

use sqlx::postgres::PgRow;
use windlass_core::budget::{Alert, Amount, BudgetMonth, Level, Month, Threshold};
use windlass_core::store::{Booked, Budget, COSTS_SHOWN, Call, Cost, Costs, Entry, Fired};
use windlass_core::{JobId, ReservationId, StoreError, Time};

use super::month::{figures, fresh};
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, count, get, time};

const LIVE: &str = "
    select live_amount or live_tokens as live from windlass.budget_months where budget = $1 and month = $2";

const FIRED: &str = "
    select percent, level, at from windlass.budget_alerts where budget = $1 and month = $2 order by percent";

const ALERTS: &str = "
    select b.name, b.currency, a.percent, a.level, a.at, m.month, m.limit_amount, m.limit_tokens, m.settled_amount,
           m.settled_tokens, m.reserved_amount, m.reserved_tokens
    from windlass.budget_alerts a
    join windlass.budgets b on b.id = a.budget
    join windlass.budget_months m on m.budget = a.budget and m.month = a.month
    where a.at >= $1 order by a.at, b.name, a.percent";

const MONTHS: &str = "
    select month, limit_amount, limit_tokens, settled_amount, settled_tokens, reserved_amount, reserved_tokens
    from windlass.budget_months
    where budget = $1 and month > $2 and (month <= $3 or live_amount or live_tokens) order by month desc";

const COSTS: &str = "
    select key, requests, tokens_in, tokens_out, amount from windlass.budget_costs
    where budget = (select id from windlass.budgets where name = $1) and month = $2 and dimension = $3
      and requests > 0
    order by amount desc, key limit $4";

const LEDGER: &str = "
    select at, how, reservation, job_id, kind, user_id, provider, model, amount, tokens_in, tokens_out
    from windlass.usage_ledger
    where budget = (select id from windlass.budgets where name = $1) and month = $2
    order by seq desc limit $3";

const OP: &str = "read the budgets";

impl PostgresStore {
    pub(super) async fn list_budgets(&self) -> Result<Vec<Budget>, StoreError> {
        let mut conn = self.pool.session().await.map_err(failed(OP))?;
        let now = self.now_on(&mut conn).await?;
        let month = Month::of(now);
        let mut budgets = Vec::new();
        for known in self.all_budgets(&mut conn).await? {
            let figures = self.find_month(&mut conn, &known, month).await?;
            let figures = figures.unwrap_or_else(|| fresh(&known.spec, month));
            let about = |sql| sqlx::query(self.sql(sql)).bind(known.id).bind(month.to_string());
            let live = about(LIVE).fetch_optional(&mut *conn).await.map_err(failed(OP))?;
            let live = live.map(|row| get(&row, "live")).transpose()?.unwrap_or(false);
            let alerts = about(FIRED).fetch_all(&mut *conn).await.map_err(failed(OP))?;
            let alerts = alerts.iter().map(fired).collect::<Result<_, _>>()?;
            budgets.push(Budget { spec: known.spec, figures, live, alerts, now });
        }
        conn.commit().await.map_err(failed(OP))?;
        Ok(budgets)
    }

    pub(super) async fn list_alerts(&self, since: Time) -> Result<Vec<Alert>, StoreError> {
        let query = sqlx::query(self.sql(ALERTS)).bind(PgTime(since));
        let rows = query.fetch_all(&self.pool).await.map_err(failed("read alerts"))?;
        let alert = |row: &PgRow| {
            let Fired { threshold, at } = fired(row)?;
            let (budget, currency) = (get(row, "name")?, get(row, "currency")?);
            Ok(Alert { budget, currency, threshold, at, figures: figures(row)? })
        };
        rows.iter().map(alert).collect()
    }

    pub(super) async fn list_months(
        &self,
        budget: &str,
        months: u32,
    ) -> Result<Option<Vec<BudgetMonth>>, StoreError> {
        let mut conn = self.pool.session().await.map_err(failed(OP))?;
        let Some(known) = self.budget_named(&mut conn, budget).await? else { return Ok(None) };
        let this = Month::of(self.now_on(&mut conn).await?);
        let rows = sqlx::query(self.sql(MONTHS))
            .bind(known.id)
            .bind(this.back(months).to_string())
            .bind(this.to_string())
            .fetch_all(&mut *conn)
            .await
            .map_err(failed(OP))?;
        conn.commit().await.map_err(failed(OP))?;
        let mut all = rows.iter().map(figures).collect::<Result<Vec<_>, _>>()?;
        if !all.iter().any(|figures| figures.month == this) {
            let place = all.partition_point(|figures| figures.month > this);
            all.insert(place, fresh(&known.spec, this));
        }
        Ok(Some(all))
    }

    pub(super) async fn list_costs(&self, budget: &str, month: Month) -> Result<Costs, StoreError> {
        let by = async |dimension: &str| -> Result<Vec<Cost>, StoreError> {
            let rows = sqlx::query(self.sql(COSTS))
                .bind(budget)
                .bind(month.to_string())
                .bind(dimension)
                .bind(i64::from(COSTS_SHOWN))
                .fetch_all(&self.pool)
                .await
                .map_err(failed("read a budget's costs"))?;
            rows.iter().map(cost).collect()
        };
        Ok(Costs {
            by_kind: by("kind").await?,
            by_user: by("user").await?,
            by_provider: by("provider").await?,
        })
    }

    pub(super) async fn list_ledger(
        &self,
        budget: &str,
        month: Month,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        let rows = sqlx::query(self.sql(LEDGER))
            .bind(budget)
            .bind(month.to_string())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("read the ledger"))?;
        rows.iter().map(entry).collect()
    }
}

fn fired(row: &PgRow) -> Result<Fired, StoreError> {
    let (percent, level): (i16, String) = (get(row, "percent")?, get(row, "level")?);
    let corrupt = |_| StoreError::Corrupt { what: format!("`{level}` is not an alert level") };
    let level: Level = level.parse().map_err(corrupt)?;
    let percent = u16::try_from(percent).unwrap_or(0);
    Ok(Fired { threshold: Threshold { percent, level }, at: time(row, "at")? })
}

fn cost(row: &PgRow) -> Result<Cost, StoreError> {
    Ok(Cost {
        key: get(row, "key")?,
        requests: count(row, "requests")?,
        tokens_in: count(row, "tokens_in")?,
        tokens_out: count(row, "tokens_out")?,
        amount: Amount(get(row, "amount")?),
    })
}

fn entry(row: &PgRow) -> Result<Entry, StoreError> {
    let how: String = get(row, "how")?;
    let corrupt = || StoreError::Corrupt { what: format!("`{how}` in the ledger is unknown") };
    let call: (Option<i64>, Option<i64>, Option<String>) =
        (get(row, "reservation")?, get(row, "job_id")?, get(row, "kind")?);
    let call = match call {
        (Some(reservation), Some(job), Some(kind)) => {
            Some(Call { reservation: ReservationId(reservation), job: JobId(job), kind })
        }
        _ => None,
    };
    Ok(Entry {
        at: time(row, "at")?,
        how: Booked::named(&how).ok_or_else(corrupt)?,
        call,
        user: get(row, "user_id")?,
        provider: get(row, "provider")?,
        model: get(row, "model")?,
        amount: Amount(get(row, "amount")?),
        tokens_in: get(row, "tokens_in")?,
        tokens_out: get(row, "tokens_out")?,
    })
}
