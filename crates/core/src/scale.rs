//! How many jobs of a queue to run at once, and how many processes it needs.
//!
//! Owns two pure decisions. [`Tuner`] adjusts one worker's concurrency within its bounds. [`desired_workers`] is the
//! number an external autoscaler follows. Both compare the time the backlog would take with half the SLA, so they never
//! work against each other.

use std::time::Duration;

use crate::store::Live;

/// Bounds of an automatically adjusted concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: u32,
    pub max: u32,
}

/// The field and the rule that was violated.
pub type Refused = (&'static str, String);

impl Bounds {
    /// Combines a change of a queue's concurrency and bounds with the values in force. A bound that is not given keeps
    /// its value, or else becomes the concurrency. Both bounds must be removed or reset together. A given concurrency
    /// must lie within the bounds, since it is where a process starts.
    pub fn change(
        (in_force, before): (u32, Option<Bounds>),
        concurrency: Option<Live<u32>>,
        min: Option<Live<Option<u32>>>,
        max: Option<Live<Option<u32>>>,
    ) -> Result<Option<Live<Option<Bounds>>>, Refused> {
        let named = concurrency.and_then(Live::set);
        let number = |change: Option<Live<Option<u32>>>| change.and_then(Live::set).flatten();
        let (low, high) = (number(min), number(max));
        if min.is_none() && max.is_none() {
            return Bounds::hold(before, named).map(|()| None);
        }
        if let Some(back) =
            [min, max].into_iter().flatten().find(|change| !matches!(change, Live::Set(Some(_))))
        {
            if low.is_some() || high.is_some() {
                let rule = "cannot be set while the other bound is removed or reset";
                let field = if low.is_some() { "concurrency_min" } else { "concurrency_max" };
                return Err((field, rule.to_owned()));
            }
            return Ok(Some(back.map(|_| None)));
        }
        let start = named.unwrap_or(in_force);
        let min = low.or(before.map(|bounds| bounds.min)).unwrap_or(start);
        let max = high.or(before.map(|bounds| bounds.max)).unwrap_or(start);
        if min > max {
            let field = if low.is_some() { "concurrency_min" } else { "concurrency_max" };
            let rule = format!("runs from {min} to {max}; the lower bound must not be above the upper one");
            return Err((field, rule));
        }
        let bounds = Bounds { min, max };
        Bounds::hold(Some(bounds), named)?;
        Ok(Some(Live::Set(Some(bounds))))
    }

    fn hold(bounds: Option<Bounds>, concurrency: Option<u32>) -> Result<(), Refused> {
        match (bounds, concurrency) {
            (Some(Bounds { min, max }), Some(count)) if !(min..=max).contains(&count) => {
                let rule = format!(
                    "{count} is outside the queue's bounds {min} to {max} (concurrency_min, concurrency_max); change or remove \
                     those too"
                );
                Err(("concurrency", rule))
            }
            _ => Ok(()),
        }
    }

    fn clamp(self, concurrency: u32) -> u32 {
        concurrency.clamp(self.min.min(self.max), self.max)
    }
}

/// Target for queues without an SLA.
const BEST_EFFORT: Duration = Duration::from_secs(1_800);

/// How long a backlog may take before capacity is added.
pub fn patience(sla: Option<Duration>) -> Duration {
    sla.unwrap_or(BEST_EFFORT) / 2
}

/// What a worker observed of one queue since its last step.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Due jobs.
    pub backlog: u64,
    /// Jobs finished per second, in all processes together.
    pub drain_per_s: f64,
    /// Maximum number of concurrent runs.
    pub busiest: u32,
    pub sla: Option<Duration>,
}

/// Steps without growth after run times got worse.
const HOLD: u32 = 12;
/// Run times got worse if their P95 rose by this factor. Growth is by half, so growth that only divides a saturated
/// resource raises run times by more than this.
const WORSE: f64 = 1.25;
/// A P95 of fewer runs means nothing.
const MIN_RUNS: u64 = 8;

/// Adjusts the concurrency of one queue in one process.
///
/// It grows by half while the backlog would take longer than [`patience`] and all slots are in use, but only if the
/// runs since the last growth did not get slower. If growth made the P95 of run times worse, it is undone. If run times
/// get worse without growth, concurrency shrinks by a quarter. After either, it stays constant for a while. When idle,
/// it sinks to what is in use.
#[derive(Debug)]
pub struct Tuner {
    bounds: Bounds,
    current: u32,
    /// Since the last judgement.
    times: RunTimes,
    usual: Option<Duration>,
    /// The concurrency before the last growth, until that is judged.
    grown_from: Option<u32>,
    hold: u32,
}

impl Tuner {
    pub fn new(bounds: Bounds, start: u32) -> Tuner {
        let current = bounds.clamp(start);
        Tuner { bounds, current, times: RunTimes::default(), usual: None, grown_from: None, hold: 0 }
    }

    pub fn current(&self) -> u32 {
        self.current
    }

    /// New bounds or a new starting value from an operator.
    pub fn set(&mut self, bounds: Bounds, start: u32) {
        *self = Tuner::new(bounds, start);
    }

    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub fn ran(&mut self, took: Duration) {
        self.times.add(took);
    }

    /// Returns the new concurrency.
    pub fn step(&mut self, seen: &Seen) -> u32 {
        self.hold = self.hold.saturating_sub(1);
        // Needs at least one run per slot.
        if self.times.count >= MIN_RUNS.max(u64::from(self.current)) && self.got_worse() {
            self.hold = HOLD;
            let quarter = self.current - (self.current / 4).max(1);
            self.current = self.bounds.clamp(self.grown_from.take().unwrap_or(quarter));
            return self.current;
        }
        let idle = seen.backlog == 0 && seen.busiest < self.current;
        let late = seen.backlog as f64 > seen.drain_per_s * patience(seen.sla).as_secs_f64();
        if idle {
            self.grown_from = None;
            let spare = self.current.saturating_sub(seen.busiest);
            self.current = self.bounds.clamp(self.current - spare.div_ceil(2));
        } else if late && seen.busiest >= self.current && self.hold == 0 && self.grown_from.is_none() {
            let more = self.bounds.clamp(self.current + (self.current / 2).max(1));
            self.grown_from = (more > self.current).then_some(self.current);
            self.current = more;
        }
        self.current
    }

    /// Compares the runs since the last judgement with the baseline, then makes them the new baseline: a lasting change
    /// counts once.
    fn got_worse(&mut self) -> bool {
        let p95 = self.times.p95();
        self.times = RunTimes::default();
        let worse = self.usual.is_some_and(|usual| p95.as_secs_f64() > usual.as_secs_f64() * WORSE);
        self.usual = Some(p95);
        if !worse {
            self.grown_from = None;
        }
        worse
    }
}

/// Eight buckets per octave from 0.25 ms on: a bucket's upper bound is at most a tenth above the actual time.
const BUCKETS: usize = 224;
const PER_OCTAVE: f64 = 8.0;
const SMALLEST: f64 = 0.000_25;

#[derive(Clone, Debug)]
struct RunTimes {
    buckets: [u32; BUCKETS],
    count: u64,
}

impl Default for RunTimes {
    fn default() -> RunTimes {
        RunTimes { buckets: [0; BUCKETS], count: 0 }
    }
}

impl RunTimes {
    fn add(&mut self, took: Duration) {
        let octaves = (took.as_secs_f64() / SMALLEST).max(1.0).log2();
        let bucket = ((octaves * PER_OCTAVE).ceil() as usize).min(BUCKETS - 1);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
            self.count += 1;
        }
    }

    fn p95(&self) -> Duration {
        let wanted = (self.count as f64 * 0.95).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        let octaves = found.unwrap_or(0) as f64 / PER_OCTAVE;
        Duration::from_secs_f64(SMALLEST * octaves.exp2())
    }
}

/// One queue across all processes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub paused: bool,
    /// Due jobs.
    pub backlog: u64,
    /// Leased jobs.
    pub running: u64,
    /// Per process.
    pub concurrency: u32,
    pub sla: Option<Duration>,
    /// Processes that serve the queue now.
    pub workers: u64,
    /// Recently finished attempts per second.
    pub attempts_per_s: f64,
    /// Mean handler time per attempt; `None` if none finished recently.
    pub mean_run: Option<Duration>,
}

/// Number of processes that would finish the backlog within [`patience`] while keeping up with new jobs, and at least
/// as many as the running jobs need. The capacity of a process follows from its slots and the run time, or from what it
/// does now if that is more, as with batches. One as long as the run time is unknown; zero if there is nothing to do.
pub fn desired_workers(load: &Load) -> u64 {
    if load.paused || load.backlog + load.running == 0 {
        return 0;
    }
    let slots = f64::from(load.concurrency.max(1));
    let busy = load.running.div_ceil(u64::from(load.concurrency.max(1)));
    let Some(mean_run) = load.mean_run else { return busy.max(1) };
    let by_slots = slots / mean_run.as_secs_f64().max(1e-6);
    let by_rate = load.attempts_per_s / load.workers.max(1) as f64;
    let needed = load.attempts_per_s + load.backlog as f64 / patience(load.sla).as_secs_f64().max(1e-3);
    let processes = (needed / by_slots.max(by_rate)).ceil();
    busy.max(processes as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLA: Option<Duration> = Some(Duration::from_secs(60));
    const BOUNDS: Bounds = Bounds { min: 2, max: 64 };
    const STEP_SECONDS: f64 = 5.0;

    fn millis(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1_000.0)
    }

    /// A handler whose runs take 100 ms until `knee` of them run at once; beyond that they share the capacity.
    fn run_ms(concurrency: u32, knee: u32) -> f64 {
        100.0 * (f64::from(concurrency) / f64::from(knee)).max(1.0)
    }

    /// Steps with an endless backlog; returns the concurrency of each step.
    fn under_load(tuner: &mut Tuner, knee: u32, steps: usize) -> Vec<u32> {
        let mut figures = Vec::new();
        for _ in 0..steps {
            let concurrency = tuner.current();
            let run = run_ms(concurrency, knee);
            let ended = (STEP_SECONDS * 1_000.0 / run * f64::from(concurrency)) as u32;
            (0..ended).for_each(|_| tuner.ran(millis(run)));
            let drain_per_s = f64::from(ended) / STEP_SECONDS;
            let seen = Seen { backlog: 1_000_000, drain_per_s, busiest: concurrency, sla: SLA };
            figures.push(tuner.step(&seen));
        }
        figures
    }

    #[test]
    fn a_backlog_raises_concurrency_to_the_bound() {
        let mut tuner = Tuner::new(BOUNDS, 4);
        let figures = under_load(&mut tuner, 1_000, 40);
        assert_eq!(figures.last(), Some(&64));
        assert!(figures.is_sorted(), "{figures:?}");
    }

    /// Beyond the knee, more concurrency only makes each run slower. Growth that shows this is undone.
    #[test]
    fn growth_that_slows_the_runs_is_undone() {
        let mut tuner = Tuner::new(BOUNDS, 4);
        let figures = under_load(&mut tuner, 10, 200);
        let most = *figures.iter().max().unwrap();
        assert!(most <= 18, "never far beyond the knee: {figures:?}");
        let settled = &figures[20..];
        let mean = settled.iter().sum::<u32>() as f64 / settled.len() as f64;
        assert!((8.0..=15.0).contains(&mean), "about the knee: {mean}, {settled:?}");
        let moves = settled.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(moves <= settled.len() / 4, "{moves} moves in {}: {settled:?}", settled.len());
    }

    #[test]
    fn a_short_backlog_or_a_free_slot_causes_no_growth() {
        for (backlog, drain_per_s, busiest) in [(10, 1.0, 4), (1_000, 1.0, 3), (29, 1.0, 4), (30, 1.0, 4)] {
            let mut tuner = Tuner::new(BOUNDS, 4);
            let seen = Seen { backlog, drain_per_s, busiest, sla: SLA };
            assert_eq!(tuner.step(&seen), 4, "{seen:?}");
        }
        let mut tuner = Tuner::new(BOUNDS, 4);
        assert_eq!(tuner.step(&Seen { backlog: 31, drain_per_s: 1.0, busiest: 4, sla: SLA }), 6);
        let mut tuner = Tuner::new(BOUNDS, 4);
        assert_eq!(
            tuner.step(&Seen { backlog: 1, drain_per_s: 0.0, busiest: 4, sla: None }),
            6,
            "nothing ends"
        );
    }

    /// Without a run since the last growth, its effect is unknown.
    #[test]
    fn concurrency_grows_once_per_judgement() {
        let mut tuner = Tuner::new(BOUNDS, 8);
        let seen = Seen { backlog: 1_000_000, drain_per_s: 1.0, busiest: 64, sla: SLA };
        assert_eq!([tuner.step(&seen), tuner.step(&seen), tuner.step(&seen)], [12, 12, 12]);
        (0..12).for_each(|_| tuner.ran(millis(5.0)));
        assert_eq!(tuner.step(&seen), 18);
    }

    #[test]
    fn idle_concurrency_sinks_to_the_lower_bound_but_not_below_what_is_in_use() {
        let mut tuner = Tuner::new(BOUNDS, 64);
        let mut idle = |busiest| tuner.step(&Seen { backlog: 0, drain_per_s: 0.0, busiest, sla: SLA });
        assert_eq!([idle(10), idle(10), idle(10)], [37, 23, 16]);
        (0..10).for_each(|_| assert!(idle(10) >= 10));
        assert_eq!(idle(10), 10);
        (0..10).for_each(|_| assert!(idle(0) >= 2));
        assert_eq!(idle(0), 2);
    }

    #[test]
    fn slower_runs_shrink_concurrency_once_and_it_recovers() {
        let mut tuner = Tuner::new(BOUNDS, 16);
        let busy = Seen { backlog: 1, drain_per_s: 100.0, busiest: 16, sla: SLA };
        let mut window = |ms| {
            (0..20).for_each(|_| tuner.ran(millis(ms)));
            tuner.step(&busy)
        };
        assert_eq!([window(10.0), window(10.0), window(30.0)], [16, 16, 12]);
        assert_eq!([window(30.0), window(30.0)], [12, 12], "the new time is the baseline");
        let late = Seen { backlog: 1_000_000, busiest: 64, ..busy };
        let figures: Vec<u32> = (0..30)
            .map(|_| {
                (0..70).for_each(|_| tuner.ran(millis(30.0)));
                tuner.step(&late)
            })
            .collect();
        assert_eq!(figures.last(), Some(&64), "{figures:?}");
    }

    #[test]
    fn a_bound_that_is_not_given_stays() {
        let set = |count| Some(Live::Set(Some(count)));
        let bounds = |min, max| Ok(Some(Live::Set(Some(Bounds { min, max }))));
        let of = |min, max, before| Bounds::change((10, before), None, min, max);
        assert_eq!(of(None, None, None), Ok(None));
        assert_eq!(of(set(2), None, None), bounds(2, 10));
        assert_eq!(of(None, set(30), None), bounds(10, 30));
        assert_eq!(of(None, set(30), Some(Bounds { min: 3, max: 9 })), bounds(3, 30));
        assert_eq!(of(set(12), set(14), None), bounds(12, 14), "it starts within the bounds");
        let (field, rule) = of(None, set(9), None).unwrap_err();
        assert!(field == "concurrency_max" && rule.contains("from 10 to 9"), "{field} {rule}");
    }

    #[test]
    fn a_concurrency_outside_its_bounds_is_refused() {
        let change = |count, bounds: Option<(u32, u32)>| {
            let before = Some(Bounds { min: 1, max: 20 });
            let bounds = bounds.map(|(min, max)| (Live::Set(Some(min)), Live::Set(Some(max)))).unzip();
            Bounds::change((5, before), Some(Live::Set(count)), bounds.0, bounds.1)
        };
        assert_eq!(change(20, None), Ok(None));
        let (field, rule) = change(25, None).unwrap_err();
        assert!(field == "concurrency" && rule.contains("25") && rule.contains("1 to 20"), "{field} {rule}");
        assert_eq!(change(25, Some((1, 30))), Ok(Some(Live::Set(Some(Bounds { min: 1, max: 30 })))));
        assert_eq!(change(7, Some((10, 10))).unwrap_err().0, "concurrency");
    }

    #[test]
    fn bounds_are_set_and_removed_together() {
        let before = Some(Bounds { min: 1, max: 20 });
        let change = |min, max| Bounds::change((5, before), Some(Live::Set(99)), min, max);
        for none in [(Some(Live::Set(None)), None), (None, Some(Live::Set(None)))] {
            assert_eq!(change(none.0, none.1), Ok(Some(Live::Set(None))));
        }
        assert_eq!(change(None, Some(Live::Configured)), Ok(Some(Live::Configured)));
        assert_eq!(change(Some(Live::Set(Some(2))), Some(Live::Set(None))).unwrap_err().0, "concurrency_min");
    }

    #[test]
    fn bounds_hold_and_can_be_changed_live() {
        let mut tuner = Tuner::new(BOUNDS, 1_000);
        assert_eq!(tuner.current(), 64);
        tuner.set(Bounds { min: 1, max: 3 }, 64);
        assert_eq!(tuner.current(), 3);
        tuner.set(Bounds { min: 5, max: 5 }, 64);
        let seen = Seen { backlog: 1_000_000, drain_per_s: 1.0, busiest: 5, sla: SLA };
        assert_eq!(tuner.step(&seen), 5, "equal bounds fix the concurrency");
    }

    #[test]
    fn a_p95_is_slightly_above_the_actual_time() {
        for ms in [0.1, 1.0, 7.0, 333.0, 60_000.0] {
            let mut times = RunTimes::default();
            (0..100).for_each(|n| times.add(millis(if n < 95 { ms } else { ms * 50.0 })));
            let p95 = times.p95().as_secs_f64() * 1_000.0;
            assert!(p95 >= ms * 0.999 && p95 <= (ms * 1.1).max(0.25), "{ms}: {p95}");
        }
    }

    const LOAD: Load = Load {
        paused: false,
        backlog: 1_000,
        running: 20,
        concurrency: 20,
        sla: Some(Duration::from_secs(30)),
        workers: 1,
        attempts_per_s: 0.0,
        mean_run: Some(Duration::from_secs(1)),
    };

    #[test]
    fn desired_workers_follow_backlog_run_time_and_sla() {
        assert_eq!(desired_workers(&LOAD), 4, "67 a second, 20 each");
        assert_eq!(desired_workers(&Load { attempts_per_s: 20.0, ..LOAD }), 5, "plus new jobs");
        assert_eq!(desired_workers(&Load { sla: None, ..LOAD }), 1);
        assert_eq!(desired_workers(&Load { backlog: 0, ..LOAD }), 1);
        assert_eq!(desired_workers(&Load { backlog: 0, running: 0, ..LOAD }), 0);
        assert_eq!(desired_workers(&Load { paused: true, ..LOAD }), 0);
    }

    #[test]
    fn busy_workers_are_kept_and_an_unknown_run_time_asks_for_one() {
        let long = Load { mean_run: None, backlog: 0, running: 30, concurrency: 3, ..LOAD };
        assert_eq!(desired_workers(&long), 10);
        assert_eq!(desired_workers(&Load { running: 0, backlog: 9_000, ..long }), 1);
    }

    /// A batch of 64 counts its run time 64 times. The observed throughput corrects for that.
    #[test]
    fn observed_throughput_counts_if_it_is_higher() {
        let batches = Load { backlog: 3_000, attempts_per_s: 600.0, workers: 2, ..LOAD };
        assert_eq!(desired_workers(&batches), 3, "800 a second, 300 each");
    }
}
