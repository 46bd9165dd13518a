//! The change feed, read by snapshot.
//!
//! Differs from SQLite, where with one writer the order of changes is the order of commits. Here a transaction may
//! commit after one that began later, and reading "everything after the last" would miss it. A follower remembers the
//! snapshot of its last read and asks for rows of transactions that this snapshot did not see: those that were still
//! running, and all that began since. Never holds a snapshot open between two reads.

use sqlx::postgres::PgRow;
use windlass_core::id::EntityNo;
use windlass_core::store::{ChangedEntity, Changes, FeedMark};
use windlass_core::{StoreError, TypeId};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, get, text_in};

/// One statement, so that the returned snapshot is the one that the rows were read in. The join returns it even when
/// there are no rows. The limit forces one lookup per row: a plan made while the tables are small would read all
/// vectors for each page, and stay cached.
macro_rules! feed {
    ($changed:literal) => {
        concat!(
            "with s as materialized (select pg_current_snapshot() as now), c as materialized (",
            $changed,
            ") select s.now::text as now, e.*
               from s left join (c cross join lateral (
                   select e.changed::text as changed, e.no, e.type, e.id, e.version, e.fields::text as fields, v.vector,
                          coalesce(v.hash = e.hash, false) as indexed
                   from windlass.entities e left join windlass.vectors v on v.entity = e.no and v.space = $1
                   where e.no = c.no limit 1) e) on true
               order by c.place, c.no"
        )
    };
}

/// A new follower has nothing that a tombstone could delete.
const LOAD: &str =
    feed!("select no, no as place from windlass.entities where no > $3 and state <> 4 order by no limit $2");

/// The few transactions that were running at the mark are looked up one by one. The rest begins after the mark,
/// however long one of them lasts. Each part has one lower bound: given two, Postgres may start its scan at the lower
/// one. Rows restored from another server may have transaction numbers that this server has not reached. They are not
/// shown as changes until they change again.
const CHANGED: &str = feed!(
    "select no, changed as place from (
         (select no, changed from windlass.entities
          where changed = any (array(select pg_snapshot_xip($3::text::pg_snapshot)))
            and (changed, no) > ($4::text::xid8, $5)
          order by changed, no limit $2)
         union all
         (select no, changed from windlass.entities
          where (changed, no) > (greatest($4::text::xid8, pg_snapshot_xmax($3::text::pg_snapshot)),
                                 case when $4::text::xid8 < pg_snapshot_xmax($3::text::pg_snapshot) then 0 else $5 end)
            and changed < (select pg_snapshot_xmax(now) from s)
          order by changed, no limit $2)) u
     order by changed, no limit $2"
);

const OP: &str = "read the change feed";

/// The position of a follower. `until` is the snapshot at the start of its current round. The next round shows what
/// that snapshot did not see.
enum Mark {
    /// `load/until/no`: reading every entity by number.
    Load { until: Option<String>, after: i64 },
    /// `feed/since`, or within a round of several pages `feed/since/until/changed/no`.
    Feed { since: String, until: Option<String>, changed: String, no: i64 },
}

impl Mark {
    fn read(mark: &FeedMark) -> Result<Mark, StoreError> {
        let parts: Vec<&str> = mark.0.split('/').collect();
        let number = |text: &str| text.parse().map_err(|_| unknown(mark));
        Ok(match parts.as_slice() {
            [""] => Mark::Load { until: None, after: 0 },
            ["load", until, after] => Mark::Load { until: Some((*until).to_owned()), after: number(after)? },
            ["feed", since] => Mark::begin(since),
            ["feed", since, until, changed, no] => Mark::Feed {
                since: (*since).to_owned(),
                until: Some((*until).to_owned()),
                changed: (*changed).to_owned(),
                no: number(no)?,
            },
            _ => return Err(unknown(mark)),
        })
    }

    fn begin(since: &str) -> Mark {
        Mark::Feed { since: since.to_owned(), until: None, changed: "0".to_owned(), no: 0 }
    }

    /// The position after a page read at `now`; `last` is the last row of a full page.
    fn next(self, now: String, last: Option<(String, i64)>) -> Mark {
        match (self, last) {
            (Mark::Load { until, .. } | Mark::Feed { until, .. }, None) => Mark::begin(&until.unwrap_or(now)),
            (Mark::Load { until, .. }, Some((_, after))) => Mark::Load { until: until.or(Some(now)), after },
            (Mark::Feed { since, until, .. }, Some((changed, no))) => {
                Mark::Feed { since, until: until.or(Some(now)), changed, no }
            }
        }
    }

    fn is_later_page(&self) -> bool {
        matches!(self, Mark::Load { until: Some(_), .. } | Mark::Feed { until: Some(_), .. })
    }

    fn text(&self) -> FeedMark {
        FeedMark(match self {
            Mark::Load { until, after } => format!("load/{}/{after}", until.as_deref().unwrap_or_default()),
            Mark::Feed { since, until: None, .. } => format!("feed/{since}"),
            Mark::Feed { since, until: Some(until), changed, no } => {
                format!("feed/{since}/{until}/{changed}/{no}")
            }
        })
    }
}

fn unknown(mark: &FeedMark) -> StoreError {
    StoreError::Corrupt { what: format!("a feed mark `{}`", mark.0) }
}

impl PostgresStore {
    pub(super) async fn read_feed(
        &self,
        after: &FeedMark,
        space: &str,
        limit: u32,
    ) -> Result<Changes, StoreError> {
        let (mark, space, limit) = (Mark::read(after)?, text_in(space), limit.max(1));
        let query = match &mark {
            Mark::Load { after, .. } => {
                sqlx::query(self.sql(LOAD)).bind(&space).bind(i64::from(limit)).bind(*after)
            }
            Mark::Feed { since, changed, no, .. } => sqlx::query(self.sql(CHANGED))
                .bind(&space)
                .bind(i64::from(limit))
                .bind(since)
                .bind(changed)
                .bind(*no),
        };
        let rows = query.fetch_all(&self.pool).await.map_err(failed(OP))?;
        let first = rows
            .first()
            .ok_or_else(|| StoreError::Corrupt { what: "the feed query returned no row".into() })?;
        let now: String = get(first, "now")?;
        let entities = rows.iter().filter_map(|row| changed(row).transpose());
        let entities = entities.collect::<Result<Vec<ChangedEntity>, StoreError>>()?;
        let full = entities.len() >= limit as usize;
        let last = match rows.last().filter(|_| full) {
            Some(row) => Some((get(row, "changed")?, get(row, "no")?)),
            None => None,
        };
        // A round of several pages ends with what existed when it began, so there may be more at once.
        let more = full || mark.is_later_page();
        let mark = mark.next(now, last).text();
        Ok(Changes { entities, mark, more })
    }
}

/// `None` for the row that only has the snapshot.
fn changed(row: &PgRow) -> Result<Option<ChangedEntity>, StoreError> {
    let Some(no) = get::<Option<i64>>(row, "no")? else { return Ok(None) };
    let fields: Option<String> = get(row, "fields")?;
    Ok(Some(ChangedEntity {
        no: EntityNo(no),
        entity_type: TypeId(get(row, "type")?),
        id: get(row, "id")?,
        version: count(row, "version")?,
        fields: fields.map(String::into_bytes),
        vector: get(row, "vector")?,
        indexed: get(row, "indexed")?,
    }))
}
