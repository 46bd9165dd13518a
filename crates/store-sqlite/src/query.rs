//! Showing and counting jobs.
//!
//! Owns: the translation of a filter into SQL. Starts from the smallest table that the filter allows (waiting rows,
//! dead letters, leases), so that listing ten dead letters does not scan a million completed jobs. Values are
//! always bound; only text from this file becomes part of a statement.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use windlass_core::store::{DeadCount, JobDetail, JobFilter, Page};
use windlass_core::{Attempt, JobId, JobRecord, JobState, LogLine, QueueId, Time, Token, WorkerId};

use crate::error::{Answer, Fault};
use crate::row::{RECORD_COLUMNS, content_columns, record};

/// A filter as SQL: `from {from} where {conditions}`.
pub(crate) struct Selection {
    from: &'static str,
    /// The id column of the table that is scanned first.
    pub(crate) id: &'static str,
    conditions: Vec<String>,
    values: Vec<Value>,
}

const FROM_JOBS: &str = "windlass_jobs j left join windlass_ready r on r.id = j.id
     left join windlass_finished f on f.id = j.id";
// `cross join` fixes SQLite's join order.
const FROM_READY: &str = "windlass_ready r cross join windlass_jobs j on j.id = r.id
     left join windlass_finished f on f.id = r.id";
const FROM_DEAD: &str = "windlass_finished f cross join windlass_jobs j on j.id = f.id
     left join windlass_ready r on r.id = f.id";

impl Selection {
    pub(crate) fn new(filter: &JobFilter, now: Time) -> Selection {
        let within = |few: &[JobState]| {
            !filter.states.is_empty() && filter.states.iter().all(|state| few.contains(state))
        };
        let by_key = filter.entity.is_some() || !filter.ids.is_empty();
        let (from, id) = if by_key {
            (FROM_JOBS, "j.id")
        } else if within(&[JobState::Scheduled, JobState::Pending]) {
            (FROM_READY, "r.id")
        } else if within(&[JobState::Failed, JobState::DeadLetter]) {
            (FROM_DEAD, "f.id")
        } else {
            (FROM_JOBS, "j.id")
        };
        let mut selection = Selection { from, id, conditions: Vec::new(), values: Vec::new() };
        selection.states(&filter.states, now);
        if within(&[JobState::Running]) && !by_key {
            selection.conditions.push("j.id in (select id from windlass_leases)".to_owned());
        }
        selection.columns(filter);
        selection
    }

    fn columns(&mut self, filter: &JobFilter) {
        if !filter.ids.is_empty() {
            let ids: Vec<i64> = filter.ids.iter().map(|id| id.0).collect();
            let list = serde_json::to_string(&ids).unwrap_or_else(|_| "[]".to_owned());
            self.bind("j.id in (select value from json_each(?))", list);
        }
        let waiting = self.id == "r.id";
        if let Some(queue) = filter.queue {
            let number = i64::from(queue.0);
            match waiting {
                // Blocked jobs have the negated queue number, jobs that wait for their workflow have 0.
                true => {
                    self.bind_two("r.queue in (?, ?, 0)", number, -number);
                    self.bind("j.queue = ?", number);
                }
                false => self.bind("j.queue = ?", number),
            }
        }
        if let Some(kind) = filter.kind {
            self.bind(if waiting { "r.kind = ?" } else { "j.kind = ?" }, i64::from(kind.0));
        }
        if let Some(entity) = &filter.entity {
            self.bind("j.entity_type = ?", entity.entity_type.clone());
            self.bind("j.entity_id = ?", entity.entity_id.clone());
        }
        if let Some(tag) = &filter.tag {
            self.bind("exists (select 1 from json_each(j.tags) t where t.value = ?)", tag.clone());
        }
    }

    fn states(&mut self, states: &[JobState], now: Time) {
        if states.is_empty() {
            return;
        }
        let mut any = Vec::new();
        let finished: Vec<String> =
            states.iter().filter(|state| state.is_finished()).map(|state| state.code().to_string()).collect();
        if !finished.is_empty() {
            any.push(format!("f.state in ({})", finished.join(", ")));
        }
        if states.contains(&JobState::Running) {
            any.push("(r.id is null and f.id is null)".to_owned());
        }
        for (state, comparison) in [(JobState::Scheduled, ">"), (JobState::Pending, "<=")] {
            if states.contains(&state) {
                any.push(format!("r.run_at {comparison} {}", now.0));
            }
        }
        self.conditions.push(format!("({})", any.join(" or ")));
        if self.id == "f.id" {
            // Repeats the partial index's own condition, which SQLite has to find literally.
            self.conditions.push("f.state in (4, 5)".to_owned());
        }
    }

    pub(crate) fn bind(&mut self, condition: &str, value: impl Into<Value>) {
        self.conditions.push(condition.to_owned());
        self.values.push(value.into());
    }

    fn bind_two(&mut self, condition: &str, one: impl Into<Value>, other: impl Into<Value>) {
        self.bind(condition, one);
        self.values.push(other.into());
    }

    fn clause(&self) -> String {
        if self.conditions.is_empty() {
            String::new()
        } else {
            format!(" where {}", self.conditions.join(" and "))
        }
    }

    pub(crate) fn count(&self, connection: &Connection) -> Answer<u64> {
        let sql = format!("select count(*) from {}{}", self.from, self.clause());
        let count: i64 =
            connection.prepare(&sql)?.query_row(params_from_iter(&self.values), |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// Ids in ascending order.
    pub(crate) fn ids(&self, connection: &Connection, limit: usize) -> Answer<Vec<JobId>> {
        let id = self.id;
        let sql = format!("select {id} from {}{} order by {id} limit {limit}", self.from, self.clause());
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(&self.values), |row| row.get(0).map(JobId))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Newest first.
    fn records(&self, connection: &Connection, page: &Page, now: Time) -> Answer<Vec<JobRecord>> {
        let (content, limit) = (content_columns(page.excerpt), page.limit);
        let sql = format!(
            "select {RECORD_COLUMNS}, {content} from {} join windlass_kinds k on k.id = j.kind
             join windlass_queues q on q.id = j.queue left join windlass_progress p on p.job_id = j.id{}
             order by {} desc limit {limit}",
            self.from,
            self.clause(),
            self.id
        );
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(&self.values), |row| record(row, now))?;
        let mut records: Vec<JobRecord> = rows.collect::<Result<_, _>>()?;
        add_leases(connection, &mut records)?;
        add_last_attempts(connection, &mut records)?;
        Ok(records)
    }
}

/// Adds the lease of running jobs.
fn add_leases(connection: &Connection, records: &mut [JobRecord]) -> Answer<()> {
    let running: Vec<i64> =
        records.iter().filter(|r| r.state == JobState::Running).map(|record| record.id.0).collect();
    if running.is_empty() {
        return Ok(());
    }
    let ids = serde_json::to_string(&running).map_err(|error| Fault::corrupt(error.to_string()))?;
    let mut statement = connection.prepare_cached(
        "select id, worker, attempt, claimed_at from windlass_leases where id in (select value from json_each(?1))",
    )?;
    let rows = statement.query_map([ids], |row| {
        Ok((row.get::<_, i64>(0)?, (WorkerId(row.get(1)?), row.get::<_, u16>(2)?, Time(row.get(3)?))))
    })?;
    let leases: HashMap<i64, (WorkerId, u16, Time)> = rows.collect::<Result<_, _>>()?;
    for record in records.iter_mut().filter(|record| record.state == JobState::Running) {
        let Some((worker, attempt, claimed_at)) = leases.get(&record.id.0) else {
            return Err(Fault::corrupt(format!(
                "job {} is neither waiting, running nor finished",
                record.id
            )));
        };
        record.worker = Some(*worker);
        record.attempt = *attempt;
        record.started_at = Some(*claimed_at);
    }
    Ok(())
}

/// A job between two runs shows the error and the worker of the last one.
fn add_last_attempts(connection: &Connection, records: &mut [JobRecord]) -> Answer<()> {
    let mut statement = connection.prepare_cached(
        "select error, worker from windlass_attempts where id = ?1 order by token desc limit 1",
    )?;
    for record in records.iter_mut().filter(|record| !record.state.is_finished()) {
        let mut rows = statement.query([record.id.0])?;
        if let Some(row) = rows.next()? {
            record.last_error = row.get(0)?;
            record.worker = record.worker.or(row.get::<_, Option<i64>>(1)?.map(WorkerId));
        }
    }
    Ok(())
}

pub(crate) fn list(
    connection: &Connection,
    filter: &JobFilter,
    page: &Page,
    now: Time,
) -> Answer<Vec<JobRecord>> {
    let mut selection = Selection::new(filter, now);
    if let Some(before) = page.before {
        let condition = format!("{} < ?", selection.id);
        selection.bind(&condition, before.0);
    }
    selection.records(connection, page, now)
}

pub(crate) fn job(connection: &Connection, id: JobId, now: Time) -> Answer<Option<JobDetail>> {
    let filter = JobFilter { ids: vec![id], ..JobFilter::default() };
    let page = Page { before: None, limit: 1, excerpt: None };
    let Some(job) = Selection::new(&filter, now).records(connection, &page, now)?.pop() else {
        return Ok(None);
    };
    let mut statement = connection.prepare_cached(
        "select attempt, token, worker, started_at, ended_at, outcome, error from windlass_attempt_history
         where id = ?1 order by token",
    )?;
    let attempts = statement.query_map([id.0], |row| {
        Ok(Attempt {
            attempt: row.get(0)?,
            token: Token(row.get(1)?),
            worker: row.get::<_, Option<i64>>(2)?.map(WorkerId),
            started_at: Time(row.get(3)?),
            ended_at: row.get::<_, Option<i64>>(4)?.map(Time),
            outcome: row.get(5)?,
            error: row.get(6)?,
        })
    })?;
    let attempts = attempts.collect::<Result<_, _>>()?;
    let mut statement = connection
        .prepare_cached("select attempt, at, line from windlass_logs where job_id = ?1 order by seq")?;
    let logs = statement.query_map([id.0], |row| {
        Ok(LogLine { attempt: row.get(0)?, at: Time(row.get(1)?), line: row.get(2)? })
    })?;
    let logs = logs.collect::<Result<_, _>>()?;
    let cancel_requested = connection
        .prepare_cached("select exists (select 1 from windlass_cancels where job_id = ?1)")?
        .query_row([id.0], |row| row.get(0))?;
    Ok(Some(JobDetail { job, attempts, logs, cancel_requested }))
}

/// Scans the index of dead letters from its newest end.
pub(crate) fn dead_letters(connection: &Connection, cap: u64) -> Answer<Vec<DeadCount>> {
    let mut statement = connection.prepare_cached(
        "select j.queue, sum(d.state = 4), sum(d.state = 5)
         from (select id, state from windlass_finished where state in (4, 5) order by id desc limit ?1) d
         cross join windlass_jobs j on j.id = d.id
         group by j.queue order by j.queue",
    )?;
    let rows = statement.query_map([i64::try_from(cap).unwrap_or(i64::MAX)], |row| {
        let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(DeadCount { queue: QueueId(row.get(0)?), failed: count(1)?, dead_letter: count(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
