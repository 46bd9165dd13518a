//! A worker for a verb that waits.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use windlass_engine::{Client, Handlers, Worker, WorkerHandle, WorkerOptions};
use windlass_pack::verb::{VerbError, Working};

/// The client of a verb and the handlers of this binary.
pub(crate) type Visited = (Client, Arc<Handlers>);

struct Here(WorkerHandle);

pub(super) async fn start((client, handlers): Visited) -> Result<Box<dyn Working>, VerbError> {
    let label = format!("verb:{}", std::process::id());
    let options = WorkerOptions { label, ..WorkerOptions::default() };
    let started = Worker::start(client, &handlers, options).await;
    let handle = started.map_err(|error| VerbError::new("cannot work off what waits", error))?;
    Ok(Box::new(Here(handle)))
}

impl Working for Here {
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), VerbError>> {
        Box::pin(async move {
            let ended = self.0.shutdown().await;
            ended.map_err(|error| VerbError::new("could not stop cleanly", error))
        })
    }
}
