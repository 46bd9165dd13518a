//! Connections kept at hand: the one used last is used next.
//!
//! The driver's pool hands out whichever connection rested longest, so that every session prepares and plans every statement
//! anew, and it asks each that comes back whether it lives, which is a second round trip for every statement. A few
//! connections rest here instead. One whose work did not end well, or whose caller went away in the middle, goes back to
//! the driver, which knows what to do about it. Never keeps a connection from somebody who waits for one.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Error, PgConnection, PgPool, Postgres};

/// A connection idle for longer than this is asked whether it still lives before it is used.
pub(crate) const TRUSTED_IDLE: Duration = Duration::from_secs(5);
/// Then it goes back to the driver, which ends those that are too old.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// At hand at most, and so many fewer than there are: some of what we do asks the driver itself.
const MOST: u32 = 4;
const LEFT_TO_THE_DRIVER: u32 = 2;

#[derive(Debug)]
pub(crate) struct Warm {
    driver: PgPool,
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last was used last.
    resting: Vec<Resting>,
    /// Who asked the driver and has no answer yet.
    waiting: usize,
}

#[derive(Debug)]
struct Resting {
    connection: PoolConnection<Postgres>,
    /// When it came from the driver.
    taken: Instant,
    since: Instant,
}

/// Somebody waits for the driver.
struct Waiting<'w>(&'w Warm);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Warm {
    pub(crate) fn new(driver: PgPool) -> Arc<Warm> {
        let most = driver.options().get_max_connections().saturating_sub(LEFT_TO_THE_DRIVER).min(MOST);
        Arc::new(Warm { driver, most: most as usize, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn acquire(self: &Arc<Warm>) -> Result<Kept, Error> {
        while let Some(mut resting) = self.take_or_wait() {
            if resting.since.elapsed() < TRUSTED_IDLE || resting.connection.ping().await.is_ok() {
                let Resting { connection, taken, .. } = resting;
                return Ok(Kept { connection, taken, home: self.clone() });
            }
        }
        let _waiting = Waiting(self);
        let connection = self.driver.acquire().await?;
        Ok(Kept { connection, taken: Instant::now(), home: self.clone() })
    }

    /// None: the caller is counted among those who wait. In one step, so that nobody lays a connection to rest in between.
    fn take_or_wait(&self) -> Option<Resting> {
        let mut state = self.lock();
        let resting = state.resting.pop();
        state.waiting += usize::from(resting.is_none());
        resting
    }

    /// For what the driver itself is asked for: it gets one back if it has none left.
    pub(crate) async fn lending<T>(&self, ask: impl Future<Output = T>) -> T {
        let lent = {
            let mut state = self.lock();
            state.waiting += 1;
            let out_of = self.driver.num_idle() == 0
                && self.driver.size() >= self.driver.options().get_max_connections();
            if out_of { state.resting.pop() } else { None }
        };
        let _waiting = Waiting(self);
        drop(lent);
        ask.await
    }

    fn rest(&self, connection: PoolConnection<Postgres>, taken: Instant) {
        let mut state = self.lock();
        let wanted = state.waiting == 0 && state.resting.len() < self.most && taken.elapsed() < KEPT_FOR;
        if wanted && !self.driver.is_closed() {
            state.resting.push(Resting { connection, taken, since: Instant::now() });
        }
    }

    /// The driver waits for all of its connections.
    pub(crate) async fn close(&self) {
        let closed = self.driver.close();
        self.lock().resting.clear();
        closed.await;
    }
}

#[cfg(test)]
impl Warm {
    pub(crate) fn resting(&self) -> usize {
        self.lock().resting.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting
    }
}

/// A pool's connection that is dropped goes back to the driver by a task, and there may be no runtime any more.
impl Drop for Warm {
    fn drop(&mut self) {
        for Resting { connection, .. } in self.lock().resting.drain(..) {
            connection.detach();
        }
    }
}

/// A connection in use.
pub(crate) struct Kept {
    connection: PoolConnection<Postgres>,
    taken: Instant,
    home: Arc<Warm>,
}

impl Kept {
    /// Its work ended well. Dropped, it goes back to the driver.
    pub(crate) fn keep(self) {
        let Kept { connection, taken, home } = self;
        home.rest(connection, taken);
    }
}

impl Deref for Kept {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use sqlx::postgres::PgPoolOptions;

    use super::*;
    use crate::plans::url;
    use crate::pool::Pool;

    async fn pool(size: u32) -> Pool {
        let options = PgPoolOptions::new().max_connections(size).acquire_timeout(Duration::from_secs(20));
        Pool::direct(options.connect(&url()).await.unwrap())
    }

    async fn session(pool: &Pool, sql: &'static str) -> i32 {
        sqlx::query_scalar(sql).fetch_all(pool).await.unwrap()[0]
    }

    const WHICH: &str = "select pg_backend_pid()";

    /// Eight sessions are open; the driver alone would ask them in turn.
    #[tokio::test]
    async fn one_statement_after_another_has_the_same_session() {
        let pool = pool(8).await;
        let slow = "select pg_backend_pid() from pg_sleep(0.1)";
        let mut all = join_all((0..8).map(|_| session(&pool, slow))).await;
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
        let first = session(&pool, WHICH).await;
        for _ in 0..9 {
            assert_eq!(session(&pool, WHICH).await, first);
            assert_eq!(sqlx::query_scalar::<_, i32>(WHICH).fetch_one(&pool).await.unwrap(), first);
        }
        pool.close().await;
    }

    /// Its session is still busy with what he asked for.
    #[tokio::test]
    async fn who_goes_away_in_the_middle_leaves_nothing_at_hand() {
        let pool = pool(8).await;
        let before = session(&pool, WHICH).await;
        let left =
            tokio::time::timeout(Duration::from_millis(50), session(&pool, "select 1 from pg_sleep(5)"));
        assert!(left.await.is_err());
        assert_ne!(session(&pool, WHICH).await, before);
        let refused = sqlx::query_scalar::<_, i32>("select 1 / 0").fetch_one(&pool).await;
        assert!(refused.is_err());
        assert_eq!(session(&pool, "select 7").await, 7);
    }

    #[tokio::test]
    async fn who_waits_gets_what_comes_back() {
        let pool = pool(3).await;
        let mut held = join_all((0..3).map(|_| pool.session())).await;
        let (came, ()) = tokio::join!(session(&pool, "select 7"), async {
            while pool.waiting() == 0 {
                tokio::task::yield_now().await;
            }
            held.remove(0).unwrap().commit().await.unwrap();
        });
        assert_eq!(came, 7);
        drop(held);
        pool.close().await;
    }

    /// Transactions are the driver's own, and one of three connections rests here.
    #[tokio::test]
    async fn the_driver_gets_back_what_it_needs() {
        let pool = pool(3).await;
        session(&pool, WHICH).await;
        assert_eq!(pool.resting(), 1);
        let mut transactions = Vec::new();
        for _ in 0..3 {
            transactions.push(pool.begin().await.unwrap());
        }
        assert_eq!(pool.resting(), 0);
        drop(transactions);
        pool.close().await;
    }

    #[tokio::test]
    async fn one_that_died_is_not_used_again() {
        let pool = pool(3).await;
        let died = session(&pool, WHICH).await;
        let other = PgPool::connect(&url()).await.unwrap();
        sqlx::query("select pg_terminate_backend($1, 5000)").bind(died).execute(&other).await.unwrap();
        let used = sqlx::query_scalar::<_, i32>(WHICH).fetch_one(&pool).await;
        assert!(used.is_err(), "it rested for a moment only, so nobody asked");
        assert_ne!(session(&pool, WHICH).await, died);
        other.close().await;
        pool.close().await;
    }

    #[test]
    fn it_may_be_dropped_without_a_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pool = runtime.block_on(async {
            let pool = pool(3).await;
            session(&pool, WHICH).await;
            pool
        });
        drop(runtime);
        drop(pool);
    }
}
