//! The reference loop of `bench queue`: the least SQL that a fenced queue needs on this file system.
//!
//! Owns: a bare loop on its own tables, with one thread, one connection, the same durability (`synchronous=FULL`),
//! one lease token per batch and one row per finished job. It has no kinds, limits, attempts or recovery. Never
//! touches the store's tables.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;
use windlass_core::StoreError;
use windlass_core::store::BenchLimit;

use crate::error::from_sql;

const BULK: u64 = 5_000;
const BATCH: u64 = 500;
const PAYLOAD: [u8; 200] = [b'x'; 200];

const TABLES: &str = "
    pragma journal_mode = wal;
    pragma synchronous = full;
    pragma wal_autocheckpoint = 10000;
    create table jobs (id integer primary key, queue int, priority int, created_at int, payload blob);
    create table ready (queue int, priority int, run_at int, id int, attempt int default 0,
                        primary key (queue, priority, run_at, id)) without rowid;
    create table claims (token integer primary key, queue int, owner int, ids text);
    create table done (id integer primary key, state int, attempt int, finished_at int);";

/// Fills and drains a queue in the new file `path`.
pub fn measure(path: &Path, jobs: u64) -> Result<BenchLimit, StoreError> {
    run(path, jobs).map_err(|error| from_sql("measure the bare loop", error))
}

fn run(path: &Path, jobs: u64) -> rusqlite::Result<BenchLimit> {
    let connection = Connection::open(path)?;
    connection.execute_batch(TABLES)?;
    let begun = Instant::now();
    let mut next = 1;
    while next <= jobs {
        let last = (next + BULK - 1).min(jobs);
        insert(&connection, next, last)?;
        next = last + 1;
    }
    let enqueue_per_s = jobs as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    while drain_one(&connection)? > 0 {}
    Ok(BenchLimit { enqueue_per_s, drain_per_s: jobs as f64 / begun.elapsed().as_secs_f64() })
}

fn insert(connection: &Connection, first: u64, last: u64) -> rusqlite::Result<()> {
    let tx = connection.unchecked_transaction()?;
    for id in first..=last {
        let id = id as i64;
        tx.prepare_cached("insert into jobs values (?1, 1, 5, ?1, ?2)")?.execute((id, &PAYLOAD))?;
        tx.prepare_cached("insert into ready (queue, priority, run_at, id) values (1, 5, ?1, ?1)")?
            .execute([id])?;
    }
    tx.commit()
}

/// Claims and settles one batch in two commits. Returns its number of jobs.
fn drain_one(connection: &Connection) -> rusqlite::Result<usize> {
    let tx = connection.unchecked_transaction()?;
    let ids: Vec<i64> = tx
        .prepare_cached(
            "delete from ready where (queue, priority, run_at, id) in (select queue, priority, run_at, id
             from ready where queue = 1 and run_at <= ?1 order by priority, run_at, id limit ?2) returning id",
        )?
        .query_map((i64::MAX, BATCH as i64), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut payloads: Vec<Vec<u8>> = Vec::with_capacity(ids.len());
    for id in &ids {
        let payload =
            tx.prepare_cached("select payload from jobs where id = ?1")?.query_row([id], |row| row.get(0))?;
        payloads.push(payload);
    }
    tx.prepare_cached("insert into claims (queue, owner, ids) values (1, 1, ?1)")?
        .execute([format!("{ids:?}")])?;
    let token = tx.last_insert_rowid();
    tx.commit()?;
    let tx = connection.unchecked_transaction()?;
    let held = tx.prepare_cached("delete from claims where token = ?1")?.execute([token])?;
    if held == 1 {
        for id in &ids {
            tx.prepare_cached("insert into done values (?1, 2, 1, ?1)")?.execute([id])?;
        }
    }
    tx.commit()?;
    Ok(payloads.len())
}
