//! Showing jobs: one, a page, a count.
//!
//! Owns how a job's state follows from the table it is in: `ready` (scheduled or pending), `claims` (running) or
//! `finished`. One statement sees one snapshot, so a job is always in exactly one of them. Never writes.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};
use windlass_core::store::{DeadCount, JobDetail, JobFilter, Page};
use windlass_core::{
    Attempt, EntityRef, JobId, JobRecord, JobState, LogLine, Progress, QueueId, StoreError, Token,
    UniqueUntil, WorkerId, WorkflowId,
};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{big_in, count, duration_or_none, get, level, priority, small, text_in, time, time_or_none};

const RECORD: &str = "
    select j.id, kd.name as kind, q.name as queue, {payload} as payload,
           octet_length(j.payload)::bigint as payload_bytes, j.max_attempts, j.timeout_us, j.created_at,
           j.unique_key, j.unique_until, j.concurrency_key, j.tags, j.entity_type, j.entity_id,
           case when r.id is not null then case when r.run_at > n.now then 0 else 1 end
                when c.id is not null then 2 else f.state end::smallint as state,
           coalesce(r.priority, j.priority) as priority,
           coalesce(r.attempt, c.attempt, f.attempt, 0)::smallint as attempt,
           coalesce(r.suspicion, 0)::smallint as suspicion,
           case when r.queue <> 0 then r.run_at end as run_at, j.parent_id,
           coalesce(c.claimed_at, f.started_at) as started_at, f.finished_at,
           {result} as result, coalesce(octet_length(f.result), 0)::bigint as result_bytes,
           coalesce(f.error, last.error) as last_error, coalesce(c.worker, f.worker, last.worker) as worker,
           pr.percent, pr.message, pr.at as progress_at, x.job_id is not null as cancel_requested
    from picked p
    cross join n
    join windlass.jobs j on j.id = p.id
    join windlass.kinds kd on kd.id = j.kind
    join windlass.queues q on q.id = j.queue
    left join windlass.ready r on r.id = p.id
    left join windlass.finished f on f.id = p.id
    left join leased c on c.id = p.id
    left join windlass.progress pr on pr.job_id = p.id
    left join windlass.cancels x on x.job_id = p.id
    left join lateral (
        select (array_agg(a.error order by a.token desc) filter (where a.error is not null))[1] as error,
               (array_agg(a.worker order by a.token desc))[1] as worker
        from windlass.attempts a where a.id = p.id) last on true
    order by p.id desc";

/// [`RECORD`] with payload and result whole, or cut to `excerpt` bytes.
fn record_columns(excerpt: Option<u32>) -> String {
    let column = |name: &str| match excerpt {
        Some(most) => format!("substring({name} from 1 for {most})"),
        None => name.to_owned(),
    };
    RECORD.replace("{payload}", &column("j.payload")).replace("{result}", &column("f.result"))
}

const LEASED: &str = "
    leased as materialized (
        select i.id, c.attempt, c.claimed_at, c.worker from windlass.claims c cross join unnest(c.ids) i (id))";

const ATTEMPTS: &str = "
    select attempt, token, worker, coalesce(started_at, ended_at) as started_at, ended_at, outcome, error
    from windlass.attempt_history where id = $1 order by token";

const LOGS: &str = "select attempt, at, line from windlass.logs where job_id = $1 order by seq";

/// Scans the index of dead letters from its newest end. The limit inside the lateral query forces an index lookup per
/// row, whatever the planner estimates for the whole table.
const DEAD_LETTERS: &str = "
    select j.queue, count(*) filter (where d.state = {failed}) as failed, count(*) filter (where d.state = {dead_letter}) as dead_letter
    from (select id, state from windlass.finished where state in ({failed}, {dead_letter}) order by id desc limit $1) d
    cross join lateral (select queue from windlass.jobs where id = d.id limit 1) j
    group by j.queue order by j.queue";

const OP: &str = "read jobs";

/// The ids that match a filter. $1 offset, $2 ids, $3 queue, $4 kind, $5 type, $6 id, $7 tag, $8 before, $9 limit.
pub(crate) fn picked(filter: &JobFilter, page: bool) -> String {
    let mut joins = String::new();
    let mut wheres = vec!["true".to_owned()];
    let waiting = |s: &JobState| matches!(s, JobState::Scheduled | JobState::Pending);
    let states = &filter.states;
    // When all wanted states are in one table, an inner join lets the plan start there.
    let mut join = |table: &str, wanted: bool| {
        if wanted {
            let only = match table {
                "windlass.ready s_r" => states.iter().all(waiting),
                "windlass.finished s_f" => states.iter().all(|s| s.is_finished()),
                _ => states.iter().all(|s| *s == JobState::Running),
            };
            let alias = table.split(' ').next_back().unwrap_or(table);
            let kind = if only { "join" } else { "left join" };
            joins.push_str(&format!(" {kind} {table} on {alias}.id = j.id"));
        }
    };
    join("windlass.ready s_r", states.iter().any(waiting));
    join("leased s_c", states.contains(&JobState::Running));
    join("windlass.finished s_f", states.iter().any(|s| s.is_finished()));
    if !states.is_empty() {
        wheres.push(format!("({})", state_conditions(states).join(" or ")));
    }
    let mut given = |there: bool, condition: &str| {
        if there {
            wheres.push(condition.to_owned());
        }
    };
    given(!filter.ids.is_empty(), "j.id = any ($2::bigint[])");
    given(filter.queue.is_some(), "j.queue = $3");
    given(filter.kind.is_some(), "j.kind = $4");
    given(filter.entity.is_some(), "j.entity_type = $5 and j.entity_id = $6");
    given(filter.tag.is_some(), "j.tags @> array[$7::text]");
    given(page, "($8::bigint is null or j.id < $8)");
    let tail = if page { " order by j.id desc limit $9" } else { "" };
    // Fixes the type of every parameter, whether its condition is present or not.
    format!(
        "with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
         given as (select $2::bigint[], $3::int, $4::int, $5::text, $6::text, $7::text, $8::bigint, $9::bigint),
         {LEASED},
         picked as materialized (
             select j.id from windlass.jobs j cross join n{joins} where {wheres}{tail})",
        wheres = wheres.join(" and ")
    )
}

/// Literals, so that the partial index on dead letters is used.
fn state_conditions(states: &[JobState]) -> Vec<String> {
    states
        .iter()
        .map(|state| match state {
            JobState::Scheduled => "s_r.run_at > n.now".to_owned(),
            JobState::Pending => "s_r.run_at <= n.now".to_owned(),
            JobState::Running => "s_c.id is not null".to_owned(),
            dead if dead.is_dead() => {
                format!("(s_f.state in ({{failed}}, {{dead_letter}}) and s_f.state = {})", dead.code())
            }
            ended => format!("s_f.state = {}", ended.code()),
        })
        .collect()
}

pub(crate) fn bind_filter<'q>(
    query: Query<'q, Postgres, PgArguments>,
    offset: i64,
    filter: &'q JobFilter,
    before: Option<JobId>,
    limit: i64,
) -> Query<'q, Postgres, PgArguments> {
    query
        .bind(offset)
        .bind(filter.ids.iter().map(|id| id.0).collect::<Vec<_>>())
        .bind(filter.queue.map(|q| q.0))
        .bind(filter.kind.map(|k| k.0))
        .bind(filter.entity.as_ref().map(|e| text_in(&e.entity_type)))
        .bind(filter.entity.as_ref().map(|e| text_in(&e.entity_id)))
        .bind(filter.tag.as_deref().map(text_in))
        .bind(before.map(|id| id.0))
        .bind(limit)
}

impl PostgresStore {
    async fn records(
        &self,
        conn: &mut PgConnection,
        filter: &JobFilter,
        page: &Page,
    ) -> Result<Vec<PgRow>, StoreError> {
        let sql = self.dynamic(&format!("{}{}", picked(filter, true), record_columns(page.excerpt)));
        bind_filter(sqlx::query(sql), self.offset(), filter, page.before, i64::from(page.limit))
            .fetch_all(conn)
            .await
            .map_err(failed(OP))
    }

    pub(crate) async fn do_list(
        &self,
        filter: &JobFilter,
        page: &Page,
    ) -> Result<Vec<JobRecord>, StoreError> {
        let mut conn = self.pool.session().await.map_err(failed(OP))?;
        let records = self.records(&mut conn, filter, page).await?;
        conn.commit().await.map_err(failed(OP))?;
        records.iter().map(record).collect()
    }

    /// A job as a transaction sees it, and whether its cancellation was requested.
    pub(crate) async fn job_on(
        &self,
        conn: &mut PgConnection,
        id: JobId,
    ) -> Result<Option<(JobRecord, bool)>, StoreError> {
        let filter = JobFilter { ids: vec![id], ..JobFilter::default() };
        let rows = self.records(conn, &filter, &Page { before: None, limit: 1, excerpt: None }).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some((record(row)?, get(row, "cancel_requested")?)))
    }

    pub(crate) async fn do_count(&self, filter: &JobFilter) -> Result<u64, StoreError> {
        let sql = self.dynamic(&format!("{} select count(*) from picked", picked(filter, false)));
        let row = bind_filter(sqlx::query(sql), self.offset(), filter, None, 0)
            .fetch_one(&self.pool)
            .await
            .map_err(failed("count jobs"))?;
        count(&row, "count")
    }

    pub(crate) async fn do_dead_letters(&self, cap: u64) -> Result<Vec<DeadCount>, StoreError> {
        let query = sqlx::query(self.sql(DEAD_LETTERS)).bind(big_in(cap));
        let rows = query.fetch_all(&self.pool).await.map_err(failed("count dead letters"))?;
        let counted = |row: &PgRow| {
            let (failed, dead_letter) = (count(row, "failed")?, count(row, "dead_letter")?);
            Ok(DeadCount { queue: QueueId(get(row, "queue")?), failed, dead_letter })
        };
        rows.iter().map(counted).collect()
    }

    /// Three statements on one snapshot, so that the parts are consistent.
    pub(crate) async fn do_job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError> {
        let mut tx = self
            .pool
            .begin_with("begin isolation level repeatable read read only")
            .await
            .map_err(failed(OP))?;
        let filter = JobFilter { ids: vec![id], ..JobFilter::default() };
        let rows = self.records(&mut tx, &filter, &Page { before: None, limit: 1, excerpt: None }).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let attempts =
            sqlx::query(self.sql(ATTEMPTS)).bind(id.0).fetch_all(&mut *tx).await.map_err(failed(OP))?;
        let logs = sqlx::query(self.sql(LOGS)).bind(id.0).fetch_all(&mut *tx).await.map_err(failed(OP))?;
        tx.commit().await.map_err(failed(OP))?;
        Ok(Some(JobDetail {
            job: record(row)?,
            attempts: attempts.iter().map(attempt).collect::<Result<_, _>>()?,
            logs: logs.iter().map(log_line).collect::<Result<_, _>>()?,
            cancel_requested: get(row, "cancel_requested")?,
        }))
    }
}

fn record(row: &PgRow) -> Result<JobRecord, StoreError> {
    let id: i64 = get(row, "id")?;
    let state = get::<Option<i16>>(row, "state")?.and_then(JobState::from_code).ok_or_else(|| {
        StoreError::Corrupt { what: format!("job {id} is neither waiting, running nor finished") }
    })?;
    let progress = match get::<Option<f32>>(row, "percent")? {
        Some(percent) => {
            Some(Progress { percent, message: get(row, "message")?, at: time(row, "progress_at")? })
        }
        None => None,
    };
    let entity = match (get(row, "entity_type")?, get(row, "entity_id")?) {
        (Some(entity_type), Some(entity_id)) => Some(EntityRef { entity_type, entity_id }),
        _ => None,
    };
    Ok(JobRecord {
        id: JobId(id),
        kind: get(row, "kind")?,
        queue: get(row, "queue")?,
        state,
        priority: priority(row, "priority")?,
        payload: get(row, "payload")?,
        payload_bytes: count(row, "payload_bytes")?,
        attempt: small(row, "attempt")?,
        max_attempts: small(row, "max_attempts")?,
        timeout: duration_or_none(row, "timeout_us")?,
        run_at: time_or_none(row, "run_at")?,
        created_at: time(row, "created_at")?,
        started_at: time_or_none(row, "started_at")?,
        finished_at: time_or_none(row, "finished_at")?,
        progress,
        result: get(row, "result")?,
        result_bytes: count(row, "result_bytes")?,
        last_error: get(row, "last_error")?,
        unique_key: get(row, "unique_key")?,
        unique_until: get::<Option<&str>>(row, "unique_until")?.and_then(UniqueUntil::from_name),
        concurrency_key: get(row, "concurrency_key")?,
        tags: get::<Option<Vec<String>>>(row, "tags")?.unwrap_or_default(),
        entity,
        worker: get::<Option<i64>>(row, "worker")?.map(WorkerId),
        workflow: get::<Option<i64>>(row, "parent_id")?.map(WorkflowId),
        suspicion: level(get(row, "suspicion")?),
    })
}

fn attempt(row: &PgRow) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        attempt: small(row, "attempt")?,
        token: Token(get(row, "token")?),
        worker: get::<Option<i64>>(row, "worker")?.map(WorkerId),
        started_at: time(row, "started_at")?,
        ended_at: time_or_none(row, "ended_at")?,
        outcome: get(row, "outcome")?,
        error: get(row, "error")?,
    })
}

fn log_line(row: &PgRow) -> Result<LogLine, StoreError> {
    Ok(LogLine { attempt: small(row, "attempt")?, at: time(row, "at")?, line: get(row, "line")? })
}
