//! How the groups of a queue share its slots. Pure: the dispatcher says who runs and wants what.
//!
//! A slot is one run of the queue's concurrency. Each group that wants some is entitled to an equal part, the odd ones
//! going round; what a group does not use is the others'. So neither kinds without a limit nor a limited one can shut
//! the rest of its queue out, and no slot stays empty while anybody has something to run.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) running: u32,
    /// Slots promised to a claim under way.
    pub(crate) coming: u32,
    /// Has something waiting and may take it.
    pub(crate) wants: bool,
}

/// Slots that `group` may claim for; negative while more runs than should. Where fewer are free than those below their
/// part lack, they go in turn: each of them waiting for the others would leave them empty.
pub(crate) fn open_to(group: usize, concurrency: u32, shares: &[Share], turn: usize) -> i64 {
    let running: i64 = shares.iter().map(|share| i64::from(share.running)).sum();
    let others = shares.iter().enumerate().filter(|(n, _)| *n != group);
    let free =
        i64::from(concurrency) - running - others.map(|(_, share)| i64::from(share.coming)).sum::<i64>();
    if shares.len() < 2 || free <= 0 {
        return free;
    }
    let wanting = |n: &usize| *n == group || shares.get(*n).is_some_and(|share| share.wants);
    let order: Vec<usize> = (0..shares.len()).map(|n| (turn + n) % shares.len()).filter(wanting).collect();
    let (each, odd) = (concurrency as usize / order.len(), concurrency as usize % order.len());
    let (mut mine, mut left) = (0, free);
    for (place, n) in order.into_iter().enumerate() {
        let Some(share) = shares.get(n) else { continue };
        let part = (each + usize::from(place < odd)) as i64;
        let has = share.running + if n == group { 0 } else { share.coming };
        let lacks = (part - i64::from(has)).clamp(0, left);
        left -= lacks;
        if n == group {
            mine = lacks;
        }
    }
    mine + left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(running: u32, wants: bool) -> Share {
        Share { running, coming: 0, wants }
    }

    fn open(concurrency: u32, shares: &[Share], turn: usize) -> Vec<i64> {
        (0..shares.len()).map(|group| open_to(group, concurrency, shares, turn)).collect()
    }

    #[test]
    fn alone_a_group_has_them_all() {
        assert_eq!(open(10, &[share(3, true)], 0), [7]);
        assert_eq!(open(2, &[share(3, true)], 0), [-1], "the concurrency was lowered");
        assert_eq!(open(10, &[share(3, true), share(0, false)], 0)[0], 7, "the other wants none");
    }

    #[test]
    fn those_who_want_get_equal_parts_and_the_odd_one_goes_round() {
        let all = [share(0, true), share(0, true), share(0, true)];
        assert_eq!(open(10, &all, 0), [4, 3, 3]);
        assert_eq!(open(10, &all, 2), [3, 3, 4]);
        assert_eq!(open(1, &all, 1), [0, 1, 0], "one of them, never none");
    }

    #[test]
    fn a_part_is_kept_for_whoever_is_below_it() {
        assert_eq!(open(10, &[share(9, true), share(0, true)], 0), [0, 1]);
        assert_eq!(open(10, &[share(10, true), share(0, true)], 0), [0, 0], "the next to end is the other's");
        assert_eq!(open(10, &[share(5, true), share(2, true)], 0), [0, 3]);
    }

    #[test]
    fn too_few_for_all_go_in_turn() {
        let shares = [share(3, true), share(0, true), share(0, true)];
        assert_eq!(open(4, &shares, 0), [0, 1, 0]);
        assert_eq!(open(4, &shares, 2), [0, 0, 1]);
    }

    #[test]
    fn what_was_promised_is_not_promised_again() {
        let shares = [Share { running: 0, coming: 10, wants: true }, share(0, true)];
        assert_eq!(open(10, &shares, 0)[1], 0);
    }
}
