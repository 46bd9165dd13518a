//! What to do next, given the status of every job of a workflow.

use super::{OnFailure, WorkflowState};
use crate::JobState;

/// One job of a workflow. Parents come before their children; compensating jobs come last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub status: MemberStatus,
    /// Indexes of its parents.
    pub parents: Vec<usize>,
    /// If it fails, the workflow continues.
    pub goes_on: bool,
    /// Another job can undo it.
    pub has_undo: bool,
    /// The index of the job it undoes.
    pub undoes: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStatus {
    /// Waits for its parents, in no queue.
    Waits,
    /// In its queue or running.
    Live,
    Ended(JobState),
}

impl MemberStatus {
    /// Stored in the `state` column of a workflow's jobs: 0 waits, 1 live, else the state it ended in.
    pub fn code(self) -> i16 {
        match self {
            MemberStatus::Waits => 0,
            MemberStatus::Live => 1,
            MemberStatus::Ended(state) => state.code(),
        }
    }

    pub fn from_code(code: i16) -> Option<MemberStatus> {
        match code {
            0 => Some(MemberStatus::Waits),
            1 => Some(MemberStatus::Live),
            code => JobState::from_code(code).filter(|state| state.is_finished()).map(MemberStatus::Ended),
        }
    }

    pub fn is_ended(self) -> bool {
        matches!(self, MemberStatus::Ended(_))
    }

    /// Ended without success.
    pub(super) fn is_bad(self) -> bool {
        matches!(self, MemberStatus::Ended(state) if state != JobState::Completed)
    }
}

/// Whether the end of a released job can only release children whose parents have all ended. [`advance`] needs the
/// whole workflow only for other ends, and when no job is open any more.
pub fn only_releases(ended: JobState, goes_on: bool) -> bool {
    match ended {
        JobState::Completed => true,
        // Only an attempt ends this way, and no job below a blocking one is attempted.
        JobState::Failed | JobState::DeadLetter => goes_on,
        _ => false,
    }
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// To enqueue.
    pub release: Vec<usize>,
    pub cancel: Vec<usize>,
    /// To be undone now.
    pub undo: Option<usize>,
    /// The state of the workflow after that.
    pub state: WorkflowState,
}

pub fn advance(members: &[Member], on_failure: OnFailure) -> Advance {
    let mut now: Vec<MemberStatus> = members.iter().map(|member| member.status).collect();
    let compensates = on_failure == OnFailure::Compensate && blocks(members, &now).contains(&true);
    let mut release = Vec::new();
    let mut cancel = Vec::new();
    let mut blocking = vec![false; members.len()];
    for (n, member) in members.iter().enumerate() {
        let blocked = member.parents.iter().any(|parent| blocking[*parent]);
        if now[n] == MemberStatus::Waits {
            let stopped = blocked || (compensates && member.undoes.is_none());
            if stopped {
                now[n] = MemberStatus::Ended(JobState::Cancelled);
                cancel.push(n);
            } else if member.parents.iter().all(|parent| now[*parent].is_ended()) {
                now[n] = MemberStatus::Live;
                release.push(n);
            }
        }
        blocking[n] = now[n].is_bad() && (!member.goes_on || blocked);
    }
    let (undo, state) = outcome(members, &now, &blocking, compensates);
    Advance { release, cancel, undo, state }
}

/// Jobs whose children cannot run. A job cancelled because of a parent always blocks, even if its own failure would
/// not.
fn blocks(members: &[Member], now: &[MemberStatus]) -> Vec<bool> {
    let mut blocking = vec![false; members.len()];
    for (n, member) in members.iter().enumerate().filter(|(_, member)| member.undoes.is_none()) {
        let blocked = member.parents.iter().any(|parent| blocking[*parent]);
        blocking[n] = now[n].is_bad() && (!member.goes_on || blocked);
    }
    blocking
}

fn outcome(
    members: &[Member],
    now: &[MemberStatus],
    blocking: &[bool],
    compensates: bool,
) -> (Option<usize>, WorkflowState) {
    let work = || members.iter().zip(now).zip(blocking).filter(|((member, _), _)| member.undoes.is_none());
    let undoing: Vec<(usize, MemberStatus)> =
        members.iter().zip(now).filter_map(|(member, now)| Some((member.undoes?, *now))).collect();
    if work().any(|((_, now), _)| !now.is_ended()) {
        return (None, WorkflowState::Running);
    }
    let is =
        |now: &MemberStatus, states: &[JobState]| matches!(now, MemberStatus::Ended(s) if states.contains(s));
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
        can && now[*n] == MemberStatus::Ended(JobState::Completed)
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

    pub(in crate::workflow) const DONE: MemberStatus = MemberStatus::Ended(JobState::Completed);
    pub(in crate::workflow) const DEAD: MemberStatus = MemberStatus::Ended(JobState::DeadLetter);
    pub(in crate::workflow) const CANCELLED: MemberStatus = MemberStatus::Ended(JobState::Cancelled);
    use MemberStatus::{Live, Waits};

    pub(in crate::workflow) fn member(status: MemberStatus, parents: &[usize]) -> Member {
        Member { status, parents: parents.to_vec(), goes_on: false, has_undo: true, undoes: None }
    }

    /// a → b, c → d.
    pub(in crate::workflow) fn diamond(states: [MemberStatus; 4]) -> Vec<Member> {
        let [a, b, c, d] = states;
        vec![member(a, &[]), member(b, &[0]), member(c, &[0]), member(d, &[1, 2])]
    }

    fn wants(members: &[Member], on_failure: OnFailure) -> (Vec<usize>, Vec<usize>, WorkflowState) {
        let Advance { release, cancel, undo, state } = advance(members, on_failure);
        assert_eq!(undo, None);
        (release, cancel, state)
    }

    #[test]
    fn a_new_workflow_starts_with_jobs_that_have_no_parents() {
        let got = wants(&diamond([Waits; 4]), OnFailure::Stop);
        assert_eq!(got, (vec![0], vec![], WorkflowState::Running));
    }

    #[test]
    fn a_child_starts_when_its_last_parent_ends() {
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
    fn stop_cancels_what_is_downstream_and_the_rest_continues() {
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
    fn continue_ignores_a_failure_but_not_one_of_an_ancestor() {
        let mut members = diamond([DONE, DEAD, DONE, Waits]);
        members[1].goes_on = true;
        assert_eq!(wants(&members, OnFailure::Stop), (vec![3], vec![], WorkflowState::Running));
        members[3].status = DONE;
        assert_eq!(wants(&members, OnFailure::Stop), (vec![], vec![], WorkflowState::Completed));
        let mut members = diamond([DEAD, Waits, Waits, Waits]);
        members[1].goes_on = true;
        members[2].goes_on = true;
        assert_eq!(wants(&members, OnFailure::Stop), (vec![], vec![1, 2, 3], WorkflowState::Failed));
    }

    #[test]
    fn compensate_cancels_waiting_jobs_then_undoes_the_last_first() {
        let policy = OnFailure::Compensate;
        let mut members = diamond([DONE, DEAD, Live, Waits]);
        members.push(member(Waits, &[2]));
        assert_eq!(wants(&members, policy), (vec![], vec![3, 4], WorkflowState::Running));
        let mut members = diamond([DONE, DEAD, DONE, CANCELLED]);
        let undo = |members: &[Member]| (advance(members, policy).undo, advance(members, policy).state);
        assert_eq!(undo(&members), (Some(2), WorkflowState::Compensating));
        members.push(Member { undoes: Some(2), ..member(Live, &[]) });
        assert_eq!(undo(&members), (None, WorkflowState::Compensating));
        members[4].status = DONE;
        assert_eq!(undo(&members), (Some(0), WorkflowState::Compensating));
        members.push(Member { undoes: Some(0), ..member(DONE, &[]) });
        assert_eq!(undo(&members), (None, WorkflowState::Compensated));
        members[5].status = DEAD;
        assert_eq!(undo(&members), (None, WorkflowState::Failed));
        // When retried, it waits for no other job.
        members[5].status = Waits;
        let again = advance(&members, policy);
        assert_eq!(
            (again.release, again.cancel, again.state),
            (vec![5], vec![], WorkflowState::Compensating)
        );
    }

    #[test]
    fn nothing_is_undone_without_a_failure_or_a_compensating_job() {
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
        for status in [Waits, Live, DONE, DEAD, CANCELLED] {
            assert_eq!(MemberStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(MemberStatus::from_code(2), None);
    }

    /// Runs random graphs in random order with random failures. No child starts before its parents ended, and every
    /// workflow ends.
    #[test]
    fn every_graph_ends_and_no_child_starts_early() {
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
                        parents.iter().all(|p| members[*p].status.is_ended()),
                        "round {round}: {members:?}"
                    );
                    members[n].status = Live;
                }
                for n in step.cancel {
                    assert_eq!(members[n].status, Waits);
                    members[n].status = CANCELLED;
                }
                if let Some(n) = step.undo {
                    members.push(Member { undoes: Some(n), has_undo: false, ..member(Live, &[]) });
                }
                let live: Vec<usize> = (0..members.len()).filter(|n| members[*n].status == Live).collect();
                assert_eq!(step.state.is_ended(), live.is_empty(), "round {round}: {members:?}");
                if live.is_empty() {
                    break step.state;
                }
                let n = live[below(live.len())];
                members[n].status = [DONE, DONE, DONE, DEAD, CANCELLED][below(5)];
                near += usize::from(follows_from_the_children(&members, n, policy));
                steps += 1;
                assert!(steps < 100, "round {round} does not end: {members:?}");
            };
            assert!(members.iter().all(|member| member.status.is_ended()), "round {round}: {members:?}");
            if members.iter().all(|member| member.status == DONE) {
                assert_eq!(end, WorkflowState::Completed);
            }
            assert_eq!(advance(&members, policy).state, end, "deciding again changes nothing");
        }
        assert!(near > 1_000, "{near} ends were judged by their children");
    }

    /// If [`only_releases`] holds for the end of `n`, its children alone determine what to do.
    fn follows_from_the_children(members: &[Member], n: usize, policy: OnFailure) -> bool {
        let MemberStatus::Ended(state) = members[n].status else { return false };
        if members[n].undoes.is_some() || !only_releases(state, members[n].goes_on) {
            return false;
        }
        let next = advance(members, policy);
        let ended = |p: &usize| members[*p].status.is_ended();
        let ripe = |m: &Member| m.status == Waits && m.parents.contains(&n) && m.parents.iter().all(ended);
        let children: Vec<usize> = (0..members.len()).filter(|c| ripe(&members[*c])).collect();
        assert_eq!((next.release, next.cancel), (children, vec![]), "after {n}: {members:?}");
        if !members.iter().all(|member| member.status.is_ended()) {
            assert_eq!((next.undo, next.state), (None, WorkflowState::Running), "after {n}: {members:?}");
        }
        true
    }
}
