//! The memory that requests and responses of all connections may use together.
//!
//! A response stays in memory until its client has read it, and a body until its handler ends. Each is bounded, but a
//! thousand connections have a thousand of them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_pack::Problem;

/// Smaller ones are not counted.
const SMALL: usize = 64 * 1024;
/// One permit of the semaphore.
const UNIT: usize = 1024;

/// Bytes of responses that were not read yet.
#[derive(Clone)]
pub(crate) struct Answers {
    free: Arc<Semaphore>,
    most: usize,
}

/// A response's bytes and its share of the budget, released together.
struct Held {
    bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Answers {
    pub(crate) fn new(bytes: usize) -> Answers {
        let most = bytes.div_ceil(UNIT);
        Answers { free: Arc::new(Semaphore::new(most)), most }
    }

    /// The response with its share of the budget. Without one, a read is refused. A write has taken effect, so its
    /// response waits for a share instead.
    pub(crate) async fn admit(&self, response: Response, is_read: bool) -> Response {
        // A stream has no size and is produced as it is read.
        let Some(size) = response.body().size_hint().exact() else { return response };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size <= SMALL {
            return response;
        }
        let units = u32::try_from(size.div_ceil(UNIT).min(self.most)).unwrap_or(u32::MAX);
        let share = match is_read {
            true => self.free.clone().try_acquire_many_owned(units).ok(),
            false => self.free.clone().acquire_many_owned(units).await.ok(),
        };
        let Some(share) = share else { return full().into_response() };
        let (parts, body) = response.into_parts();
        match body.collect().await {
            // hyper drops the body before the client has its bytes, so the share belongs to the bytes.
            Ok(whole) => {
                let held = Held { bytes: whole.to_bytes(), _share: share };
                Response::from_parts(parts, Body::from(Bytes::from_owner(held)))
            }
            Err(error) => {
                Problem::internal("a response could not be collected", &error.to_string()).into_response()
            }
        }
    }
}

fn full() -> Problem {
    let detail = "other clients have not read their large responses yet; try again, or ask for less at once";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "answers_full", "Too many responses are unread", detail)
        .retry_after(Duration::from_secs(1))
}
