//! Turns: slots that got free, offered to who stands first in line.
//!
//! Owns the parts of settlements that offer and of claims that serve, and taking offers back. A turn stands among the
//! ready jobs in the order of claims; the job that is offered a slot stays where it is in line, because moving its row
//! costs as much as two claims of it. An offer knows the job by id and by the address of its row, and holds while that
//! job stands there in line, due and under the same priority: the same address may be its own again after a vacuum. The
//! claim that comes to one that does not hold gives the slot back with a look. Only lanes of one slot have offers, so
//! there is at most one to a job. Never locks who stands in line for longer than a statement, and never waits for them.

use sqlx::PgConnection;
use windlass_core::StoreError;

use crate::PostgresStore;
use crate::error::failed;

/// Who stands first in a lane and is due, as `r`. Who stands first is most often due. If he is not, the first of each
/// priority behind his is asked, so that delayed jobs cost nothing, however many they are.
macro_rules! first_due {
    ($lane:literal) => {
        concat!(
            "(select -r.queue as queue, r.priority, r.run_at, r.ctid as address, r.id, r.suspect
              from windlass.ready r
              where -r.queue > 0 and r.lane = ",
            $lane,
            " order by r.priority, r.run_at, r.id limit 1) first
             cross join lateral (
                 select first.* where first.run_at <= n.now
                 union all
                 select r.* from generate_series(first.priority + 1, 10) p (no) cross join lateral (
                     select -r.queue as queue, r.priority, r.run_at, r.ctid as address, r.id, r.suspect
                     from windlass.ready r
                     where -r.queue > 0 and r.lane = ",
            $lane,
            " and r.priority = p.no::smallint and r.run_at <= n.now
                     order by r.run_at, r.id limit 1) r
                 limit 1) r"
        )
    };
}
pub(crate) use first_due;

/// Jobs whose slot is offered: those of lanes that have one. Where a lane has several, or had, who was offered one could not
/// be told from who is next.
macro_rules! offers_slot {
    () => {
        "j.slot = 1 and (j.kind in (select id from windlass.kinds where key_concurrency = 1 and not key_lowered)) is true"
    };
}

/// Who is offered the slot of each job in `j`: who stands first in its lane. A suspect is nobody's offer, it is leased
/// alone, by a claim that looks for heads.
macro_rules! offer_first {
    () => {
        concat!(
            " offered as materialized (
              select j.ord, j.id as ended, j.lane, j.kind, r.queue, r.priority, r.address, r.id
              from j cross join n cross join lateral ",
            $crate::turn::first_due!("j.lane"),
            "
              where ",
            $crate::turn::offers_slot!(),
            " and r.suspect is null),"
        )
    };
}
pub(crate) use {offer_first, offers_slot};

/// The same, but who is known to stand behind a job of `j` is asked for only where that may have changed since: somebody got
/// in line, which a look says until it is followed, and `line_seq` from then on (see `line.rs`). Whoever is asked for is
/// told with those behind him, $15 in all: of his priority, and no suspect among them.
macro_rules! offer_known {
    () => {
        concat!(
            " quiet as materialized (
              select s.last_value as drawn, s.last_value = $13::bigint as same,
                     s.last_value = $13::bigint and not exists (
                         select from windlass.looks o
                         where o.kind = any (array(select distinct kind from j)) and o.at >= $14::timestamptz
                           and o.at <= n.now) as holds
              from windlass.line_seq s cross join n),
          offered as materialized (
              select j.ord, j.id as ended, j.lane, j.kind, j.next_queue as queue, j.next_priority as priority,
                     j.next_address as address, j.next_id as id, null::timestamptz as run_at
              from j
              where ",
            $crate::turn::offers_slot!(),
            " and j.next_id is not null and (select holds from quiet)
              union all
              select j.ord, j.id, j.lane, j.kind, r.queue, r.priority, r.address, r.id, r.run_at
              from j cross join n cross join lateral ",
            $crate::turn::first_due!("j.lane"),
            "
              where ",
            $crate::turn::offers_slot!(),
            " and (j.next_id is null or not (select holds from quiet)) and r.suspect is null),
          line as materialized (
              select o.ord, o.queue, o.priority, b.ids, b.addresses
              from offered o cross join n cross join lateral (
                  select array_agg(b.id) as ids, array_agg(b.address) as addresses,
                         bool_or(b.suspect is not null) as stops
                  from (select r.id, r.ctid as address, r.suspect from windlass.ready r
                        where -r.queue > 0 and r.lane = o.lane and r.priority = o.priority
                          and (r.run_at, r.id) >= (o.run_at, o.id) and r.run_at <= n.now
                        order by r.run_at, r.id limit $15) b) b
              where o.run_at is not null and $15::bigint > 1 and (select same from quiet)
                and not b.stops and cardinality(b.ids) > 1),"
        )
    };
}
pub(crate) use offer_known;

/// Hands over the slots of the jobs in `j`. The slot of a lane with one is offered, as `$offered` says. Of others heads are
/// moved, but not while a slot above a limit that was lowered is taken: whoever another session has locked is passed
/// over, and two that free slots of one lane take two heads. A slot moves only to a head that did: one whose row changed
/// under the lock is left in line. What nobody got is `unwanted`, given back with a look: who gets in line at this moment
/// is not seen here, and whoever follows their look may see the slot taken.
macro_rules! hand_over {
    ($offered:expr) => {
        concat!(
            $offered,
            " offers as (
              insert into windlass.turns (queue, priority, run_at, kind, lanes, ids, addresses)
              select o.queue, o.priority, (select now from n), o.kind,
                     array_agg(o.lane), array_agg(o.id), array_agg(o.address)
              from offered o group by o.ord / 32, o.queue, o.priority, o.kind),
          heads as materialized (
              select r.address, r.id, q.slots[r.nth] as slot, q.ids[r.nth] as ended
              from (select j.lane, array_agg(j.slot) as slots, array_agg(j.id) as ids
                    from j join windlass.kinds k on k.id = j.kind
                    where (j.kind in (select id from windlass.kinds where key_concurrency > 1 or key_lowered)) is true
                      and (select true from windlass.slots s
                           where s.lane = j.lane and s.slot > k.key_concurrency limit 1) is null
                    group by j.lane) q
              cross join n cross join lateral (
                  select r.*, (row_number() over ())::int as nth
                  from (select r.ctid as address, r.id from windlass.ready r
                        where -r.queue > 0 and r.lane = q.lane and r.run_at <= n.now
                        order by r.priority, r.run_at, r.id limit cardinality(q.ids) for update skip locked) r) r),
          moved as (
              update windlass.ready r set queue = -r.queue, run_at = greatest(r.run_at, n.now), slot = h.slot
              from n, heads h where r.ctid = h.address returning h.ended),
          unwanted as materialized (
              select s.ctid, j.kind, j.lane from j cross join lateral (
                  select s.ctid from windlass.slots s where s.lane = j.lane and s.slot = j.slot limit 1) s
              where (j.id in (select ended from offered union all select ended from moved)) is not true),
          freed as (delete from windlass.slots where ctid = any (array(select ctid from unwanted))),"
        )
    };
}
pub(crate) use hand_over;

/// What a claim chooses from when there are turns: their offers and the ready jobs together, of which `front` are as
/// many as are wanted. Of those it takes the ready jobs and the offers that hold, locked. One whose job another session
/// has locked is kept, and takes nobody's place: what the front could not give comes from `behind` it. One whose job is
/// seen to stand there no more is void. What is left of a turn is written anew: a turn's own row may lie anywhere, its
/// address is known.
///
/// One index range of turns per priority, as of ready jobs: those served before are dead rows below the hints. `behind`
/// is not even sorted when nothing is missing: a limit of none asks for nothing.
macro_rules! serve {
    ($from:literal, $unless:expr) => {
        concat!(
            " called as materialized (
                 select t.* from ",
            $from,
            " cross join unnest($6::timestamptz[]) with ordinality p (low, n)
                 cross join lateral (
                     select t.ctid as turn, t.priority, t.run_at, t.kind, t.lanes, t.ids, t.addresses
                     from windlass.turns t
                     where t.queue = $3 and t.priority = (p.n - 1)::smallint and t.run_at >= p.low
                       and t.run_at <= g.now and t.kind = any ($5::int[])
                     order by t.run_at limit $4::bigint / 8 + 8 for update skip locked) t
                 where not g.looks",
            $unless,
            " limit $4::bigint / 8 + 8),
             due as materialized (
                 select o.address, o.id, t.priority, t.run_at, t.turn, t.kind, o.lane
                 from called t cross join unnest(t.lanes, t.ids, t.addresses) o (lane, id, address)
                 union all
                 select r.ctid, r.id, r.priority, r.run_at, null, null, null
                 from ",
            $from,
            " cross join unnest($6::timestamptz[]) with ordinality p (low, n)
                 cross join lateral (
                     select r.ctid, r.id, r.priority, r.run_at from windlass.ready r
                     where r.queue = $3 and r.priority = (p.n - 1)::smallint and r.run_at >= p.low
                       and r.run_at <= g.now and r.suspect is null and r.kind = any ($5::int[])
                     order by r.run_at, r.id limit $4 for update skip locked) r
                 where not g.looks",
            $unless,
            "),
             front as materialized (select * from due order by priority, run_at, id limit $4),
             locked as materialized (
                 select r.ctid as address, r.id, r.priority from windlass.ready r
                 where r.ctid = any (array(select address from front where turn is not null))
                   and -r.queue > 0 and r.run_at <= (select now from g) and r.suspect is null
                 for update skip locked),
             met as materialized (
                 select f.*, f.turn is null
                             or ((f.address, f.id, f.priority) in (select address, id, priority from locked)) is true
                             as holds
                 from front f),
             missing as materialized (select count(*) as so_many from met where not holds),
             behind as materialized (
                 select d.*
                 from (select due.* from due
                       where (due.priority, due.run_at, due.id) >
                             (select f.priority, f.run_at, f.id from front f
                              order by f.priority desc, f.run_at desc, f.id desc limit 1)
                       order by due.priority, due.run_at, due.id) d
                 cross join g cross join lateral (
                     select from windlass.ready r
                     where r.ctid = d.address and r.id = d.id and r.priority = d.priority and r.run_at <= g.now
                       and r.suspect is null and (d.turn is null or -r.queue > 0)
                     for update skip locked) r
                 limit (select so_many from missing)),
             taken as materialized (
                 select address, id, priority, run_at, turn from met where holds
                 union all
                 select address, id, priority, run_at, turn from behind),
             passed as materialized (
                 select address, id, priority, turn, kind, lane from met where not holds
                 union all
                 select address, id, priority, turn, kind, lane from due
                 where (select so_many from missing) > 0 and turn is not null
                   and (id in (select id from front union all select id from behind)) is not true),
             void as materialized (
                 select p.turn, p.id, p.kind, p.lane from passed p cross join g
                 where (select true from windlass.ready r
                        where r.ctid = p.address and r.id = p.id and r.priority = p.priority and -r.queue > 0
                          and r.run_at <= g.now and r.suspect is null) is null),
             touched as materialized (
                 select turn, array_agg(id) as ids
                 from (select turn, id from taken where turn is not null union all select turn, id from void) o
                 group by turn),
             gone as (delete from windlass.turns where ctid = any (array(select turn from touched))),
             served as materialized (
                 select array(select (select max(t.run_at) from called t join touched k on k.turn = t.turn
                                      where t.priority = p.no)
                              from generate_series(0, 10) p (no)) as at),
             left_over as (
                 insert into windlass.turns (queue, priority, run_at, kind, lanes, ids, addresses)
                 select $3, t.priority, t.run_at, t.kind, array_agg(o.lane), array_agg(o.id), array_agg(o.address)
                 from touched k join called t on t.turn = k.turn and cardinality(t.ids) > cardinality(k.ids)
                 cross join unnest(t.lanes, t.ids, t.addresses) o (lane, id, address)
                 where o.id <> all (k.ids)
                 group by t.turn, t.priority, t.run_at, t.kind),
             freed as (
                 delete from windlass.slots where ctid = any (array(
                     select s.ctid from void cross join lateral (
                         select s.ctid from windlass.slots s where s.lane = void.lane and s.slot = 1 limit 1) s))),
             looked as (
                 insert into windlass.looks (kind, at, lane, freed)
                 select distinct void.kind, g.now, void.lane, true from void, g),"
        )
    };
}
pub(crate) use serve;

/// What a claim that served turns says of itself: whether there were any; whether somebody holds what stands before the
/// last that it took, so that hints must not be raised above that; whether to come again, because slots were given
/// back, or because it got somewhere and has room for more turns than it looked at.
macro_rules! saw {
    () => {
        "exists (select from called),
         exists (select from passed where (passed.id in (select id from void)) is not true)
             or exists (
                 select from unnest($6::timestamptz[]) with ordinality p (low, n) cross join lateral (
                     select t.run_at from windlass.turns t
                     where t.queue = $3 and t.priority = (p.n - 1)::smallint and t.run_at >= p.low
                       and t.run_at <= g.now and t.kind = any ($5::int[])
                       and (t.ctid in (select turn from called)) is not true
                     order by t.run_at limit 1) t
                 where (select count(*) from taken) < $4
                    or (p.n - 1, t.run_at) <= (select priority, run_at from taken
                                               order by priority desc, run_at desc limit 1)),
         exists (select from void)
             or ((select count(*) from called) >= $4::bigint / 8 + 8 and exists (select from touched)
                 and (select count(*) from taken) < $4)"
    };
}
pub(crate) use saw;

/// The look stands where the turn did, so that the lane keeps its place. A turn that a claim has locked is waited for;
/// what that claim leaves of it is not seen here, and found void when its turn comes.
const WITHDRAW: &str = "
    with called as materialized (
        select t.ctid as turn, t.queue, t.priority, t.run_at, t.kind, t.lanes, t.ids, t.addresses
        from windlass.turns t
        where t.kind = any ($1::int[]) and exists (
            select from unnest(t.lanes, t.ids) o (lane, id)
            where o.lane in (select unnest($2::bigint[])) or o.id in (select unnest($3::bigint[])))
        order by t.ctid for update),
    offers as materialized (
        select t.turn, t.queue, t.priority, t.run_at, t.kind, o.lane, o.id, o.address,
               o.lane in (select unnest($2::bigint[])) or o.id in (select unnest($3::bigint[])) as back
        from called t cross join unnest(t.lanes, t.ids, t.addresses) o (lane, id, address)),
    gone as (delete from windlass.turns where ctid = any (array(select turn from called))),
    left_over as (
        insert into windlass.turns (queue, priority, run_at, kind, lanes, ids, addresses)
        select queue, priority, run_at, kind, array_agg(lane), array_agg(id), array_agg(address)
        from offers where not back group by turn, queue, priority, run_at, kind),
    freed as (
        delete from windlass.slots where ctid = any (array(
            select s.ctid from offers o cross join lateral (
                select s.ctid from windlass.slots s where s.lane = o.lane and s.slot = 1 limit 1) s
            where o.back)))
    insert into windlass.looks (kind, at, lane, freed) select distinct kind, run_at, lane, true from offers where back";

impl PostgresStore {
    /// Takes back what is offered in these lanes or to these jobs, of these kinds. Walks over every turn: for what
    /// operators do.
    pub(crate) async fn withdraw(
        &self,
        conn: &mut PgConnection,
        kinds: Vec<i32>,
        lanes: Vec<i64>,
        ids: Vec<i64>,
    ) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(WITHDRAW)).bind(kinds).bind(lanes).bind(ids);
        query.execute(conn).await.map_err(failed("take back offers"))?;
        Ok(())
    }
}
