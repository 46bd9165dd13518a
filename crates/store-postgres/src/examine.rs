//! Findings about the database for `doctor`.
//!
//! Owns a few queries on the server's catalogs. Every finding that is not ok has a remedy. Never repairs anything.

use windlass_core::StoreError;
use windlass_core::store::Finding;

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, get};

const OLDEST_SUPPORTED: i32 = 140_000;
/// A snapshot held this long keeps every row deleted since, and claims have to skip them.
const LONG_SNAPSHOT_SECONDS: f64 = 300.0;
const MANY_DEAD_ROWS: i64 = 200_000;

const SERVER: &str = "
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
           current_setting('autovacuum')::bool and current_setting('track_counts')::bool as autovacuum,
           coalesce((select max(extract(epoch from clock_timestamp() - xact_start))::float8 from pg_stat_activity
                     where backend_xmin is not null and pid <> pg_backend_pid()), 0) as snapshot_seconds";

const TABLES: &str = "
    select coalesce((select sum(n_dead_tup) from pg_stat_user_tables
                     where relid in (to_regclass('windlass.ready'), to_regclass('windlass.claims'),
                                     to_regclass('windlass.lane_slots'), to_regclass('windlass.lane_checks'))), 0)::bigint as dead_rows,
           not exists (select from windlass.jobs_default)
               and not exists (select from windlass.finished_default) as default_empty";

/// Slots without a job, jobs without a slot, slots above the limit, and blocked jobs that no check will find. No cause
/// is known.
const INCONSISTENT: &str = "
    with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    holders as materialized (
        select lane, slot, count(*) as jobs
        from (select lane, slot from windlass.ready where queue > 0 and lane is not null
              union all
              select j.lane, i.slot from windlass.claims c cross join unnest(c.ids, c.slots) i (id, slot)
              join windlass.jobs j on j.id = i.id where j.lane is not null) h
        group by lane, slot),
    blocked as materialized (
        select r.id, r.priority from clock cross join windlass.ready r join windlass.kinds k on k.id = r.kind
        where r.queue < 0
          and not exists (select from windlass.lane_checks c
                          where c.kind = r.kind and c.lane = r.lane
                            and c.at <= greatest(r.run_at, clock.now + interval '1 second'))
          and (r.run_at > clock.now
               or (select count(*) from windlass.lane_slots s where s.lane = r.lane) < k.key_concurrency))
    select (select count(*) from windlass.lane_slots s
            where not exists (select from holders h where h.lane = s.lane and h.slot = s.slot)) as slots,
           (select coalesce(sum(h.jobs - case when s.slot is null then 0 else 1 end), 0)::bigint
            from holders h left join windlass.lane_slots s on s.lane = h.lane and s.slot = h.slot) as holders,
           (select count(*) from blocked) as blocked,
           (select id || ' --priority ' || priority from blocked order by id limit 1) as one";

impl PostgresStore {
    pub(crate) async fn do_examine(&self) -> Result<Vec<Finding>, StoreError> {
        let row = sqlx::query(SERVER).fetch_one(&self.pool).await.map_err(failed("examine the server"))?;
        let number: i32 = get(&row, "number")?;
        let version: String = get(&row, "version")?;
        let autovacuum: bool = get(&row, "autovacuum")?;
        let seconds: f64 = get(&row, "snapshot_seconds")?;
        let mut findings = vec![
            finding(
                "server",
                number >= OLDEST_SUPPORTED,
                format!("Postgres {version}"),
                "use Postgres 14 or newer",
            ),
            finding(
                "autovacuum",
                autovacuum,
                if autovacuum {
                    "on".to_owned()
                } else {
                    "off: claimed rows are never cleaned up".to_owned()
                },
                "set autovacuum = on and track_counts = on, then reload the server",
            ),
            finding(
                "oldest snapshot",
                seconds < LONG_SNAPSHOT_SECONDS,
                format!("{seconds:.0} s"),
                "end the transaction with the oldest xact_start in pg_stat_activity; \
                 it keeps dead rows from being cleaned up",
            ),
        ];
        let schema = self.do_check_schema().await;
        findings.push(Finding {
            name: "schema".to_owned(),
            ok: schema.is_ok(),
            finding: match &schema {
                Ok(()) => format!("`{}` is up to date", self.schema),
                Err(error) => error.to_string(),
            },
            remedy: schema.is_err().then(|| "run `windlass migrate up`".to_owned()),
        });
        if schema.is_ok() {
            findings.extend(self.table_findings().await?);
            findings.push(self.workflow_finding().await?);
            findings.push(self.lanes_finding().await?);
        }
        findings.push(self.listen_finding());
        Ok(findings)
    }

    async fn table_findings(&self) -> Result<Vec<Finding>, StoreError> {
        let row = sqlx::query(self.sql(TABLES))
            .fetch_one(&self.pool)
            .await
            .map_err(failed("examine the tables"))?;
        let dead: i64 = get(&row, "dead_rows")?;
        let empty: bool = get(&row, "default_empty")?;
        Ok(vec![
            finding(
                "dead rows",
                dead < MANY_DEAD_ROWS,
                format!("{dead} in ready, claims and lanes"),
                "find and end a long transaction, then run `vacuum` on those tables",
            ),
            finding(
                "partitions",
                empty,
                if empty { "every job is in a day partition" } else { "the default partition holds jobs" }
                    .to_owned(),
                "keep `windlass cleanup` or a worker running so that day partitions are created ahead; \
                 the jobs there are safe and are removed row by row",
            ),
        ])
    }

    async fn workflow_finding(&self) -> Result<Finding, StoreError> {
        let inconsistent = self.inconsistent_workflows().await?.len();
        let text = match inconsistent {
            0 => "every waiting job has an unfinished parent".to_owned(),
            some => format!("{some} do not match the states of their jobs"),
        };
        let remedy = "keep a worker of the newest version running: it corrects them within a minute";
        Ok(finding("workflows", inconsistent == 0, text, remedy))
    }

    async fn lanes_finding(&self) -> Result<Finding, StoreError> {
        let query = sqlx::query(self.sql(INCONSISTENT)).bind(self.offset());
        let row = query.fetch_one(&self.pool).await.map_err(failed("examine the lanes"))?;
        let (slots, holders) = (count(&row, "slots")?, count(&row, "holders")?);
        let blocked = count(&row, "blocked")?;
        let ok = slots + holders + blocked == 0;
        let text = match ok {
            true => "every slot has its job, every blocked job will be checked".to_owned(),
            false => format!(
                "{slots} slots without a job, {holders} jobs without a slot, {blocked} jobs blocked for ever"
            ),
        };
        let one = get::<Option<String>>(&row, "one")?.unwrap_or("ID --priority P".to_owned());
        let remedy = format!(
            "for one job of each lane, run `windlass jobs set {one}` with its present priority: a claim then checks its \
             lane; then report the bug"
        );
        Ok(finding("lanes", ok, text, &remedy))
    }

    fn listen_finding(&self) -> Finding {
        match (self.waker.is_on(), self.waker.is_listening()) {
            (false, _) => finding("wake-ups", true, "turned off; polling alone".to_owned(), ""),
            (true, alive) => finding(
                "wake-ups",
                alive,
                if alive { "listening" } else { "not listening; polling until the connection is back" }
                    .to_owned(),
                "connect directly to the server or through a pooler in session mode: LISTEN needs a session",
            ),
        }
    }
}

fn finding(name: &str, ok: bool, finding: String, remedy: &str) -> Finding {
    Finding { name: name.to_owned(), ok, finding, remedy: (!ok).then(|| remedy.to_owned()) }
}
