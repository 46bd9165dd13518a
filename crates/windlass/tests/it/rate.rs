//! A rate limit over three processes: together they keep to the rate, each gets a share, and an operator's change
//! reaches all of them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use windlass::{Job, KindSpec, Request, Windlass};
use windlass_core::rate::{SLACK, TOKEN_LIFE};
use windlass_core::store::{KindUpdate, Live};
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until};

use crate::child::{DATABASE, log_to_stderr};
use crate::count;
use crate::on_both;
use crate::world::World;

const STARTS: &str = "WINDLASS_CHILD_STARTS";
const NODES: usize = 3;
const RATE: u64 = 500;
const SECOND: u64 = 1_000_000;
/// Extra seconds in which to find a window that keeps to the rate.
const EXTRA_SECONDS: u64 = 20;

#[derive(Debug, Serialize, Deserialize)]
struct Paced {}

impl Job for Paced {
    const KIND: &'static str = "PACED";

    fn spec() -> KindSpec {
        let rate = Some(format!("{RATE}/s").parse().unwrap());
        KindSpec { rate, ..KindSpec::new(Self::KIND, Self::QUEUE) }
    }
}

fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// Each start of a job appends a line with its time to `starts`.
async fn windlass(url: &str, starts: &Path) -> Windlass {
    let file = Arc::new(Mutex::new(OpenOptions::new().create(true).append(true).open(starts).unwrap()));
    let run = move |_, _: Paced| {
        let line = format!("{}\n", micros());
        let written = file.lock().unwrap().write_all(line.as_bytes());
        async move { Ok(written?) }
    };
    Windlass::builder().database(url).job(run).build().await.unwrap()
}

/// Child process: one of the nodes, until it is killed.
#[test]
fn node() {
    let Ok(starts) = std::env::var(STARTS) else { return };
    let url = std::env::var(DATABASE).unwrap();
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let windlass = windlass(&url, starts.as_ref()).await;
        let _workers = windlass.start().await.unwrap();
        std::future::pending::<()>().await;
    });
}

struct Nodes {
    files: Vec<PathBuf>,
    _processes: Vec<Process>,
}

impl Nodes {
    fn start(world: &World) -> Nodes {
        let files: Vec<PathBuf> = (0..NODES).map(|n| world.directory().join(format!("starts-{n}"))).collect();
        let start = |(n, file): (usize, &PathBuf)| {
            let mut command = world.command("rate::node");
            command.env(STARTS, file);
            Process::start(&format!("node-{n}"), world.directory(), command).unwrap()
        };
        let _processes = files.iter().enumerate().map(start).collect();
        Nodes { files, _processes }
    }

    /// The times of all starts so far, per node.
    fn starts(&self) -> Vec<Vec<u64>> {
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        let times = |text: String| text.lines().filter_map(|line| line.parse().ok()).collect();
        self.files.iter().map(|file| times(read(file))).collect()
    }

    /// Waits for the end of a time window and returns the starts in it, per node.
    async fn within(&self, from: u64, seconds: u64) -> Vec<Vec<u64>> {
        let to = from + seconds * SECOND;
        wait_until("the time to pass", Duration::from_secs(seconds + 60), || async {
            let past = |starts: &[u64]| starts.last().is_some_and(|last| *last >= to);
            Seen::when(self.starts(), |nodes| nodes.iter().all(|starts| past(starts)))
        })
        .await
        .into_iter()
        .map(|starts| starts.into_iter().filter(|at| (from..to).contains(at)).collect())
        .collect()
    }
}

/// Starts per second and node, up to the second in which a node stopped.
fn per_second(nodes: &[Vec<u64>], from: u64) -> Vec<[usize; NODES]> {
    let over =
        nodes.iter().filter_map(|starts| starts.last()).min().map_or(0, |last| last.saturating_sub(from));
    let mut seconds = vec![[0; NODES]; (over / SECOND) as usize];
    for (node, starts) in nodes.iter().enumerate() {
        for at in starts.iter().filter(|at| **at >= from) {
            if let Some(second) = seconds.get_mut(((at - from) / SECOND) as usize) {
                second[node] += 1;
            }
        }
    }
    seconds
}

fn total(seconds: &[[usize; NODES]]) -> usize {
    seconds.iter().flatten().sum()
}

/// Within 2 % of the rate, and each node has at least a tenth of the starts.
fn keeps(stretch: &[[usize; NODES]]) -> bool {
    let (total, wanted) = (total(stretch) as f64, stretch.len() as f64 * RATE as f64);
    let share = |node: usize| stretch.iter().map(|second| second[node]).sum::<usize>() as f64;
    (total / wanted - 1.0).abs() <= 0.02 && (0..NODES).all(|node| share(node) >= total * 0.1)
}

on_both! {
    async fn three_processes_keep_to_one_rate(world: World) {
        let seconds = count(10, 60) as u64;
        let windlass = windlass(&world.url, &world.directory().join("starts-here")).await;
        let mut left = RATE * (seconds + EXTRA_SECONDS + 10);
        while left > 0 {
            let some = left.min(5_000);
            windlass.enqueue_many((0..some).map(|_| Request::from(Paced {}))).await.unwrap();
            left -= some;
        }
        let nodes = Nodes::start(&world);
        wait_until("every node to start jobs", Duration::from_secs(60), || async {
            Seen::when(nodes.starts(), |nodes| nodes.iter().all(|starts| starts.len() > 20))
        })
        .await;
        // After a second the tokens saved during start-up are spent. A machine that stalls moves starts to a later
        // window, so the test asks that some window reaches the rate and none exceeds it.
        let from = micros() + SECOND;
        let deadline = Duration::from_secs(seconds + EXTRA_SECONDS);
        let all = wait_until("a window that keeps to the rate", deadline, || async {
            let all = per_second(&nodes.starts(), from);
            Seen::when(all, |all| all.windows(seconds as usize).any(keeps))
        })
        .await;
        let stretch = all.windows(seconds as usize).find(|stretch| keeps(stretch)).unwrap();
        println!("{:?}: {} starts in {seconds} s at {RATE}/s: {stretch:?}", world.database, total(stretch));
        // A rate token may be used up to a second after it was leased.
        let ahead = (SLACK + TOKEN_LIFE).as_secs_f64() * RATE as f64;
        for (begin, end) in (0..all.len()).flat_map(|begin| (begin + 1..=all.len()).map(move |end| (begin, end))) {
            let most = (end - begin) as f64 * RATE as f64 + ahead;
            let found = total(&all[begin..end]);
            assert!(found as f64 <= most, "{found} starts from second {begin} to {end}: {all:?}");
        }

        let client = windlass.client();
        let kind = client.catalog().kind_named(Paced::KIND).unwrap().id;
        let rate = Some(Live::Set(Some("100/s".parse().unwrap())));
        let update = KindUpdate { rate, ..KindUpdate::default() };
        assert!(client.store().update_kind(kind, &update).await.unwrap());
        let from = micros() + 2 * SECOND;
        let starts = nodes.within(from, 5).await;
        let total = starts.iter().map(Vec::len).sum::<usize>();
        println!("{:?}: {total} starts in 5 s after a change to 100/s", world.database);
        assert!((400..=600).contains(&total), "{total} starts instead of 500 after the change");
        drop(nodes);
        client.store().close().await;
        world.end().await;
    }
}
