//! Validates names and parents of a workflow. Reports every problem with its field.

use std::collections::{BTreeSet, HashMap};

use crate::Invalid;
use crate::input::shown;

/// Maximum number of jobs, not counting compensating ones.
pub const MAX_JOBS: usize = 1_000;
/// Maximum total length of all `after` lists. Each entry is stored with both of its jobs and read whenever one of them
/// ends.
pub const MAX_EDGES: usize = 10_000;

/// Takes each job's name and the names of its parents. Returns an order with parents before children that otherwise
/// keeps the given order: for each position, the job and the positions of its parents.
pub fn check(jobs: &[(&str, Vec<&str>)]) -> Result<Vec<(usize, Vec<usize>)>, Invalid> {
    let mut invalid = Invalid::default();
    if jobs.is_empty() {
        invalid.add("jobs", "must not be empty");
    }
    if jobs.len() > MAX_JOBS {
        invalid.add("jobs", format!("has {} entries; a workflow has at most {MAX_JOBS}", jobs.len()));
        return Err(invalid);
    }
    let edges: usize = jobs.iter().map(|(_, after)| after.len()).sum();
    if edges > MAX_EDGES {
        let rule = format!(
            "has {edges} entries over all jobs; a workflow has at most {MAX_EDGES}: let a job in between wait for many"
        );
        invalid.add("jobs[].after", rule);
        return Err(invalid);
    }
    let mut named: HashMap<&str, usize> = HashMap::with_capacity(jobs.len());
    for (n, (name, _)) in jobs.iter().enumerate() {
        invalid.check_name(&format!("jobs[{n}].name"), name);
        if let Some(first) = named.get(name) {
            invalid.add(format!("jobs[{n}].name"), format!("is also the name of jobs[{first}]"));
        } else {
            named.insert(name, n);
        }
    }
    let mut parents: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); jobs.len()];
    for (n, (name, after)) in jobs.iter().enumerate() {
        for (k, parent) in after.iter().enumerate() {
            let field = || format!("jobs[{n}].after[{k}]");
            match named.get(parent) {
                None => invalid.add(field(), format!("names no job of the workflow: `{}`", shown(parent))),
                Some(_) if parent == name => invalid.add(field(), "is the job itself"),
                Some(of) if !parents[n].insert(*of) => {
                    invalid.add(field(), format!("names `{}` twice", shown(parent)));
                }
                Some(_) => {}
            }
        }
    }
    invalid.into_result()?;
    order(jobs, &parents)
}

/// Next is the first job whose parents are all placed.
fn order(
    jobs: &[(&str, Vec<&str>)],
    parents: &[BTreeSet<usize>],
) -> Result<Vec<(usize, Vec<usize>)>, Invalid> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); jobs.len()];
    let mut open: Vec<usize> = parents.iter().map(BTreeSet::len).collect();
    for (n, of) in parents.iter().enumerate() {
        for parent in of {
            children[*parent].push(n);
        }
    }
    let mut free: BTreeSet<usize> = (0..jobs.len()).filter(|n| open[*n] == 0).collect();
    let mut place = vec![usize::MAX; jobs.len()];
    let mut placed = Vec::with_capacity(jobs.len());
    while let Some(n) = free.pop_first() {
        place[n] = placed.len();
        placed.push((n, parents[n].iter().map(|parent| place[*parent]).collect()));
        for child in &children[n] {
            open[*child] -= 1;
            if open[*child] == 0 {
                free.insert(*child);
            }
        }
    }
    if placed.len() == jobs.len() {
        return Ok(placed);
    }
    let cycle = cycle(parents, &place);
    let names: Vec<&str> = cycle.iter().map(|n| jobs[*n].0).collect();
    let first = cycle.first().copied().unwrap_or(0);
    let rule = format!("has a cycle: {}", names.join(" after "));
    Err(Invalid::one(format!("jobs[{first}].after"), rule))
}

/// Every unplaced job has an unplaced parent, so following parents must lead back to a job already visited.
fn cycle(parents: &[BTreeSet<usize>], place: &[usize]) -> Vec<usize> {
    let unplaced = |n: &usize| place[*n] == usize::MAX;
    let mut way: Vec<usize> = Vec::new();
    let mut next = (0..place.len()).find(unplaced);
    while let Some(n) = next {
        if let Some(from) = way.iter().position(|seen| *seen == n) {
            way.drain(..from);
            way.push(n);
            return way;
        }
        way.push(n);
        next = parents[n].iter().copied().find(unplaced);
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(jobs: &[(&str, Vec<&str>)]) -> String {
        check(jobs).unwrap_err().to_string()
    }

    #[test]
    fn parents_come_first_and_the_given_order_is_kept_otherwise() {
        let jobs = [("d", vec!["b", "c"]), ("b", vec!["a"]), ("a", vec![]), ("c", vec!["a"]), ("e", vec![])];
        let placed = check(&jobs).unwrap();
        let names: Vec<&str> = placed.iter().map(|(n, _)| jobs[*n].0).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert_eq!(placed[3].1, [1, 2]);
        for (place, (_, parents)) in placed.iter().enumerate() {
            assert!(parents.iter().all(|parent| *parent < place));
        }
    }

    #[test]
    fn an_invalid_workflow_is_refused_with_field_and_rule() {
        assert_eq!(refused(&[]), "jobs: must not be empty");
        let twice = refused(&[("a", vec![]), ("a", vec![])]);
        assert_eq!(twice, "jobs[1].name: is also the name of jobs[0]");
        let unknown = refused(&[("a", vec!["b"]), ("c", vec!["a", "a"]), ("d", vec!["d"])]);
        assert!(unknown.contains("jobs[0].after[0]: names no job of the workflow: `b`"), "{unknown}");
        assert!(unknown.contains("jobs[1].after[1]: names `a` twice"), "{unknown}");
        assert!(unknown.contains("jobs[2].after[0]: is the job itself"), "{unknown}");
        assert!(refused(&[("", vec![])]).contains("jobs[0].name: must be 1–64"));
        let names: Vec<String> = (0..=MAX_JOBS).map(|n| format!("j{n}")).collect();
        let many: Vec<(&str, Vec<&str>)> = names.iter().map(|name| (name.as_str(), vec![])).collect();
        assert_eq!(refused(&many), "jobs: has 1001 entries; a workflow has at most 1000");
    }

    #[test]
    fn edges_are_bounded() {
        let names: Vec<String> = (0..200).map(|n| format!("j{n}")).collect();
        let after = |n: usize| names[..n].iter().map(String::as_str).collect();
        let dense = |jobs: usize| -> Vec<(&str, Vec<&str>)> {
            names[..jobs].iter().enumerate().map(|(n, name)| (name.as_str(), after(n))).collect()
        };
        assert_eq!(check(&dense(141)).unwrap().len(), 141, "9,870 edges");
        let refused = refused(&dense(142));
        assert!(
            refused
                .starts_with("jobs[].after: has 10011 entries over all jobs; a workflow has at most 10000"),
            "{refused}"
        );
    }

    #[test]
    fn a_cycle_is_named() {
        let circle =
            [("in", vec![]), ("a", vec!["in", "c"]), ("b", vec!["a"]), ("c", vec!["b"]), ("z", vec!["a"])];
        assert_eq!(refused(&circle), "jobs[1].after: has a cycle: a after c after b after a");
    }
}
