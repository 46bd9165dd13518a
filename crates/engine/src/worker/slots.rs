//! How the groups of a queue share its slots. Pure.
//!
//! A slot is one run of the queue's concurrency. Each group that wants slots is entitled to an equal part; remainders
//! go round robin, and slots a group does not use go to the others. So no group can starve the rest of its queue, and
//! no slot stays empty while a group has something to run.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupLoad {
    pub(crate) running: u32,
    /// Slots promised to a claim under way.
    pub(crate) coming: u32,
    /// Has something waiting that its limits allow to run.
    pub(crate) wants: bool,
}

/// Slots that `group` may claim for; negative while more run than the concurrency allows. Where there are too few for
/// every group that is below its part, they are given out in order from the group `first`: reserving them for all would
/// leave them empty.
pub(crate) fn open_to(group: usize, concurrency: u32, loads: &[GroupLoad], first: usize) -> i64 {
    let running: i64 = loads.iter().map(|load| i64::from(load.running)).sum();
    let others = loads.iter().enumerate().filter(|(n, _)| *n != group);
    let free = i64::from(concurrency) - running - others.map(|(_, load)| i64::from(load.coming)).sum::<i64>();
    if loads.len() < 2 || free <= 0 {
        return free;
    }
    let wanting = |n: &usize| *n == group || loads.get(*n).is_some_and(|load| load.wants);
    let order: Vec<usize> = (0..loads.len()).map(|n| (first + n) % loads.len()).filter(wanting).collect();
    let (each, odd) = (concurrency as usize / order.len(), concurrency as usize % order.len());
    let (mut mine, mut left) = (0, free);
    for (place, n) in order.into_iter().enumerate() {
        let Some(load) = loads.get(n) else { continue };
        let part = (each + usize::from(place < odd)) as i64;
        let has = load.running + if n == group { 0 } else { load.coming };
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

    fn load(running: u32, wants: bool) -> GroupLoad {
        GroupLoad { running, coming: 0, wants }
    }

    fn open(concurrency: u32, loads: &[GroupLoad], first: usize) -> Vec<i64> {
        (0..loads.len()).map(|group| open_to(group, concurrency, loads, first)).collect()
    }

    #[test]
    fn a_group_alone_has_every_slot() {
        assert_eq!(open(10, &[load(3, true)], 0), [7]);
        assert_eq!(open(2, &[load(3, true)], 0), [-1], "the concurrency was lowered");
        assert_eq!(open(10, &[load(3, true), load(0, false)], 0)[0], 7, "the other wants none");
    }

    #[test]
    fn groups_that_want_slots_get_equal_parts_and_the_remainder_goes_round() {
        let all = [load(0, true), load(0, true), load(0, true)];
        assert_eq!(open(10, &all, 0), [4, 3, 3]);
        assert_eq!(open(10, &all, 2), [3, 3, 4]);
        assert_eq!(open(1, &all, 1), [0, 1, 0], "one of them, never none");
    }

    #[test]
    fn slots_are_kept_for_a_group_below_its_part() {
        assert_eq!(open(10, &[load(9, true), load(0, true)], 0), [0, 1]);
        assert_eq!(
            open(10, &[load(10, true), load(0, true)], 0),
            [0, 0],
            "the next slot to get free goes to the other"
        );
        assert_eq!(open(10, &[load(5, true), load(2, true)], 0), [0, 3]);
    }

    #[test]
    fn too_few_slots_for_all_are_given_out_in_order() {
        let loads = [load(3, true), load(0, true), load(0, true)];
        assert_eq!(open(4, &loads, 0), [0, 1, 0]);
        assert_eq!(open(4, &loads, 2), [0, 0, 1]);
    }

    #[test]
    fn a_promised_slot_is_not_promised_again() {
        let loads = [GroupLoad { running: 0, coming: 10, wants: true }, load(0, true)];
        assert_eq!(open(10, &loads, 0)[1], 0);
    }
}
