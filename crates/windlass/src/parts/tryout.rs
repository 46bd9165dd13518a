//! Kinds for trying out an installation, in the queue DEFAULT: NOOP, SLEEP, FAIL, and on request ABORT.

use std::time::Duration;

use serde::Deserialize;
use windlass_core::{Backoff, KindSpec};
use windlass_engine::{Completion, JobError, handler};
use windlass_pack::{Pack, Registry};

use super::DEFAULT_QUEUE;

#[derive(Deserialize)]
struct Sleep {
    ms: u64,
}

#[derive(Deserialize)]
struct Fail {
    times: u16,
}

/// The try-out kinds; `abort` adds ABORT, which kills its process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tryout {
    pub abort: bool,
}

impl Pack for Tryout {
    fn name(&self) -> &'static str {
        "tryout"
    }

    fn register(&self, registry: &mut Registry) {
        let kind = |name: &str, description: &str| KindSpec {
            description: description.to_owned(),
            ..KindSpec::new(name, DEFAULT_QUEUE)
        };
        registry.kind(
            kind("NOOP", "does nothing"),
            handler(|_, _: serde::de::IgnoredAny| async { Ok(Completion::done()) }),
        );
        registry.kind(
            kind("SLEEP", "waits {\"ms\"} milliseconds"),
            handler(|_, sleep: Sleep| async move {
                tokio::time::sleep(Duration::from_millis(sleep.ms)).await;
                Ok(())
            }),
        );
        let quick = Backoff { base: Duration::from_millis(500), ..Backoff::default() };
        registry.kind(
            KindSpec { backoff: quick, ..kind("FAIL", "fails {\"times\"} attempts, then succeeds") },
            handler(|context, fail: Fail| async move {
                if context.attempt() <= fail.times {
                    return Err(JobError::retry(format!("failure {} of {}", context.attempt(), fail.times)));
                }
                Ok(())
            }),
        );
        if self.abort {
            registry.kind(
                kind("ABORT", "kills its process"),
                handler(|_, _: serde::de::IgnoredAny| async {
                    std::process::abort() as Result<(), JobError>
                }),
            );
        }
    }
}
