//! A stream whose writes time out if the client stops reading.
//!
//! The timer runs only while bytes are waiting and restarts whenever some are accepted. So a slow client is served to
//! the end, and an idle event stream may stay open.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Called once, before the error that ends the connection.
    give_up: fn(&S),
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, patience: Duration, give_up: fn(&S)) -> Patient<S> {
        Patient { stream, patience, give_up, waiting: None }
    }

    /// Passes the result of a write through, or fails if nothing was accepted for too long.
    fn watch<T>(&mut self, wrote: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.waiting = None;
            return wrote;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        (self.give_up)(&self.stream);
        let why = format!("the client read nothing of its response for {patience:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(wrote, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(shut, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Whether the other side accepted all bytes at once.
    async fn taken(stream: &mut Patient<tokio::io::DuplexStream>, bytes: &[u8]) -> bool {
        std::future::poll_fn(|cx| {
            Poll::Ready(matches!(Pin::new(&mut *stream).poll_write(cx, bytes), Poll::Ready(Ok(_))))
        })
        .await
    }

    #[tokio::test]
    async fn the_timer_runs_while_bytes_wait_and_restarts_when_some_are_accepted() {
        let (near, mut far) = duplex(4);
        let mut stream = Patient::new(near, Duration::from_secs(60), |_| panic!("it gave up"));
        let mut room = [0; 4];
        assert!(taken(&mut stream, b"full").await && stream.waiting.is_none());
        assert!(!taken(&mut stream, b"more").await);
        let first = stream.waiting.as_ref().unwrap().deadline();
        assert!(!taken(&mut stream, b"more").await);
        assert_eq!(stream.waiting.as_ref().unwrap().deadline(), first, "polling again does not extend it");
        far.read_exact(&mut room).await.unwrap();
        assert!(taken(&mut stream, b"more").await && stream.waiting.is_none());
        assert!(!taken(&mut stream, b"last").await);
        assert!(stream.waiting.as_ref().unwrap().deadline() > first, "accepted bytes restart it");
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let (near, _far) = duplex(4);
        let mut stream = Patient::new(near, Duration::from_millis(20), |_| {});
        let write = tokio::time::timeout(Duration::from_secs(10), stream.write_all(b"more than fits"));
        let error = write.await.expect("no timeout").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "the client read nothing of its response for 20ms");
    }
}
