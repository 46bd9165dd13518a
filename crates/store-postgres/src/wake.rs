//! Wake-ups: within this process at once, to other processes through NOTIFY.
//!
//! Owns the local listeners, the coalescing sender and the listening connection. A wake-up is a hint that saves
//! waiting for the next poll; losing one costs only that wait. At commit NOTIFY takes a lock of the whole server, so a
//! process sends at most one every few milliseconds. An enqueue after a quiet time sends its own, which saves a
//! short-lived process a second commit. What is written soon after is sent together by the sender.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Postgres;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use windlass_core::store::{Wake, Wakers};
use windlass_core::{QueueId, Time};

use crate::hint::Hints;
use crate::pool::Pool;

const SEND_EVERY: Duration = Duration::from_millis(8);
/// The sender sends at least this often, so that a listener that hears nothing for longer knows that it is
/// disconnected.
const PING_EVERY: Duration = Duration::from_secs(15);
const DEAF_AFTER: Duration = Duration::from_secs(40);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// The server limits payloads to less than 8,000 bytes.
const MAX_PAYLOAD: usize = 7_000;

pub(crate) struct Waker {
    pub(crate) channel: String,
    pub(crate) wakers: Wakers,
    /// Distinguishes our own notifications from others'.
    instance: u64,
    notify: bool,
    pending: Mutex<Pending>,
    changed: Notify,
    listening: AtomicBool,
    hints: Arc<Hints>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Pending {
    /// The earliest `run_at` written per queue since the last NOTIFY.
    queues: BTreeMap<i32, i64>,
    any: bool,
    cancel: bool,
    /// When the last NOTIFY went out.
    sent_at: Option<Instant>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.queues.is_empty() && !self.any && !self.cancel
    }
}

impl Waker {
    pub(crate) fn start(
        pool: &Pool,
        connect: &PgConnectOptions,
        schema: &str,
        notify: bool,
        hints: Arc<Hints>,
    ) -> Arc<Waker> {
        let waker = Arc::new(Waker {
            channel: format!("{schema}_wake"),
            instance: RandomState::new().hash_one(schema) | 1,
            notify,
            wakers: Wakers::default(),
            pending: Mutex::new(Pending::default()),
            changed: Notify::new(),
            listening: AtomicBool::new(false),
            hints,
            tasks: Mutex::new(Vec::new()),
        });
        if notify {
            let send = tokio::spawn(send(waker.clone(), pool.clone()));
            let listen = tokio::spawn(listen(waker.clone(), connect.clone()));
            waker.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend([send, listen]);
        }
        waker
    }

    /// Sends the last pending wake-up before the process ends.
    pub(crate) async fn stop(&self, pool: &Pool) {
        if let Some(payload) = self.take() {
            notify(pool, &self.channel, &payload).await;
        }
        self.abandon();
    }

    /// Ends the tasks and the listening session without sending what is pending.
    pub(crate) fn abandon(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.notify
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// The payload that a write may NOTIFY in its own statement, if nothing was sent for a while. The write then calls
    /// [`Waker::here`] after its commit instead of [`Waker::jobs`].
    pub(crate) fn turn(&self, places: impl IntoIterator<Item = (QueueId, Time)>) -> Option<String> {
        if !self.notify {
            return None;
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = pending.sent_at.is_none_or(|sent_at| sent_at.elapsed() >= SEND_EVERY);
        if !quiet || !pending.is_empty() {
            return None;
        }
        pending.sent_at = Some(Instant::now());
        Some(payload(self.instance, &Pending { queues: earliest(places), ..Pending::default() }))
    }

    /// Called after a commit of ours that put jobs at these times.
    pub(crate) fn jobs(&self, places: impl IntoIterator<Item = (QueueId, Time)>) {
        let places: Vec<_> = places.into_iter().collect();
        self.here(Wake::Queue, places.iter().copied());
        self.others(places);
    }

    /// Wakes only this process.
    pub(crate) fn here(&self, wake: fn(QueueId) -> Wake, places: impl IntoIterator<Item = (QueueId, Time)>) {
        for (queue, run_at) in earliest(places) {
            self.hints.lower(QueueId(queue), Time(run_at));
            self.wakers.call(wake(QueueId(queue)));
        }
    }

    /// Wakes all other processes, soon.
    pub(crate) fn others(&self, places: impl IntoIterator<Item = (QueueId, Time)>) {
        self.tell(|pending| {
            for (queue, run_at) in earliest(places) {
                pending.queues.entry(queue).and_modify(|at| *at = run_at.min(*at)).or_insert(run_at);
            }
        });
    }

    /// Called after a commit of ours that may concern any queue.
    pub(crate) fn any(&self) {
        self.hints.forget();
        self.wakers.call(Wake::Any);
        self.tell(|pending| pending.any = true);
    }

    pub(crate) fn cancel(&self) {
        self.wakers.call(Wake::Cancel);
        self.tell(|pending| pending.cancel = true);
    }

    fn tell(&self, add: impl FnOnce(&mut Pending)) {
        if self.notify {
            add(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_one();
        }
    }

    fn take(&self) -> Option<String> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.is_empty() {
            return None;
        }
        let sent_at = Pending { sent_at: Some(Instant::now()), ..Pending::default() };
        Some(payload(self.instance, &std::mem::replace(&mut *pending, sent_at)))
    }

    fn heard(&self, text: &str) {
        let mut words = text.split(' ');
        if words.next().and_then(|w| w.parse::<u64>().ok()) == Some(self.instance) {
            return;
        }
        for word in words {
            match word.split_once(':') {
                Some((queue, run_at)) => {
                    let (Ok(queue), Ok(run_at)) = (queue.parse(), run_at.parse()) else { continue };
                    self.hints.lower(QueueId(queue), Time(run_at));
                    self.wakers.call(Wake::Queue(QueueId(queue)));
                }
                None if word == "cancel" => self.wakers.call(Wake::Cancel),
                None if word == "any" => {
                    self.hints.forget();
                    self.wakers.call(Wake::Any);
                }
                None => {}
            }
        }
    }
}

fn earliest(places: impl IntoIterator<Item = (QueueId, Time)>) -> BTreeMap<i32, i64> {
    let mut queues = BTreeMap::new();
    for (queue, run_at) in places {
        queues.entry(queue.0).and_modify(|at| *at = run_at.0.min(*at)).or_insert(run_at.0);
    }
    queues
}

fn payload(instance: u64, pending: &Pending) -> String {
    let mut text = instance.to_string();
    if pending.cancel {
        text.push_str(" cancel");
    }
    let mut queues = String::new();
    for (queue, run_at) in &pending.queues {
        queues.push_str(&format!(" {queue}:{run_at}"));
    }
    if pending.any || queues.len() > MAX_PAYLOAD { text + " any" } else { text + &queues }
}

async fn send(waker: Arc<Waker>, pool: Pool) {
    loop {
        let woken = timeout(PING_EVERY, waker.changed.notified()).await;
        let payload = match (waker.take(), woken) {
            (Some(payload), _) => payload,
            (None, Ok(())) => continue,
            (None, Err(_)) => format!("{} ping", waker.instance),
        };
        notify(&pool, &waker.channel, &payload).await;
        sleep(SEND_EVERY).await;
    }
}

async fn notify(pool: &Pool, channel: &str, payload: &str) {
    let query = sqlx::query::<Postgres>("select pg_notify($1, $2)").bind(channel).bind(payload);
    if let Err(error) = query.execute(pool).await {
        tracing::debug!(%error, "a wake-up was not sent; others find the work by polling");
    }
}

/// Listens for ever. The driver would reconnect only when asked for the next notification, so a lost connection is
/// noticed here. After each reconnect everyone is woken once for what was missed.
async fn listen(waker: Arc<Waker>, connect: PgConnectOptions) {
    let mut warned = false;
    loop {
        match open(&waker.channel, &connect).await {
            Ok(mut listener) => {
                warned = false;
                waker.listening.store(true, Ordering::Relaxed);
                waker.hints.forget();
                waker.wakers.call(Wake::Any);
                while let Ok(Ok(Some(note))) = timeout(DEAF_AFTER, listener.try_recv()).await {
                    waker.heard(note.payload());
                }
                waker.listening.store(false, Ordering::Relaxed);
                tracing::warn!("the listening connection was lost; polling until it is back");
                continue;
            }
            Err(error) if !warned => {
                warned = true;
                tracing::warn!(%error, "cannot listen for wake-ups; polling until it works");
            }
            Err(_) => {}
        }
        sleep(RECONNECT_AFTER).await;
    }
}

async fn open(channel: &str, connect: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let connect = connect.clone().application_name("windlass listen");
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(5))
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_with(connect)
        .await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_the_earliest_time_per_queue() {
        let places = [(QueueId(2), Time(9)), (QueueId(1), Time(5)), (QueueId(2), Time(7))];
        let pending = Pending { queues: earliest(places), cancel: true, ..Pending::default() };
        assert_eq!(payload(3, &pending), "3 cancel 1:5 2:7");
    }

    #[test]
    fn too_many_queues_become_a_wake_up_for_all() {
        let queues = (0..1_000).map(|q| (q, 1_700_000_000_000_000)).collect();
        assert_eq!(payload(3, &Pending { queues, ..Pending::default() }), "3 any");
    }
}
