//! What a user writes to run jobs: a handler per kind, its context, and how a run ends.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::input::MAX_PAYLOAD_BYTES;
use windlass_core::store::{Report, ReportBody, Settled};
use windlass_core::{
    Invalid, JobId, JobState, KindSpec, LeasedJob, Outcome, Settlement, StoreError, Token, TxRef, Verdict,
    outcome,
};

use crate::Client;
use crate::worker::{ReportSender, SettledInside};

/// Runs jobs of one kind. Most users pass an async function to [`handler`] or [`batch_handler`] instead.
pub trait Handler: Send + Sync + 'static {
    /// Jobs taken per call.
    fn batch_size(&self) -> usize {
        1
    }

    /// One answer per job, in order. A missing answer, a panic or a timeout fails the whole call; a failed call of
    /// several jobs is repeated in halves until the bad job is alone.
    fn run(&self, jobs: Vec<Assignment>) -> BoxFuture<'static, Vec<HandlerResult>>;
}

/// A leased job with its context.
#[derive(Clone)]
pub struct Assignment {
    pub context: Context,
}

pub type HandlerResult = Result<Completion, JobError>;

/// The job is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    result: Option<Vec<u8>>,
}

impl Completion {
    pub fn done() -> Completion {
        Completion::default()
    }

    /// Done, with a result for `jobs show` and for a waiting caller.
    pub fn with(result: &impl Serialize) -> HandlerResult {
        Ok(Completion { result: Some(serde_json::to_vec(result)?) })
    }

    fn kept(self) -> Option<Vec<u8>> {
        self.result.filter(|result| fits(result))
    }
}

impl From<()> for Completion {
    fn from((): ()) -> Self {
        Completion::done()
    }
}

/// The job is not done. Any `std::error::Error` turns into a retry through `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// Burns an attempt; waits for the kind's backoff unless `after` is given.
    Retry { after: Option<Duration>, error: String },
    /// Burns no attempt: for a rate limit, a spent budget, a server that is down. `jobs show` shows `why`.
    Snooze { delay: Duration, why: Option<String> },
    /// Not retried.
    Fail(String),
}

impl JobError {
    pub fn retry(error: impl ToString) -> JobError {
        JobError::Retry { after: None, error: error.to_string() }
    }

    pub fn retry_after(after: Duration, error: impl ToString) -> JobError {
        JobError::Retry { after: Some(after), error: error.to_string() }
    }

    pub fn snooze(delay: Duration) -> JobError {
        JobError::Snooze { delay, why: None }
    }

    pub fn snooze_because(delay: Duration, why: impl ToString) -> JobError {
        JobError::Snooze { delay, why: Some(why.to_string()) }
    }

    pub fn fail(error: impl ToString) -> JobError {
        JobError::Fail(error.to_string())
    }
}

impl<E: std::error::Error> From<E> for JobError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        JobError::Retry { after: None, error: text }
    }
}

pub(crate) fn outcome_of(result: HandlerResult) -> Outcome {
    match result {
        Ok(completion) => Outcome::Done { result: completion.kept() },
        Err(JobError::Retry { after, error }) => Outcome::Retry { after, error },
        Err(JobError::Snooze { delay, why }) => Outcome::Snooze { delay, why },
        Err(JobError::Fail(error)) => Outcome::Fail { error },
    }
}

/// A result that is too large is dropped; the job is done all the same.
fn fits(result: &[u8]) -> bool {
    let fits = result.len() <= MAX_PAYLOAD_BYTES;
    if !fits {
        tracing::warn!(
            bytes = result.len(),
            "a result over 1 MiB is not kept; store it elsewhere and return where"
        );
    }
    fits
}

/// What a handler can read and do during a run.
#[derive(Clone)]
pub struct Context {
    pub(crate) job: Arc<LeasedJob>,
    pub(crate) env: RunEnv,
}

/// What all runs of one worker share.
#[derive(Clone)]
pub(crate) struct RunEnv {
    pub(crate) client: Client,
    pub(crate) reports: ReportSender,
    pub(crate) inside: SettledInside,
}

impl RunEnv {
    pub(crate) fn new(client: Client) -> RunEnv {
        RunEnv { client, reports: ReportSender::default(), inside: SettledInside::default() }
    }
}

impl Context {
    pub fn job_id(&self) -> JobId {
        self.job.id
    }

    /// Number of this run; the first is 1.
    pub fn attempt(&self) -> u16 {
        self.job.attempt
    }

    /// The fencing token of this lease; larger than that of any earlier run.
    pub fn token(&self) -> Token {
        self.job.token
    }

    pub fn max_attempts(&self) -> u16 {
        self.job.max_attempts
    }

    /// The same for every run of this job: pass it to other systems so that an effect happens once.
    pub fn idempotency_key(&self, step: &str) -> String {
        format!("{}:{step}", self.job.id)
    }

    pub fn payload(&self) -> &[u8] {
        &self.job.payload
    }

    /// For enqueueing further work.
    pub fn client(&self) -> &Client {
        &self.env.client
    }

    /// Shown by `jobs show`; written in the background, dropped if the lease was lost.
    pub fn progress(&self, percent: f32, message: Option<&str>) {
        let message = message.map(str::to_owned);
        let percent = if percent.is_nan() { 0.0 } else { percent.clamp(0.0, 100.0) };
        self.report(ReportBody::Progress { percent, message });
    }

    /// One line in the job's log.
    pub fn log(&self, line: impl Into<String>) {
        self.report(ReportBody::Log { line: line.into() });
    }

    fn report(&self, body: ReportBody) {
        self.env.reports.send(Report {
            id: self.job.id,
            token: self.job.token,
            attempt: self.job.attempt,
            body,
        });
    }

    /// How this run would be settled, for a handler that settles many runs together with their effects.
    pub fn settlement(&self, result: HandlerResult) -> Settlement {
        let catalog = self.env.client.catalog();
        let backoff = catalog.kind(self.job.kind).map(|kind| kind.spec.backoff).unwrap_or_default();
        let verdict = outcome::decide(&self.job, outcome_of(result), &backoff, fastrand::f64());
        settlement(&self.job, self.job.claimed_at, verdict)
    }

    /// Tells that the store has settled this run with its effect; what the handler returns is ignored.
    pub fn settled(&self) {
        self.env.inside.put(&self.job);
    }

    /// Completes this job inside the caller's transaction, so that its effect and its completion are one commit. False
    /// when the lease was lost: the caller must roll back.
    ///
    /// Call it last before the commit. Jobs claimed together share one lease row, which makes a claim of hundreds
    /// cheap. On Postgres that row stays locked until the transaction ends, and the settlements of the other jobs wait
    /// that long. (On SQLite all writes wait for an open transaction anyway.)
    pub async fn settle_in(&self, tx: TxRef<'_>) -> Result<bool, StoreError> {
        self.settle_in_with(tx, Completion::done()).await
    }

    /// The same with a result: `context.settle_in_with(tx, Completion::with(&result)?)`. What the handler returns after
    /// the commit is ignored.
    pub async fn settle_in_with(&self, tx: TxRef<'_>, completion: Completion) -> Result<bool, StoreError> {
        let verdict = Verdict::End { state: JobState::Completed, result: completion.kept(), error: None };
        let settlement = settlement(&self.job, self.job.claimed_at, verdict);
        let settled = self.env.client.store().settle_in(tx, &settlement).await?;
        if settled == Settled::Accepted {
            self.env.inside.put(&self.job);
        }
        Ok(settled == Settled::Accepted)
    }
}

pub(crate) fn settlement(job: &LeasedJob, started_at: windlass_core::Time, verdict: Verdict) -> Settlement {
    let LeasedJob { id, token, queue, attempt, workflow, lane, holds_key, .. } = *job;
    Settlement { id, token, queue, attempt, started_at, workflow, lane, holds_key, verdict }
}

pub(crate) fn decide(job: &LeasedJob, outcome: Outcome, spec: &KindSpec) -> Verdict {
    outcome::decide(job, outcome, &spec.backoff, fastrand::f64())
}

/// A handler from an async function of one decoded payload.
pub fn handler<P, F, R, T>(run: F) -> impl Handler
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(Context, P) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, JobError>> + Send + 'static,
    T: Into<Completion> + 'static,
{
    One { run, payload: std::marker::PhantomData::<fn() -> P> }
}

struct One<P, F> {
    run: F,
    payload: std::marker::PhantomData<fn() -> P>,
}

impl<P, F, R, T> Handler for One<P, F>
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(Context, P) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, JobError>> + Send + 'static,
    T: Into<Completion> + 'static,
{
    fn run(&self, mut jobs: Vec<Assignment>) -> BoxFuture<'static, Vec<HandlerResult>> {
        let Some(job) = jobs.pop() else { return Box::pin(async { Vec::new() }) };
        match decode::<P>(&job.context) {
            Ok(payload) => {
                let future = (self.run)(job.context, payload);
                Box::pin(async move { vec![future.await.map(Into::into)] })
            }
            Err(error) => Box::pin(async move { vec![Err(error)] }),
        }
    }
}

/// A handler that takes up to `size` payloads per call and answers for each.
pub fn batch_handler<P, F, R>(size: usize, run: F) -> impl Handler
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(Vec<(Context, P)>) -> R + Send + Sync + 'static,
    R: Future<Output = Vec<HandlerResult>> + Send + 'static,
{
    Many { size: size.max(1), run: Arc::new(run), payload: std::marker::PhantomData::<fn() -> P> }
}

struct Many<P, F> {
    size: usize,
    run: Arc<F>,
    payload: std::marker::PhantomData<fn() -> P>,
}

impl<P, F, R> Handler for Many<P, F>
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(Vec<(Context, P)>) -> R + Send + Sync + 'static,
    R: Future<Output = Vec<HandlerResult>> + Send + 'static,
{
    fn batch_size(&self) -> usize {
        self.size
    }

    fn run(&self, jobs: Vec<Assignment>) -> BoxFuture<'static, Vec<HandlerResult>> {
        let run = self.run.clone();
        Box::pin(async move {
            let mut answers: Vec<Option<HandlerResult>> = Vec::with_capacity(jobs.len());
            let mut decoded = Vec::with_capacity(jobs.len());
            for job in jobs {
                match decode::<P>(&job.context) {
                    Ok(payload) => {
                        decoded.push((job.context, payload));
                        answers.push(None);
                    }
                    Err(error) => answers.push(Some(Err(error))),
                }
            }
            let expected = decoded.len();
            let ran = if decoded.is_empty() { Vec::new() } else { run(decoded).await };
            if ran.len() != expected {
                return Vec::new();
            }
            let mut ran = ran.into_iter();
            answers.into_iter().filter_map(|answer| answer.or_else(|| ran.next())).collect()
        })
    }
}

/// A payload that cannot be decoded is retried: during a rolling deploy another worker may know its newer form.
fn decode<P: DeserializeOwned>(context: &Context) -> Result<P, JobError> {
    serde_json::from_slice(context.payload())
        .map_err(|error| JobError::retry(format!("the payload cannot be decoded: {error}")))
}

/// The kinds a process can run.
#[derive(Clone, Default)]
pub struct Handlers {
    pub(crate) by_kind: HashMap<String, (KindSpec, Arc<dyn Handler>)>,
    twice: Vec<String>,
}

impl Handlers {
    pub fn add(&mut self, spec: KindSpec, handler: impl Handler) -> &mut Self {
        let name = spec.name.clone();
        if self.by_kind.insert(name.clone(), (spec, Arc::new(handler))).is_some() {
            self.twice.push(name);
        }
        self
    }

    /// Adds the handlers of another part of the process.
    pub fn extend(&mut self, other: Handlers) {
        for (name, one) in other.by_kind {
            if self.by_kind.insert(name.clone(), one).is_some() {
                self.twice.push(name);
            }
        }
        self.twice.extend(other.twice);
    }

    pub fn specs(&self) -> Vec<KindSpec> {
        let mut specs: Vec<KindSpec> = self.by_kind.values().map(|(spec, _)| spec.clone()).collect();
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        specs
    }

    /// Fails when a kind has two handlers.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        for kind in &self.twice {
            invalid.add(format!("kinds.{kind}"), "has two handlers");
        }
        invalid.into_result()
    }
}
