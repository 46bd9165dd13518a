//! A value that is read once for all callers within a period.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

pub(crate) struct Fresh<T> {
    lasts: Duration,
    kept: Mutex<Option<(Instant, T)>>,
}

impl<T: Clone> Fresh<T> {
    pub(crate) fn new(lasts: Duration) -> Fresh<T> {
        Fresh { lasts, kept: Mutex::new(None) }
    }

    /// Callers during a read wait for it; callers soon after get the same value. Errors are not cached.
    pub(crate) async fn get<E>(&self, read: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let mut kept = self.kept.lock().await;
        if let Some((read_at, value)) = &*kept
            && read_at.elapsed() < self.lasts
        {
            return Ok(value.clone());
        }
        let read_at = Instant::now();
        let value = read.await?;
        *kept = Some((read_at, value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn concurrent_callers_share_one_read() {
        let readings = AtomicU32::new(0);
        let read = || async {
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(readings.fetch_add(1, Ordering::Relaxed) + 1)
        };
        let fresh = Fresh::new(Duration::from_secs(600));
        let (one, two, three) = tokio::join!(fresh.get(read()), fresh.get(read()), fresh.get(read()));
        assert_eq!((one, two, three), (Ok(1), Ok(1), Ok(1)));
        let old = Fresh::new(Duration::ZERO);
        assert_eq!((old.get(read()).await, old.get(read()).await), (Ok(2), Ok(3)));
    }

    #[tokio::test]
    async fn an_error_is_not_cached() {
        let fresh = Fresh::new(Duration::from_secs(600));
        assert_eq!(fresh.get(async { Err::<u8, _>("down") }).await, Err("down"));
        assert_eq!(fresh.get(async { Ok::<_, &str>(7) }).await, Ok(7));
    }
}
