//! Progress and log lines of running attempts.
//!
//! Owns `progress` and `logs`. Fenced like a settlement: reports of a lost lease are dropped. The newest thousand
//! lines of each job are kept. Never changes the job itself.

use windlass_core::StoreError;
use windlass_core::store::{Report, ReportBody};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, small_in, sparse, text_in};

/// A share lock on the claims rows keeps the leases valid until the lines are written.
const REPORT: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    u as materialized (
        select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::real[], $6::text[]) with ordinality
            u (id, token, attempt, percent, body, ord)),
    c as materialized (
        select c.token, c.ids from windlass.claims c
        where c.token = any (array(select distinct token from u)) order by c.token for share),
    h as materialized (
        select u.* from (select token, unnest(ids) as id from c) s join u on u.token = s.token and u.id = s.id),
    p as (
        insert into windlass.progress (job_id, percent, message, at)
        select distinct on (h.id) h.id, h.percent, h.body, n.now from h, n
        where h.percent is not null order by h.id, h.ord desc
        on conflict (job_id) do update
        set percent = excluded.percent, message = excluded.message, at = excluded.at),
    l as (
        insert into windlass.logs (job_id, attempt, at, line)
        select h.id, h.attempt, n.now, h.body from h, n where h.percent is null order by h.ord)
    select count(*) as kept, coalesce(array_agg(distinct id) filter (where percent is null), '{}') as logged from h";

const TRIM: &str = "
    delete from windlass.logs l
    using unnest($1::bigint[]) i (id),
          lateral (select seq from windlass.logs where job_id = i.id order by seq desc offset $2 limit 1) last
    where l.job_id = i.id and l.seq <= last.seq";

pub(crate) const LINES_KEPT: i64 = 1_000;
const OP: &str = "write progress";

impl PostgresStore {
    pub(crate) async fn do_report(&self, reports: &[Report]) -> Result<u64, StoreError> {
        if reports.is_empty() {
            return Ok(0);
        }
        let body = |r: &Report| match &r.body {
            ReportBody::Progress { message, .. } => message.as_deref().map(|m| text_in(m).into_owned()),
            ReportBody::Log { line } => Some(text_in(line).into_owned()),
        };
        let percent = |r: &Report| match &r.body {
            ReportBody::Progress { percent, .. } => Some(*percent),
            ReportBody::Log { .. } => None,
        };
        let row = sqlx::query(self.sql(REPORT))
            .bind(self.offset())
            .bind(reports.iter().map(|r| r.id.0).collect::<Vec<_>>())
            .bind(reports.iter().map(|r| r.token.0).collect::<Vec<_>>())
            .bind(reports.iter().map(|r| small_in(r.attempt)).collect::<Vec<_>>())
            .bind(sparse(reports.iter().map(percent).collect()))
            .bind(sparse(reports.iter().map(body).collect()))
            .fetch_one(&self.pool)
            .await
            .map_err(failed(OP))?;
        let logged: Vec<i64> = crate::row::get(&row, "logged")?;
        if !logged.is_empty() {
            sqlx::query(self.sql(TRIM))
                .bind(logged)
                .bind(LINES_KEPT)
                .execute(&self.pool)
                .await
                .map_err(failed(OP))?;
        }
        count(&row, "kept")
    }
}
