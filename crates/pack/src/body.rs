//! Reads the body of a request: whole, or line by line.
//!
//! Owns what bodies of all connections may take of the memory. A whole body counts as its bytes arrive, so that a
//! client that only announces much takes nothing from others. A body of lines never is in memory as a whole.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_core::input::{Invalid, MAX_PAYLOAD_BYTES};

use crate::problem::Problem;
use crate::seat::Seat;

/// Whole bodies up to this size are not counted.
const SMALL: usize = 64 * 1024;
/// One permit of the semaphore.
const UNIT: usize = 1024;
/// Longest line: the largest entity and some white space.
const MAX_LINE: usize = MAX_PAYLOAD_BYTES + SMALL;
/// Bodies of lines that are read at once, a few megabytes each. Others wait for their turn.
const STREAMS: usize = 16;
const TURN: Duration = Duration::from_secs(300);

/// Bytes read and discarded of a body that is too large.
const MAX_DRAINED: usize = 32 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits for bodies of all connections.
#[derive(Clone)]
pub struct Bodies {
    /// How long one client may let us wait for its body, in total.
    timeout: Duration,
    bytes: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Bodies {
    /// `bytes`: what whole bodies may take together.
    pub fn new(timeout: Duration, bytes: usize) -> Bodies {
        let units = bytes.div_ceil(UNIT);
        let (bytes, streams) = (Arc::new(Semaphore::new(units)), Arc::new(Semaphore::new(STREAMS)));
        Bodies { timeout, bytes, streams }
    }

    /// The body and its share of the memory.
    pub(crate) async fn whole(
        &self,
        body: Body,
        limit: usize,
    ) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Problem> {
        let mut arriving = Arriving::new(body, limit, self.timeout);
        let (mut whole, mut share) = (Vec::new(), None::<OwnedSemaphorePermit>);
        while let Some(bytes) = arriving.next().await? {
            whole.extend_from_slice(&bytes);
            let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let missing = whole.len().saturating_sub(SMALL).div_ceil(UNIT).saturating_sub(held);
            if missing > 0 {
                let missing = u32::try_from(missing).unwrap_or(u32::MAX);
                let more = self.bytes.clone().try_acquire_many_owned(missing).map_err(|_| full())?;
                match &mut share {
                    Some(share) => share.merge(more),
                    None => share = Some(more),
                }
            }
        }
        Ok((whole, share))
    }

    pub(crate) fn lines(&self, body: Body, limit: usize, seat: Option<Arc<Seat>>) -> Lines {
        let arriving = Arriving::new(body, limit, self.timeout);
        Lines { arriving, streams: self.streams.clone(), turn: None, buffer: Vec::new(), ended: false, seat }
    }
}

/// The lines of a body, as they arrive.
pub struct Lines {
    arriving: Arriving,
    streams: Arc<Semaphore>,
    turn: Option<OwnedSemaphorePermit>,
    buffer: Vec<u8>,
    ended: bool,
    seat: Option<Arc<Seat>>,
}

/// A line without its end, or why it is refused.
pub type Line = Result<Vec<u8>, Invalid>;

impl Lines {
    /// `None` after the last. Until the next line is there, its connection waits and may be shed.
    pub async fn next(&mut self) -> Result<Option<Line>, Problem> {
        if let Some(seat) = &self.seat {
            seat.waits();
        }
        let line = self.line().await;
        if let Some(seat) = &self.seat {
            seat.is_served();
        }
        line
    }

    async fn line(&mut self) -> Result<Option<Line>, Problem> {
        if self.turn.is_none() {
            let turn = tokio::time::timeout(TURN, self.streams.clone().acquire_owned()).await;
            self.turn = Some(turn.ok().and_then(Result::ok).ok_or_else(full)?);
        }
        let (mut seen, mut skipped) = (0, 0);
        loop {
            if let Some(end) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(seen + end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Some(checked(line, skipped)));
            }
            seen = self.buffer.len();
            if seen > MAX_LINE {
                skipped += seen;
                seen = 0;
                self.buffer.clear();
            }
            match self.arriving.next().await? {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None if self.ended || (self.buffer.is_empty() && skipped == 0) => return Ok(None),
                None => {
                    self.ended = true;
                    return Ok(Some(checked(std::mem::take(&mut self.buffer), skipped)));
                }
            }
        }
    }

    /// Reads the rest for a client that sends everything before it looks at the answer.
    pub async fn skip_rest(mut self) {
        self.arriving.drain().await;
    }
}

fn checked(line: Vec<u8>, skipped: usize) -> Line {
    let length = skipped + line.len();
    match length > MAX_LINE {
        true => Err(Invalid::one("line", format!("is {length} bytes; at most {MAX_LINE} are allowed"))),
        false => Ok(line),
    }
}

/// A body within its limits of size and time. Only the time that the client takes counts.
struct Arriving {
    body: Body,
    limit: usize,
    left: usize,
    timeout: Duration,
    waited: Duration,
}

impl Arriving {
    fn new(body: Body, limit: usize, timeout: Duration) -> Arriving {
        Arriving { body, limit, left: limit, timeout, waited: Duration::ZERO }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let begun = Instant::now();
            let patience = self.timeout.saturating_sub(self.waited);
            let frame = tokio::time::timeout(patience, self.body.frame()).await;
            self.waited += begun.elapsed();
            let bytes = match frame {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) => return Err(incomplete(&error)),
                Err(_) => return Err(late(self.timeout)),
            };
            let Some(left) = self.left.checked_sub(bytes.len()) else {
                self.drain().await;
                return Err(Problem::too_large(self.limit));
            };
            self.left = left;
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    async fn drain(&mut self) {
        drain(&mut self.body).await;
    }
}

/// Many clients send the whole request before they read the response. An early response is a broken pipe to them, and
/// they never see the reason. Bounded in size and time.
pub(crate) async fn drain(body: &mut Body) {
    let pour = async {
        let mut left = MAX_DRAINED;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { break };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, pour).await;
}

fn incomplete(error: &axum::Error) -> Problem {
    let (title, detail) = ("The body could not be read", format!("it ended early: {error}"));
    Problem::new(StatusCode::BAD_REQUEST, "body_incomplete", title, detail)
}

fn late(timeout: Duration) -> Problem {
    let detail = format!("it must arrive within {} s", timeout.as_secs_f32());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", "The body took too long", detail)
}

fn full() -> Problem {
    let detail =
        "other clients are sending large bodies; nothing of this one was read to its end, so try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "bodies_full", "Too many bodies arrive", detail)
        .retry_after(Duration::from_secs(1))
}
