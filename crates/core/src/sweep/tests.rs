use std::collections::BTreeMap;
use std::time::Instant;

use super::*;
use crate::WorkerId;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(60);
const CLEAN: LostLease = LostLease {
    job: JobId(0),
    suspicion: Suspicion::NONE,
    alone: false,
    explained: false,
    at_most_once: false,
    cancel_requested: false,
};

fn at(level: u8) -> LostLease {
    LostLease { suspicion: Suspicion::new(level), ..CLEAN }
}

fn returned(lease: LostLease) -> (u8, Option<Duration>) {
    match lost(lease) {
        Lost::Return { suspicion, delay } => (suspicion.level(), delay),
        other => panic!("expected a return, got {other:?}"),
    }
}

#[test]
fn each_death_raises_the_level_and_the_delay() {
    assert_eq!(returned(at(0)), (1, None));
    assert_eq!(returned(at(1)), (2, Some(5 * SECOND)));
    assert_eq!(returned(at(2)), (3, Some(30 * SECOND)));
    let alone = |level| LostLease { alone: true, ..at(level) };
    assert_eq!(returned(alone(3)), (4, Some(60 * SECOND)));
    assert_eq!(returned(alone(4)), (5, Some(120 * SECOND)));
    assert!(matches!(lost(alone(5)), Lost::DeadLetter { .. }));
}

#[test]
fn a_death_in_company_does_not_count_against_a_job_on_trial() {
    for level in 3..DEADLY_LEVEL {
        assert_eq!(returned(at(level)).0, level);
    }
}

#[test]
fn an_explained_death_raises_to_the_first_level_at_most() {
    for level in 0..DEADLY_LEVEL {
        for alone in [false, true] {
            let lease = LostLease { explained: true, alone, ..at(level) };
            assert_eq!(returned(lease).0, level.max(1));
        }
    }
}

#[test]
fn a_cancelled_job_does_not_come_back_and_neither_does_one_that_runs_at_most_once() {
    let once = LostLease { at_most_once: true, explained: true, ..CLEAN };
    assert!(matches!(lost(once), Lost::DeadLetter { .. }));
    assert_eq!(lost(LostLease { cancel_requested: true, ..once }), Lost::Cancelled);
}

/// Random kills from outside and jobs that kill, run by the rules of the claim.
#[test]
fn killers_are_found_after_six_deaths_and_nobody_else_is_blamed() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let jobs = 60;
        let killers: Vec<usize> = (0..random.usize(0..3)).collect();
        let mut waiting: BTreeMap<usize, Suspicion> = (0..jobs).map(|job| (job, Suspicion::NONE)).collect();
        let (mut dead, mut lone, mut deaths) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut outside = random.usize(0..10);
        while !waiting.is_empty() {
            let level = [Level::Ordinary, Level::Second, Level::Trial]
                .into_iter()
                .find(|level| waiting.values().any(|of| within(*level, *of)));
            let Some(level) = level else { break };
            let most = match level {
                Level::Trial => 1,
                Level::Second => SECOND_PER_PROCESS as usize,
                _ => random.usize(1..20),
            };
            let mut leased: Vec<usize> =
                waiting.iter().filter(|(_, of)| within(level, **of)).map(|(job, _)| *job).collect();
            random.shuffle(&mut leased);
            leased.truncate(most);
            let killed = leased.iter().any(|job| killers.contains(job));
            let from_outside = !killed && outside > 0 && random.bool();
            outside -= usize::from(from_outside);
            if !killed && !from_outside {
                waiting.retain(|job, _| !leased.contains(job));
                continue;
            }
            let alone = level == Level::Trial;
            let explained = from_outside && random.bool();
            for job in leased {
                let suspicion = waiting[&job];
                let lease = LostLease { job: JobId(job as i64), suspicion, alone, explained, ..CLEAN };
                *deaths.entry(job).or_insert(0) += 1;
                *lone.entry(job).or_insert(0) += u32::from(alone && !explained);
                match lost(lease) {
                    Lost::Return { suspicion, .. } => waiting.insert(job, suspicion),
                    _ => {
                        dead.push(job);
                        waiting.remove(&job)
                    }
                };
            }
        }
        for job in &dead {
            assert!(lone[job] >= 3, "seed {seed}: {job} died alone {} times", lone[job]);
        }
        for killer in &killers {
            assert!(dead.contains(killer), "seed {seed}: {killer} was not found");
            let outside_at_most = 10;
            assert!(deaths[killer] <= 6 + outside_at_most, "seed {seed}: {} deaths", deaths[killer]);
        }
    }
}

fn within(level: Level, suspicion: Suspicion) -> bool {
    let (low, high) = level.range();
    (low..=high).contains(&suspicion.level())
}

fn beat(worker: i64, beats: i64) -> Beat {
    Beat {
        worker: WorkerId(worker),
        beats,
        lease: LEASE,
        expired: false,
        presence: Presence::Locked,
        stopping: false,
        before_restart: false,
    }
}

fn look(beats: &[Beat]) -> Look {
    Look { beats: beats.to_vec(), uptime: None }
}

#[test]
fn an_expired_lease_is_dead_only_if_its_heart_stood_still_for_a_lease() {
    let start = Instant::now();
    let mut watch = Watch::default();
    let expired = Beat { expired: true, presence: Presence::Unknown, ..beat(1, 7) };
    assert_eq!(watch.look(start, &look(&[expired])), []);
    assert_eq!(watch.look(start + LEASE - SECOND, &look(&[expired])), []);
    assert_eq!(watch.look(start + LEASE, &look(&[expired])), [Death { beat: expired, explained: false }]);
    let moved = Beat { beats: 8, ..expired };
    assert_eq!(watch.look(start + LEASE, &look(&[moved])), []);
}

#[test]
fn a_failed_look_starts_over() {
    let start = Instant::now();
    let mut watch = Watch::default();
    let expired = Beat { expired: true, ..beat(1, 7) };
    watch.look(start, &look(&[expired]));
    watch.look_failed();
    assert_eq!(watch.look(start + 2 * LEASE, &look(&[expired])), [], "it may have been the database");
    assert_eq!(watch.look(start + 3 * LEASE, &look(&[expired])).len(), 1);
}

#[test]
fn a_process_that_is_gone_is_dead_at_once() {
    let mut watch = Watch::default();
    let gone = Beat { presence: Presence::Gone, ..beat(1, 7) };
    assert_eq!(watch.look(Instant::now(), &look(&[gone, beat(2, 3)])).len(), 1);
}

#[test]
fn a_lost_session_is_dead_when_the_heart_stands_still_too() {
    let start = Instant::now();
    let mut watch = Watch::default();
    let lost = |beats| Beat { presence: Presence::SessionLost, ..beat(1, beats) };
    assert_eq!(watch.look(start, &look(&[lost(7)])), []);
    assert_eq!(watch.look(start + SECOND / 2, &look(&[lost(7)])), [], "too soon");
    assert_eq!(watch.look(start + SECOND, &look(&[lost(8)])), [], "it beats");
    assert_eq!(watch.look(start + 2 * SECOND, &look(&[beat(1, 8)])), [], "it has its lock again");
    assert_eq!(watch.look(start + 3 * SECOND, &look(&[lost(8)])), []);
    assert_eq!(watch.look(start + 4 * SECOND, &look(&[lost(8)])).len(), 1);
}

#[test]
fn several_lost_sessions_and_a_restart_say_nothing_for_a_lease() {
    let start = Instant::now();
    let lost = |worker| Beat { presence: Presence::SessionLost, ..beat(worker, 7) };
    let mut watch = Watch::default();
    let both = look(&[lost(1), lost(2)]);
    for seconds in [0, 2, 59] {
        assert_eq!(watch.look(start + seconds * SECOND, &both), []);
    }
    assert_eq!(watch.look(start + 60 * SECOND, &both), []);
    let deaths = watch.look(start + 61 * SECOND, &both);
    assert_eq!(deaths.len(), 2);
    assert!(deaths.iter().all(|death| death.explained), "they died together");

    let mut watch = Watch::default();
    let young = Look { uptime: Some(SECOND), ..look(&[lost(1)]) };
    assert_eq!(watch.look(start, &young), []);
    assert_eq!(watch.look(start + 2 * SECOND, &young), []);
}

#[test]
fn deaths_with_an_outside_cause_are_explained() {
    let dead = |worker| Beat { presence: Presence::Gone, ..beat(worker, 1) };
    let explained = |beats: &[Beat]| {
        let deaths = Watch::default().look(Instant::now(), &look(beats));
        deaths.iter().map(|death| death.explained).collect::<Vec<_>>()
    };
    assert_eq!(explained(&[dead(1)]), [false]);
    assert_eq!(explained(&[dead(1), dead(2)]), [true, true]);
    assert_eq!(explained(&[Beat { stopping: true, ..dead(1) }]), [true]);
    assert_eq!(explained(&[Beat { before_restart: true, ..dead(1) }]), [true]);
}
