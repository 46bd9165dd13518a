//! Budgets as configured.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::StoreError;
use windlass_core::budget::{Amount, BudgetSpec, Month};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{big_in, get};

/// A budget with its id.
pub(super) struct Known {
    pub(super) id: i32,
    pub(super) spec: BudgetSpec,
}

const NAMED: &str = "
    select id, name, currency, amount, tokens, thresholds::text from windlass.budgets where name = $1";

const ALL: &str = "
    select id, name, currency, amount, tokens, thresholds::text from windlass.budgets order by name";

/// Sums of two currencies would be meaningless.
const OTHER_CURRENCY: &str = "
    select currency from windlass.budgets b where name = $1 and currency <> $2
    and exists (select from windlass.budget_months m
                where m.budget = b.id and (m.settled_amount > 0 or m.reserved_amount > 0))";

const PUT: &str = "
    insert into windlass.budgets (name, currency, amount, tokens, thresholds) values ($1, $2, $3, $4, $5::json)
    on conflict (name) do update
    set currency = excluded.currency, amount = excluded.amount, tokens = excluded.tokens,
        thresholds = excluded.thresholds
    returning id";

/// Past months keep the limit they had.
const PUT_LIMITS: &str = "
    update windlass.budget_months
    set limit_amount = case when live_amount then limit_amount else $3 end,
        limit_tokens = case when live_tokens then limit_tokens else $4 end
    where budget = $1 and month >= $2";

const OP: &str = "register budgets";

pub(super) fn read(row: &PgRow) -> Result<Known, StoreError> {
    let name: String = get(row, "name")?;
    let thresholds: String = get(row, "thresholds")?;
    let thresholds = serde_json::from_str(&thresholds)
        .map_err(|error| StoreError::Corrupt { what: format!("thresholds of budget {name}: {error}") })?;
    let spec = BudgetSpec {
        name,
        currency: get(row, "currency")?,
        limit: get::<Option<i64>>(row, "amount")?.map(Amount),
        tokens: get::<Option<i64>>(row, "tokens")?.map(i64::unsigned_abs),
        thresholds,
    };
    Ok(Known { id: get(row, "id")?, spec })
}

impl PostgresStore {
    pub(super) async fn budget_named(
        &self,
        conn: &mut PgConnection,
        name: &str,
    ) -> Result<Option<Known>, StoreError> {
        let query = sqlx::query(self.sql(NAMED)).bind(name);
        let row = query.fetch_optional(conn).await.map_err(failed("read a budget"))?;
        row.as_ref().map(read).transpose()
    }

    pub(super) async fn all_budgets(&self, conn: &mut PgConnection) -> Result<Vec<Known>, StoreError> {
        let rows = sqlx::query(self.sql(ALL)).fetch_all(conn).await.map_err(failed("read the budgets"))?;
        rows.iter().map(read).collect()
    }

    /// In name order, so that processes that start together do not deadlock.
    pub(super) async fn write_budgets(&self, specs: &[BudgetSpec]) -> Result<(), StoreError> {
        let mut specs: Vec<&BudgetSpec> = specs.iter().collect();
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let this = Month::of(self.now_on(&mut tx).await?);
        for spec in specs {
            self.write_budget(&mut tx, spec, this).await?;
        }
        tx.commit().await.map_err(failed(OP))
    }

    async fn write_budget(
        &self,
        conn: &mut PgConnection,
        spec: &BudgetSpec,
        this: Month,
    ) -> Result<(), StoreError> {
        let other = sqlx::query(self.sql(OTHER_CURRENCY)).bind(&spec.name).bind(&spec.currency);
        if let Some(row) = other.fetch_optional(&mut *conn).await.map_err(failed(OP))? {
            let (budget, wanted) = (spec.name.clone(), spec.currency.clone());
            return Err(StoreError::CurrencyChanged { budget, stored: get(&row, "currency")?, wanted });
        }
        let thresholds = serde_json::to_string(&spec.thresholds)
            .map_err(|error| StoreError::Corrupt { what: format!("thresholds: {error}") })?;
        let (amount, tokens) = (spec.limit.map(|limit| limit.0), spec.tokens.map(big_in));
        let row = sqlx::query(self.sql(PUT))
            .bind(&spec.name)
            .bind(&spec.currency)
            .bind(amount)
            .bind(tokens)
            .bind(thresholds)
            .fetch_one(&mut *conn)
            .await
            .map_err(failed(OP))?;
        sqlx::query(self.sql(PUT_LIMITS))
            .bind(get::<i32>(&row, "id")?)
            .bind(this.to_string())
            .bind(amount)
            .bind(tokens)
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }
}
