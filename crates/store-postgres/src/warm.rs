//! Connections kept at hand: the one used last is used next.
//!
//! The driver's pool hands out whichever connection rested longest, so that every session prepares and plans every statement
//! anew, and it asks each that comes back whether it lives, which is a second round trip for every statement. A few
//! connections rest here instead. One whose work did not end well, or whose caller went away in the middle, goes back to
//! the driver, which knows what to do about it, and so does one that nobody needs. Nothing rests here while somebody waits
//! for a connection.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Error, PgConnection, PgPool, Postgres, Transaction};

/// A connection idle for longer than this is asked whether it still lives before it is used.
pub(crate) const TRUSTED_IDLE: Duration = Duration::from_secs(5);
/// One that came from the driver longer ago goes back when it is next given back: the driver ends those that are too old.
const RENEWED_AFTER: Duration = Duration::from_secs(600);
/// One that nobody needed for so long goes back.
const RESTS_FOR: Duration = Duration::from_secs(60);
/// Rest at most, and so many fewer than there are: transactions are asked of the driver.
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
struct Asks<'w>(&'w Warm);

impl Drop for Asks<'_> {
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

    pub(crate) async fn acquire(self: &Arc<Warm>) -> Result<InUse, Error> {
        while let Some(mut resting) = self.take_or_wait() {
            if resting.since.elapsed() < TRUSTED_IDLE || self.lives(&mut resting.connection).await {
                let Resting { connection, taken, .. } = resting;
                return Ok(InUse { connection, taken, home: self.clone() });
            }
            // Not to the driver, which would ask it again.
            drop(resting.connection.detach());
        }
        let _asks = Asks(self);
        let connection = self.driver.acquire().await?;
        Ok(InUse { connection, taken: Instant::now(), home: self.clone() })
    }

    /// One that was cut off without a word answers never.
    async fn lives(&self, connection: &mut PgConnection) -> bool {
        let patience = self.driver.options().get_acquire_timeout() / 2;
        matches!(tokio::time::timeout(patience, connection.ping()).await, Ok(Ok(())))
    }

    /// None: the caller is counted among those who wait. In one step, so that nobody lays a connection to rest in between.
    fn take_or_wait(&self) -> Option<Resting> {
        let mut state = self.lock();
        let resting = state.resting.pop();
        state.waiting += usize::from(resting.is_none());
        resting
    }

    /// Transactions are the driver's own: it gets a connection back if it has too few for those who ask.
    pub(crate) async fn begin_with(
        &self,
        begin: &'static str,
    ) -> Result<Transaction<'static, Postgres>, Error> {
        let lent = {
            let mut state = self.lock();
            state.waiting += 1;
            let most = self.driver.options().get_max_connections();
            let open = most.saturating_sub(self.driver.size()) as usize;
            if state.waiting > self.driver.num_idle() + open { state.resting.pop() } else { None }
        };
        let _asks = Asks(self);
        drop(lent);
        self.driver.begin_with(begin).await
    }

    pub(crate) fn driver(&self) -> &PgPool {
        &self.driver
    }

    fn rest(&self, connection: PoolConnection<Postgres>, taken: Instant) {
        let mut state = self.lock();
        let now = Instant::now();
        let wanted = state.waiting == 0 && state.resting.len() < self.most && taken.elapsed() < RENEWED_AFTER;
        if wanted && !self.driver.is_closed() {
            state.resting.push(Resting { connection, taken, since: now });
        }
        if state.resting.first().is_some_and(|longest| now.duration_since(longest.since) > RESTS_FOR) {
            state.resting.remove(0);
        }
    }

    /// The driver waits for all of its connections.
    pub(crate) async fn close(&self) {
        let closed = self.driver.close();
        self.lock().resting.clear();
        closed.await;
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
pub(crate) struct InUse {
    connection: PoolConnection<Postgres>,
    taken: Instant,
    home: Arc<Warm>,
}

impl InUse {
    /// Its work ended well. Dropped, it goes back to the driver.
    pub(crate) fn give_back(self) {
        let InUse { connection, taken, home } = self;
        home.rest(connection, taken);
    }
}

impl Deref for InUse {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for InUse {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use futures_util::future::join_all;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
    use tokio::io::copy_bidirectional;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;

    use super::*;
    use crate::plans::url;
    use crate::pool::Pool;

    async fn pool(size: u32) -> Pool {
        let options = PgPoolOptions::new().max_connections(size).acquire_timeout(Duration::from_secs(20));
        Pool::direct(options.connect(&url()).await.unwrap())
    }

    fn warm(pool: &Pool) -> &Warm {
        match pool {
            Pool::Direct(warm) => warm,
            Pool::Shared { .. } => panic!("made for a pooler"),
        }
    }

    async fn session(pool: &Pool, sql: &'static str) -> i32 {
        sqlx::query_scalar(sql).fetch_all(pool).await.unwrap()[0]
    }

    const WHICH: &str = "select pg_backend_pid()";

    /// So many sessions in use at one time, each then given back: which they were.
    async fn at_once(pool: &Pool, sessions: usize) -> Vec<i32> {
        let held = join_all((0..sessions).map(|_| pool.session())).await;
        let mut all = Vec::new();
        for session in held {
            let mut session = session.unwrap();
            all.push(sqlx::query_scalar(WHICH).fetch_one(&mut *session).await.unwrap());
            session.commit().await.unwrap();
        }
        all
    }

    /// Eight sessions are open; the driver alone would ask them in turn.
    #[tokio::test]
    async fn one_statement_after_another_has_the_same_session() {
        let pool = pool(8).await;
        let mut all = at_once(&pool, 8).await;
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
            while warm(&pool).lock().waiting == 0 {
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
        assert_eq!(warm(&pool).lock().resting.len(), 1);
        let mut transactions = Vec::new();
        for _ in 0..3 {
            transactions.push(pool.begin().await.unwrap());
        }
        assert_eq!(warm(&pool).lock().resting.len(), 0);
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

    /// Behind a firewall that forgot it a session neither answers nor ends.
    #[tokio::test]
    async fn one_that_rested_is_asked_and_not_waited_for_without_end() {
        let (silence, silent) = watch::channel(false);
        let port = relay(silent).await;
        let through = PgConnectOptions::from_str(&url()).unwrap().host("127.0.0.1").port(port);
        let through = through.ssl_mode(PgSslMode::Disable);
        let options = PgPoolOptions::new().max_connections(3).acquire_timeout(Duration::from_secs(2));
        let pool = Pool::direct(options.connect_with(through).await.unwrap());
        let first = session(&pool, WHICH).await;
        rewind(&pool, TRUSTED_IDLE);
        assert_eq!(session(&pool, WHICH).await, first, "asked, and it lives");
        rewind(&pool, TRUSTED_IDLE);
        silence.send_replace(true);
        let begun = Instant::now();
        assert_ne!(session(&pool, WHICH).await, first);
        assert!(begun.elapsed() < Duration::from_secs(2));
    }

    /// To the server and back. Connections that were there when it is told to be silent are kept and carry nothing more.
    async fn relay(silent: watch::Receiver<bool>) -> u16 {
        let server = PgConnectOptions::from_str(&url()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = TcpStream::connect((server.get_host(), server.get_port())).await.unwrap();
                let (old, mut silent) = (!*silent.borrow(), silent.clone());
                tokio::spawn(async move {
                    let silenced = async { silent.wait_for(|silent| old && *silent).await.is_ok() };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = silenced => std::future::pending().await,
                    }
                });
            }
        });
        port
    }

    #[tokio::test]
    async fn those_whom_nobody_needs_go_back() {
        let pool = pool(8).await;
        at_once(&pool, 4).await;
        assert_eq!(warm(&pool).lock().resting.len(), 4);
        rewind(&pool, RESTS_FOR + Duration::from_secs(1));
        for left in [3, 2, 1, 1] {
            session(&pool, WHICH).await;
            assert_eq!(warm(&pool).lock().resting.len(), left);
        }
        pool.close().await;
    }

    /// As if all had rested so much longer.
    fn rewind(pool: &Pool, by: Duration) {
        for resting in &mut warm(pool).lock().resting {
            resting.since -= by;
        }
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
