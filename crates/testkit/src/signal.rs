//! Waits for another task or process: a condition, a deadline, and a failure message with the last observation. Tests
//! use this instead of a bare sleep.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// Poll interval: short against any deadline, long enough not to disturb the observed process.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The result of checking a condition.
pub enum Seen<T> {
    /// The condition holds; the value is returned to the caller.
    Yes(T),
    /// Not yet; the text is shown if the wait fails.
    NotYet(String),
}

impl<T> Seen<T> {
    /// `Yes` if `holds` is true of the value, else `NotYet` with the value.
    pub fn when(value: T, holds: impl FnOnce(&T) -> bool) -> Seen<T>
    where
        T: Debug,
    {
        if holds(&value) { Seen::Yes(value) } else { Seen::NotYet(format!("{value:?}")) }
    }
}

/// Polls until `condition` holds. Panics after `deadline` with `what` and the last observation.
#[track_caller]
pub fn wait_until<T, C, F>(
    what: &str,
    deadline: Duration,
    mut condition: C,
) -> impl Future<Output = T> + use<T, C, F>
where
    C: FnMut() -> F,
    F: Future<Output = Seen<T>>,
{
    let (what, asked_at) = (what.to_owned(), std::panic::Location::caller());
    async move {
        let started = Instant::now();
        let mut polls = 0u32;
        loop {
            polls += 1;
            let last = match condition().await {
                Seen::Yes(value) => return value,
                Seen::NotYet(last) => last,
            };
            assert!(
                started.elapsed() < deadline,
                "waited {deadline:?} ({polls} polls) for {what}, last seen: {last} (asked at {asked_at})"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// The same without an async runtime.
#[track_caller]
pub fn wait_until_blocking<T>(what: &str, deadline: Duration, mut condition: impl FnMut() -> Seen<T>) -> T {
    let started = Instant::now();
    let mut polls = 0u32;
    loop {
        polls += 1;
        let last = match condition() {
            Seen::Yes(value) => return value,
            Seen::NotYet(last) => last,
        };
        assert!(
            started.elapsed() < deadline,
            "waited {deadline:?} ({polls} polls) for {what}, last seen: {last}"
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_observed_value() {
        let mut n = 0;
        let got = wait_until_blocking("three", Duration::from_secs(5), || {
            n += 1;
            Seen::when(n, |n| *n == 3)
        });
        assert_eq!(got, 3);
    }

    #[test]
    #[should_panic(expected = "for a fish, last seen: 7")]
    fn a_failure_shows_the_last_observation() {
        wait_until_blocking("a fish", Duration::from_millis(1), || Seen::when(7, |_| false));
    }

    #[tokio::test]
    #[should_panic(expected = "for a bird, last seen: 8")]
    async fn an_async_failure_shows_the_last_observation() {
        wait_until("a bird", Duration::from_millis(1), || async { Seen::when(8, |_| false) }).await;
    }
}
