//! What follows from how the jobs of a workflow stand.

use super::{OnFailure, WorkflowState};
use crate::JobState;

/// One job of a workflow. Parents stand before their children; jobs that undo others stand behind all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub standing: Standing,
    /// Places of its parents.
    pub parents: Vec<usize>,
    /// Its failure is passed over.
    pub goes_on: bool,
    /// It can be undone.
    pub has_undo: bool,
    /// The place of the job it undoes.
    pub undoes: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// For its parents, in no queue.
    Waits,
    /// In its queue or running.
    Live,
    Ended(JobState),
}

impl Standing {
    /// What the `state` column of a workflow's job holds: 0 waits, 1 live, else the state it ended in.
    pub fn code(self) -> i16 {
        match self {
            Standing::Waits => 0,
            Standing::Live => 1,
            Standing::Ended(state) => state.code(),
        }
    }

    pub fn from_code(code: i16) -> Option<Standing> {
        match code {
            0 => Some(Standing::Waits),
            1 => Some(Standing::Live),
            code => JobState::from_code(code).filter(|state| state.is_finished()).map(Standing::Ended),
        }
    }

    pub fn is_ended(self) -> bool {
        matches!(self, Standing::Ended(_))
    }

    /// Ended without success.
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Standing::Ended(state) if state != JobState::Completed)
    }
}

/// Whether the end of a job that was released can do no more than let its children go, once none of their parents is open:
/// [`advance`] has to see the whole workflow only for other ends, and when nothing of it is open any more.
pub fn only_releases(ended: JobState, goes_on: bool) -> bool {
    match ended {
        JobState::Completed => true,
        // Only an attempt ends so, and no job is attempted below one that blocks.
        JobState::Failed | JobState::DeadLetter => goes_on,
        _ => false,
    }
}

/// What has to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Into their queues.
    pub release: Vec<usize>,
    pub cancel: Vec<usize>,
    /// To be undone now.
    pub undo: Option<usize>,
    /// How the workflow stands once that is written.
    pub state: WorkflowState,
}

pub fn advance(members: &[Member], on_failure: OnFailure) -> Advance {
    let mut now: Vec<Standing> = members.iter().map(|member| member.standing).collect();
    let compensates = on_failure == OnFailure::Compensate && blocks(members, &now).contains(&true);
    let mut release = Vec::new();
    let mut cancel = Vec::new();
    let mut blocking = vec![false; members.len()];
    for (n, member) in members.iter().enumerate() {
        let blocked = member.parents.iter().any(|parent| blocking[*parent]);
        if now[n] == Standing::Waits {
            let stopped = blocked || (compensates && member.undoes.is_none());
            if stopped {
                now[n] = Standing::Ended(JobState::Cancelled);
                cancel.push(n);
            } else if member.parents.iter().all(|parent| now[*parent].is_ended()) {
                now[n] = Standing::Live;
                release.push(n);
            }
        }
        blocking[n] = now[n].is_bad() && (!member.goes_on || blocked);
    }
    let (undo, state) = outcome(members, &now, &blocking, compensates);
    Advance { release, cancel, undo, state }
}

/// Jobs whose children cannot run. What was cancelled because of a parent blocks, whatever its own failure would mean.
fn blocks(members: &[Member], now: &[Standing]) -> Vec<bool> {
    let mut blocking = vec![false; members.len()];
    for (n, member) in members.iter().enumerate().filter(|(_, member)| member.undoes.is_none()) {
        let blocked = member.parents.iter().any(|parent| blocking[*parent]);
        blocking[n] = now[n].is_bad() && (!member.goes_on || blocked);
    }
    blocking
}

fn outcome(
    members: &[Member],
    now: &[Standing],
    blocking: &[bool],
    compensates: bool,
) -> (Option<usize>, WorkflowState) {
    let work = || members.iter().zip(now).zip(blocking).filter(|((member, _), _)| member.undoes.is_none());
    let undoing: Vec<(usize, Standing)> =
        members.iter().zip(now).filter_map(|(member, now)| Some((member.undoes?, *now))).collect();
    if work().any(|((_, now), _)| !now.is_ended()) {
        return (None, WorkflowState::Running);
    }
    let is = |now: &Standing, states: &[JobState]| matches!(now, Standing::Ended(s) if states.contains(s));
    let failed =
        work().any(|((_, now), blocks)| *blocks && is(now, &[JobState::Failed, JobState::DeadLetter]));
    let cancelled = work().any(|((_, now), _)| is(now, &[JobState::Cancelled, JobState::Superseded]));
    let plain = match (failed, cancelled) {
        (true, _) => WorkflowState::Failed,
        (false, true) => WorkflowState::Cancelled,
        (false, false) => WorkflowState::Completed,
    };
    if !compensates {
        return (None, plain);
    }
    if undoing.iter().any(|(_, now)| now.is_bad()) {
        return (None, WorkflowState::Failed);
    }
    if undoing.iter().any(|(_, now)| !now.is_ended()) {
        return (None, WorkflowState::Compensating);
    }
    let undone = |n: usize| undoing.iter().any(|(of, _)| *of == n);
    let open = |n: &usize| {
        let member = &members[*n];
        let can = member.has_undo && member.undoes.is_none() && !undone(*n);
        can && now[*n] == Standing::Ended(JobState::Completed)
    };
    match (0..members.len()).rev().find(open) {
        Some(next) => (Some(next), WorkflowState::Compensating),
        None if undoing.is_empty() => (None, plain),
        None => (None, WorkflowState::Compensated),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::workflow) const DONE: Standing = Standing::Ended(JobState::Completed);
    pub(in crate::workflow) const DEAD: Standing = Standing::Ended(JobState::DeadLetter);
    pub(in crate::workflow) const CANCELLED: Standing = Standing::Ended(JobState::Cancelled);
    use Standing::{Live, Waits};

    pub(in crate::workflow) fn member(standing: Standing, parents: &[usize]) -> Member {
        Member { standing, parents: parents.to_vec(), goes_on: false, has_undo: true, undoes: None }
    }

    /// a → b, c → d.
    pub(in crate::workflow) fn diamond(states: [Standing; 4]) -> Vec<Member> {
        let [a, b, c, d] = states;
        vec![member(a, &[]), member(b, &[0]), member(c, &[0]), member(d, &[1, 2])]
    }

    fn wants(members: &[Member], on_failure: OnFailure) -> (Vec<usize>, Vec<usize>, WorkflowState) {
        let Advance { release, cancel, undo, state } = advance(members, on_failure);
        assert_eq!(undo, None);
        (release, cancel, state)
    }

    #[test]
    fn a_new_workflow_begins_with_those_that_wait_for_nobody() {
        let got = wants(&diamond([Waits; 4]), OnFailure::Stop);
        assert_eq!(got, (vec![0], vec![], WorkflowState::Running));
    }

    #[test]
    fn a_child_starts_with_the_end_of_its_last_parent() {
        let running = WorkflowState::Running;
        assert_eq!(
            wants(&diamond([DONE, Waits, Waits, Waits]), OnFailure::Stop),
            (vec![1, 2], vec![], running)
        );
        assert_eq!(wants(&diamond([DONE, DONE, Live, Waits]), OnFailure::Stop), (vec![], vec![], running));
        assert_eq!(wants(&diamond([DONE, DONE, DONE, Waits]), OnFailure::Stop), (vec![3], vec![], running));
        assert_eq!(wants(&diamond([DONE; 4]), OnFailure::Stop), (vec![], vec![], WorkflowState::Completed));
    }

    #[test]
    fn stop_cancels_what_is_downstream_and_lets_the_rest_go_on() {
        let got = wants(&diamond([DONE, DEAD, Live, Waits]), OnFailure::Stop);
        assert_eq!(got, (vec![], vec![3], WorkflowState::Running));
        let got = wants(&diamond([DONE, DEAD, DONE, CANCELLED]), OnFailure::Stop);
        assert_eq!(got, (vec![], vec![], WorkflowState::Failed));
        let got = wants(&diamond([DEAD, Waits, Waits, Waits]), OnFailure::Stop);
        assert_eq!(got, (vec![], vec![1, 2, 3], WorkflowState::Failed));
        let got = wants(&diamond([CANCELLED, Waits, Waits, Waits]), OnFailure::Stop);
        assert_eq!(got, (vec![], vec![1, 2, 3], WorkflowState::Cancelled));
    }

    #[test]
    fn continue_passes_over_a_failure_but_not_over_one_above() {
        let mut members = diamond([DONE, DEAD, DONE, Waits]);
        members[1].goes_on = true;
        assert_eq!(wants(&members, OnFailure::Stop), (vec![3], vec![], WorkflowState::Running));
        members[3].standing = DONE;
        assert_eq!(wants(&members, OnFailure::Stop), (vec![], vec![], WorkflowState::Completed));
        let mut members = diamond([DEAD, Waits, Waits, Waits]);
        members[1].goes_on = true;
        members[2].goes_on = true;
        assert_eq!(wants(&members, OnFailure::Stop), (vec![], vec![1, 2, 3], WorkflowState::Failed));
    }

    #[test]
    fn compensate_stops_all_that_waits_then_undoes_from_the_end() {
        let policy = OnFailure::Compensate;
        let mut members = diamond([DONE, DEAD, Live, Waits]);
        members.push(member(Waits, &[2]));
        assert_eq!(wants(&members, policy), (vec![], vec![3, 4], WorkflowState::Running));
        let mut members = diamond([DONE, DEAD, DONE, CANCELLED]);
        let undo = |members: &[Member]| (advance(members, policy).undo, advance(members, policy).state);
        assert_eq!(undo(&members), (Some(2), WorkflowState::Compensating));
        members.push(Member { undoes: Some(2), ..member(Live, &[]) });
        assert_eq!(undo(&members), (None, WorkflowState::Compensating));
        members[4].standing = DONE;
        assert_eq!(undo(&members), (Some(0), WorkflowState::Compensating));
        members.push(Member { undoes: Some(0), ..member(DONE, &[]) });
        assert_eq!(undo(&members), (None, WorkflowState::Compensated));
        members[5].standing = DEAD;
        assert_eq!(undo(&members), (None, WorkflowState::Failed));
        // Retried, it waits for nobody.
        members[5].standing = Waits;
        let again = advance(&members, policy);
        assert_eq!(
            (again.release, again.cancel, again.state),
            (vec![5], vec![], WorkflowState::Compensating)
        );
    }

    #[test]
    fn without_a_failure_or_something_to_undo_nothing_is_undone() {
        let completed = (vec![], vec![], WorkflowState::Completed);
        assert_eq!(wants(&diamond([DONE; 4]), OnFailure::Compensate), completed);
        let mut members = diamond([DONE, DEAD, DONE, CANCELLED]);
        for member in &mut members {
            member.has_undo = false;
        }
        assert_eq!(wants(&members, OnFailure::Compensate), (vec![], vec![], WorkflowState::Failed));
    }

    #[test]
    fn codes_are_one_to_one() {
        for standing in [Waits, Live, DONE, DEAD, CANCELLED] {
            assert_eq!(Standing::from_code(standing.code()), Some(standing));
        }
        assert_eq!(Standing::from_code(2), None);
    }

    /// Random graphs run to their end in random order under random failures: no child starts before its parents ended, and
    /// every workflow ends.
    #[test]
    fn every_graph_comes_to_an_end_and_no_child_is_early() {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut below = move |n: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % n as u64) as usize
        };
        let mut near = 0;
        for round in 0..2_000 {
            let policy = OnFailure::ALL[below(3)];
            let mut members: Vec<Member> = Vec::new();
            for n in 0..1 + below(9) {
                let parents: Vec<usize> = (0..n).filter(|_| below(3) == 0).collect();
                let goes_on = policy == OnFailure::Continue || below(4) == 0;
                members.push(Member { goes_on, has_undo: below(2) == 0, ..member(Waits, &parents) });
            }
            let mut steps = 0;
            let end = loop {
                let step = advance(&members, policy);
                for n in step.release {
                    let parents = &members[n].parents;
                    assert!(
                        parents.iter().all(|p| members[*p].standing.is_ended()),
                        "round {round}: {members:?}"
                    );
                    members[n].standing = Live;
                }
                for n in step.cancel {
                    assert_eq!(members[n].standing, Waits);
                    members[n].standing = CANCELLED;
                }
                if let Some(n) = step.undo {
                    members.push(Member { undoes: Some(n), has_undo: false, ..member(Live, &[]) });
                }
                let live: Vec<usize> = (0..members.len()).filter(|n| members[*n].standing == Live).collect();
                assert_eq!(step.state.is_ended(), live.is_empty(), "round {round}: {members:?}");
                if live.is_empty() {
                    break step.state;
                }
                let n = live[below(live.len())];
                members[n].standing = [DONE, DONE, DONE, DEAD, CANCELLED][below(5)];
                near += usize::from(follows_from_the_children(&members, n, policy));
                steps += 1;
                assert!(steps < 100, "round {round} does not end: {members:?}");
            };
            assert!(members.iter().all(|member| member.standing.is_ended()), "round {round}: {members:?}");
            if members.iter().all(|member| member.standing == DONE) {
                assert_eq!(end, WorkflowState::Completed);
            }
            assert_eq!(advance(&members, policy).state, end, "deciding again changes nothing");
        }
        assert!(near > 1_000, "{near} ends were judged by their children");
    }

    /// Where [`only_releases`] says so of the end of `n`, its children tell all there is to do.
    fn follows_from_the_children(members: &[Member], n: usize, policy: OnFailure) -> bool {
        let Standing::Ended(state) = members[n].standing else { return false };
        if members[n].undoes.is_some() || !only_releases(state, members[n].goes_on) {
            return false;
        }
        let next = advance(members, policy);
        let ended = |p: &usize| members[*p].standing.is_ended();
        let ripe = |m: &Member| m.standing == Waits && m.parents.contains(&n) && m.parents.iter().all(ended);
        let children: Vec<usize> = (0..members.len()).filter(|c| ripe(&members[*c])).collect();
        assert_eq!((next.release, next.cancel), (children, vec![]), "after {n}: {members:?}");
        if !members.iter().all(|member| member.standing.is_ended()) {
            assert_eq!((next.undo, next.state), (None, WorkflowState::Running), "after {n}: {members:?}");
        }
        true
    }
}
