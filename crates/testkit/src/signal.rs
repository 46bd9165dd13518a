//! Waiting for something another task or process does: a condition, a deadline, and a failure that says what was
//! seen last. Tests wait with this and never with a bare sleep.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// Between two looks: short against any deadline, long enough not to disturb what is watched.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a condition saw.
pub enum Seen<T> {
    /// It holds; this is what the waiter gets.
    Yes(T),
    /// Not yet; the text stands in the failure.
    NotYet(String),
}

impl<T> Seen<T> {
    /// Holds when `value` is what was wanted, else shows it.
    pub fn when(value: T, holds: impl FnOnce(&T) -> bool) -> Seen<T>
    where
        T: Debug,
    {
        if holds(&value) { Seen::Yes(value) } else { Seen::NotYet(format!("{value:?}")) }
    }
}

/// Looks until `condition` holds. Panics after `deadline` with `what` and the last thing seen.
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
        let mut looks = 0u32;
        loop {
            looks += 1;
            let last = match condition().await {
                Seen::Yes(value) => return value,
                Seen::NotYet(last) => last,
            };
            assert!(
                started.elapsed() < deadline,
                "waited {deadline:?} ({looks} looks) for {what}, last seen: {last} (asked at {asked_at})"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The same for a test without a runtime.
#[track_caller]
pub fn wait_until_blocking<T>(what: &str, deadline: Duration, mut condition: impl FnMut() -> Seen<T>) -> T {
    let started = Instant::now();
    let mut looks = 0u32;
    loop {
        looks += 1;
        let last = match condition() {
            Seen::Yes(value) => return value,
            Seen::NotYet(last) => last,
        };
        assert!(
            started.elapsed() < deadline,
            "waited {deadline:?} ({looks} looks) for {what}, last seen: {last}"
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_was_seen() {
        let mut n = 0;
        let got = wait_until_blocking("three", Duration::from_secs(5), || {
            n += 1;
            Seen::when(n, |n| *n == 3)
        });
        assert_eq!(got, 3);
    }

    #[test]
    #[should_panic(expected = "for a fish, last seen: 7")]
    fn the_failure_says_what_was_seen() {
        wait_until_blocking("a fish", Duration::from_millis(1), || Seen::when(7, |_| false));
    }

    #[tokio::test]
    #[should_panic(expected = "for a bird, last seen: 8")]
    async fn the_asynchronous_one_too() {
        wait_until("a bird", Duration::from_millis(1), || async { Seen::when(8, |_| false) }).await;
    }
}
