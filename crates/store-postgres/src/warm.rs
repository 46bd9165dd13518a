//! A small stack of idle connections: the one used last is used next.
//!
//! The driver's pool returns the connection that was idle longest, so every session would prepare and plan every
//! statement. It also pings each connection, which is a second round trip for every statement. A few connections are
//! kept idle here instead. A connection goes back to the driver if its work failed, its caller was dropped midway, or
//! it is not needed. No connection stays idle here while anyone waits for one.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Error, PgConnection, PgPool, Postgres, Transaction};

/// A connection idle for longer than this is pinged before it is used.
pub(crate) const TRUSTED_IDLE: Duration = Duration::from_secs(5);
/// A connection that left the driver longer ago is returned to it, because the driver closes those that are too old.
const MAX_AGE: Duration = Duration::from_secs(600);
/// A connection that was not needed for this long is returned to the driver.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// The most idle connections here. At least `LEFT_TO_DRIVER` of the pool stay with the driver, for transactions.
const MAX_IDLE_CONNECTIONS: u32 = 4;
const LEFT_TO_DRIVER: u32 = 2;

#[derive(Debug)]
pub(crate) struct Warm {
    driver: PgPool,
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last one was used last.
    idle: Vec<IdleConnection>,
    /// Callers that wait for the driver.
    waiting: usize,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PoolConnection<Postgres>,
    /// When it left the driver.
    taken: Instant,
    since: Instant,
}

/// Counts a caller that waits for the driver.
struct Waiting<'w>(&'w Warm);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Warm {
    pub(crate) fn new(driver: PgPool) -> Arc<Warm> {
        let most =
            driver.options().get_max_connections().saturating_sub(LEFT_TO_DRIVER).min(MAX_IDLE_CONNECTIONS);
        Arc::new(Warm { driver, most: most as usize, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn acquire(self: &Arc<Warm>) -> Result<InUse, Error> {
        while let Some(mut idle) = self.take_or_wait() {
            if idle.since.elapsed() < TRUSTED_IDLE || self.is_alive(&mut idle.connection).await {
                let IdleConnection { connection, taken, .. } = idle;
                return Ok(InUse { connection, taken, home: self.clone() });
            }
            // Not returned to the driver, which would ping it again.
            drop(idle.connection.detach());
        }
        let _waiting = Waiting(self);
        let connection = self.driver.acquire().await?;
        Ok(InUse { connection, taken: Instant::now(), home: self.clone() })
    }

    /// A connection that was cut off silently never answers.
    async fn is_alive(&self, connection: &mut PgConnection) -> bool {
        let patience = self.driver.options().get_acquire_timeout() / 2;
        matches!(tokio::time::timeout(patience, connection.ping()).await, Ok(Ok(())))
    }

    /// On `None` the caller counts as waiting. In one step, so that no connection is put aside in between.
    fn take_or_wait(&self) -> Option<IdleConnection> {
        let mut state = self.lock();
        let idle = state.idle.pop();
        state.waiting += usize::from(idle.is_none());
        idle
    }

    /// The driver runs transactions. It gets an idle connection from here if it has too few for the callers that wait.
    pub(crate) async fn begin_with(
        &self,
        begin: &'static str,
    ) -> Result<Transaction<'static, Postgres>, Error> {
        let lent = {
            let mut state = self.lock();
            state.waiting += 1;
            let most = self.driver.options().get_max_connections();
            let open = most.saturating_sub(self.driver.size()) as usize;
            if state.waiting > self.driver.num_idle() + open { state.idle.pop() } else { None }
        };
        let _waiting = Waiting(self);
        drop(lent);
        self.driver.begin_with(begin).await
    }

    pub(crate) fn driver(&self) -> &PgPool {
        &self.driver
    }

    fn put_aside(&self, connection: PoolConnection<Postgres>, taken: Instant) {
        let mut state = self.lock();
        let now = Instant::now();
        let wanted = state.waiting == 0 && state.idle.len() < self.most && taken.elapsed() < MAX_AGE;
        if wanted && !self.driver.is_closed() {
            state.idle.push(IdleConnection { connection, taken, since: now });
        }
        if state.idle.first().is_some_and(|longest| now.duration_since(longest.since) > MAX_IDLE) {
            state.idle.remove(0);
        }
    }

    /// The driver waits until it has all of its connections back.
    pub(crate) async fn close(&self) {
        let closed = self.driver.close();
        self.lock().idle.clear();
        closed.await;
    }
}

/// A dropped pool connection returns to the driver through a task, and the runtime may have ended.
impl Drop for Warm {
    fn drop(&mut self) {
        for IdleConnection { connection, .. } in self.lock().idle.drain(..) {
            connection.detach();
        }
    }
}

pub(crate) struct InUse {
    connection: PoolConnection<Postgres>,
    taken: Instant,
    home: Arc<Warm>,
}

impl InUse {
    /// Keeps a connection whose work succeeded. A dropped one goes back to the driver.
    pub(crate) fn keep(self) {
        let InUse { connection, taken, home } = self;
        home.put_aside(connection, taken);
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

    /// Uses this many sessions concurrently, returns them, and lists their ids.
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

    /// Eight sessions are open; the driver alone would use them in turn.
    #[tokio::test]
    async fn consecutive_statements_use_the_same_session() {
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

    /// The session is still running the statement of the dropped caller.
    #[tokio::test]
    async fn the_session_of_a_dropped_caller_is_not_reused() {
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
    async fn a_returned_connection_goes_to_a_waiting_caller() {
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

    /// The driver runs transactions, and one of three connections is kept idle here.
    #[tokio::test]
    async fn the_driver_gets_connections_back_for_transactions() {
        let pool = pool(3).await;
        session(&pool, WHICH).await;
        assert_eq!(warm(&pool).lock().idle.len(), 1);
        let mut transactions = Vec::new();
        for _ in 0..3 {
            transactions.push(pool.begin().await.unwrap());
        }
        assert_eq!(warm(&pool).lock().idle.len(), 0);
        drop(transactions);
        pool.close().await;
    }

    #[tokio::test]
    async fn a_dead_connection_is_not_reused() {
        let pool = pool(3).await;
        let died = session(&pool, WHICH).await;
        let other = PgPool::connect(&url()).await.unwrap();
        sqlx::query("select pg_terminate_backend($1, 5000)").bind(died).execute(&other).await.unwrap();
        let used = sqlx::query_scalar::<_, i32>(WHICH).fetch_one(&pool).await;
        assert!(used.is_err(), "it was idle only for a moment, so it was not pinged");
        assert_ne!(session(&pool, WHICH).await, died);
        other.close().await;
        pool.close().await;
    }

    /// A session that a firewall dropped neither answers nor ends.
    #[tokio::test]
    async fn a_ping_of_an_idle_connection_has_a_timeout() {
        let (silence, silent) = watch::channel(false);
        let port = relay(silent).await;
        let through = PgConnectOptions::from_str(&url()).unwrap().host("127.0.0.1").port(port);
        let through = through.ssl_mode(PgSslMode::Disable);
        let options = PgPoolOptions::new().max_connections(3).acquire_timeout(Duration::from_secs(2));
        let pool = Pool::direct(options.connect_with(through).await.unwrap());
        let first = session(&pool, WHICH).await;
        rewind(&pool, TRUSTED_IDLE);
        assert_eq!(session(&pool, WHICH).await, first, "pinged, and alive");
        rewind(&pool, TRUSTED_IDLE);
        silence.send_replace(true);
        let begun = Instant::now();
        assert_ne!(session(&pool, WHICH).await, first);
        assert!(begun.elapsed() < Duration::from_secs(2));
    }

    /// A relay to the server. Once silenced, connections that exist stay open but transfer nothing more.
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
    async fn unneeded_connections_return_to_the_driver() {
        let pool = pool(8).await;
        at_once(&pool, 4).await;
        assert_eq!(warm(&pool).lock().idle.len(), 4);
        rewind(&pool, MAX_IDLE + Duration::from_secs(1));
        for left in [3, 2, 1, 1] {
            session(&pool, WHICH).await;
            assert_eq!(warm(&pool).lock().idle.len(), left);
        }
        pool.close().await;
    }

    /// Makes all connections idle for longer.
    fn rewind(pool: &Pool, by: Duration) {
        for idle in &mut warm(pool).lock().idle {
            idle.since -= by;
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
