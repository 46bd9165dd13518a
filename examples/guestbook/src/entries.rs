//! The table of entries and every statement on it.
//!
//! Each statement runs on SQLite and Postgres: parameters are `$1`, tables are `windlass.guestbook_…`.

use windlass::pack::cleanup::CleanupRun;
use windlass::pack::{Host, PackStep, PackTx, SqlRow, SqlText};
use windlass::{BackupColumn, ColumnKind, EntityError, StoreError, Table, Time};

use crate::search;

/// The first migration of this pack. A later change is another step; a released step is never edited.
pub(crate) const STEP: PackStep = PackStep {
    version: 1,
    name: "entries",
    up: SqlText::Same(
        "create table windlass.guestbook_entries (
             id         bigint not null primary key,
             name       text not null,
             message    text not null,
             signed_at  timestamptz not null,
             thanked_at timestamptz
         );
         create index windlass.guestbook_entries_unthanked on windlass.guestbook_entries (signed_at)
             where thanked_at is null",
    ),
    down: SqlText::Same("drop table windlass.guestbook_entries"),
};

const fn column(name: &'static str, kind: ColumnKind) -> BackupColumn {
    BackupColumn { name, kind, serial: false }
}

/// The columns in a backup.
pub(crate) const TABLE: Table = Table {
    name: "guestbook_entries",
    columns: &[
        column("id", ColumnKind::Int),
        column("name", ColumnKind::Text),
        column("message", ColumnKind::Text),
        column("signed_at", ColumnKind::Time),
        column("thanked_at", ColumnKind::Time),
    ],
};

pub(crate) struct Entry {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) signed_at: Time,
    pub(crate) thanked_at: Option<Time>,
}

impl Entry {
    fn read(row: &SqlRow) -> Result<Entry, StoreError> {
        Ok(Entry {
            id: row.get("id")?,
            name: row.get("name")?,
            message: row.get("message")?,
            signed_at: row.get("signed_at")?,
            thanked_at: row.get("thanked_at")?,
        })
    }
}

pub(crate) async fn insert(tx: &mut PackTx, entry: &Entry) -> Result<(), StoreError> {
    let text =
        "insert into windlass.guestbook_entries (id, name, message, signed_at) values ($1, $2, $3, $4)";
    let Entry { id, name, message, signed_at, .. } = entry;
    tx.run(text, &[(*id).into(), name.as_str().into(), message.as_str().into(), (*signed_at).into()]).await?;
    Ok(())
}

/// Newest first, starting below the id `before`.
pub(crate) async fn list(
    host: &Host,
    name: Option<&str>,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let text = "select id, name, message, signed_at, thanked_at from windlass.guestbook_entries
                where id < $1 and (name = $2 or $3) order by id desc limit $4";
    let values = [
        before.unwrap_or(i64::MAX).into(),
        name.unwrap_or_default().into(),
        name.is_none().into(),
        limit.into(),
    ];
    host.rows(text, &values).await?.iter().map(Entry::read).collect()
}

pub(crate) async fn find(host: &Host, id: i64) -> Result<Option<Entry>, StoreError> {
    let text =
        "select id, name, message, signed_at, thanked_at from windlass.guestbook_entries where id = $1";
    host.rows(text, &[id.into()]).await?.first().map(Entry::read).transpose()
}

/// False when there is no such entry.
pub(crate) async fn thank(tx: &mut PackTx, id: i64, at: Time) -> Result<bool, StoreError> {
    let text = "update windlass.guestbook_entries set thanked_at = coalesce(thanked_at, $2) where id = $1";
    Ok(tx.run(text, &[id.into(), at.into()]).await? > 0)
}

/// Returns the removed entry; `None` when there is no such entry.
pub(crate) async fn delete(tx: &mut PackTx, id: i64) -> Result<Option<Entry>, StoreError> {
    let text = "delete from windlass.guestbook_entries where id = $1
                returning id, name, message, signed_at, thanked_at";
    tx.rows(text, &[id.into()]).await?.first().map(Entry::read).transpose()
}

pub(crate) async fn count(host: &Host) -> Result<i64, StoreError> {
    let rows = host.rows("select count(*) as n from windlass.guestbook_entries", &[]).await?;
    rows.first().map_or(Ok(0), |row| row.get("n"))
}

/// When the oldest entry without thanks was signed.
pub(crate) async fn oldest_unthanked(host: &Host) -> Result<Option<Time>, StoreError> {
    let text = "select min(signed_at) as oldest from windlass.guestbook_entries where thanked_at is null";
    host.rows(text, &[]).await?.first().map_or(Ok(None), |row| row.get("oldest"))
}

/// Removes in steps with a transaction each, because one transaction would hold SQLite's writer for too long.
pub(crate) async fn remove_old(host: &Host, run: &CleanupRun) -> Result<u64, EntityError> {
    let before = host.now().await?.minus(run.older_than);
    if run.dry_run {
        let text = "select count(*) as n from windlass.guestbook_entries where signed_at < $1";
        let rows = host.rows(text, &[before.into()]).await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.get("n"))?;
        return Ok(u64::try_from(count).unwrap_or_default());
    }
    let text = "select id from windlass.guestbook_entries where signed_at < $1 order by id limit 100";
    let mut removed = 0;
    loop {
        let mut tx = host.begin().await?;
        let old = tx.rows(text, &[before.into()]).await?;
        for row in &old {
            let id = row.get("id")?;
            delete(&mut tx, id).await?;
            search::remove(host, &mut tx, id).await?;
        }
        tx.commit().await?;
        removed += old.len() as u64;
        if old.is_empty() {
            return Ok(removed);
        }
    }
}
