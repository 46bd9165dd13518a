use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

const PAYLOAD_BYTES: usize = 200;
const WARM_UP: usize = 20;

#[derive(Serialize, Deserialize)]
pub struct Payload {
    n: u64,
    pad: String,
}

pub fn payload(n: u64) -> Payload {
    let mut payload = Payload { n, pad: String::new() };
    let bare = payload_json(&payload).len();
    payload.pad = "x".repeat(PAYLOAD_BYTES - bare);
    payload
}

pub fn payload_json(payload: &Payload) -> Vec<u8> {
    serde_json::to_vec(payload).expect("a payload is plain JSON")
}

/// What the no-op handler tells the measurement: how often it ran and, for pickup, when.
#[derive(Clone)]
pub struct Probe {
    ran: Arc<AtomicU64>,
    arrived: Option<UnboundedSender<Instant>>,
}

impl Probe {
    pub fn counting() -> Self {
        Self { ran: Arc::default(), arrived: None }
    }

    pub fn timing() -> (Self, UnboundedReceiver<Instant>) {
        let (sender, receiver) = unbounded_channel();
        (Self { ran: Arc::default(), arrived: Some(sender) }, receiver)
    }

    pub fn hit(&self) {
        if let Some(arrived) = &self.arrived {
            // The receiver is gone only when the measurement is over.
            let _ = arrived.send(Instant::now());
        }
        self.ran.fetch_add(1, Ordering::Relaxed);
    }

    pub fn ran(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }

    pub async fn wait_for(&self, jobs: u64) {
        while self.ran() < jobs {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A worker that ends before the measurement does would leave it waiting for ever.
pub fn keep_running<F, E>(worker: F)
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: std::fmt::Debug,
{
    tokio::spawn(async move {
        let end = worker.await.err();
        eprintln!("the worker ended early: {end:?}");
        std::process::exit(1);
    });
}

pub fn per_second(jobs: u64, started: Instant) -> f64 {
    jobs as f64 / started.elapsed().as_secs_f64()
}

/// One job at a time, each only after the last one ran and the worker had time to go idle again.
pub async fn pickup<F, Fut>(
    samples: usize,
    mut arrivals: UnboundedReceiver<Instant>,
    mut submit: F,
) -> Result<serde_json::Value, Failure>
where
    F: FnMut(Payload) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let mut times = Vec::with_capacity(samples);
    for n in 0..samples + WARM_UP {
        tokio::time::sleep(Duration::from_millis(15 + (n as u64 * 7) % 10)).await;
        let payload = payload(n as u64);
        let started = Instant::now();
        submit(payload).await?;
        let arrived = arrivals.recv().await.ok_or("the worker ended")?;
        if n >= WARM_UP {
            times.push((arrived - started).as_secs_f64() * 1000.0);
        }
    }
    times.sort_by(f64::total_cmp);
    let quantile = |q: f64| times[((times.len() as f64 * q) as usize).min(times.len() - 1)];
    Ok(serde_json::json!({"pickup_p50_ms": quantile(0.5), "pickup_p95_ms": quantile(0.95)}))
}
