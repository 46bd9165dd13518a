//! A workflow as a tree in plain text: each job is below the last of its parents and names the others.

use std::collections::HashMap;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::{Output, visible};
use crate::api::answer::{list, number, optional_text, text, texts};
use crate::failure::Failure;

/// A job of a workflow, with the indexes of its parents.
struct Member {
    name: String,
    id: String,
    kind: String,
    state: String,
    waits: bool,
    parents: Vec<usize>,
    undoes: Option<usize>,
}

/// `own` is the id of the job being shown.
pub(crate) fn print(workflow: &Value, own: Option<&str>, output: &Output) -> Result<(), Failure> {
    let name = optional_text(workflow, "name").map(|name| format!(" {}", visible(&name))).unwrap_or_default();
    let counts = &workflow["counts"];
    output.line(format_args!(
        "workflow {}{name} · {} · {} of {} jobs completed · on failure: {}",
        visible(text(workflow, "id")),
        visible(text(workflow, "state")),
        number(counts, "completed"),
        number(counts, "total"),
        visible(text(workflow, "on_failure"))
    ))?;
    for line in lines(&members(workflow), own) {
        output.line(format_args!("  {line}"))?;
    }
    Ok(())
}

fn members(workflow: &Value) -> Vec<Member> {
    let jobs = list(workflow, "jobs");
    let places: HashMap<&str, usize> =
        jobs.iter().enumerate().map(|(n, job)| (text(job, "name"), n)).collect();
    let place = |name: &str| places.get(name).copied();
    let member = |job: &Value| Member {
        name: text(job, "name").to_owned(),
        id: text(job, "id").to_owned(),
        kind: text(job, "kind").to_owned(),
        state: text(job, "state").to_owned(),
        waits: job["waiting"] == true,
        parents: texts(job, "after").iter().filter_map(|name| place(name)).collect(),
        undoes: job["undoes"].as_str().and_then(place),
    };
    jobs.iter().map(member).collect()
}

/// Maximum columns of branches. Deeper jobs are not indented further and name their parents.
const DEEPEST: usize = 30;

fn lines(members: &[Member], own: Option<&str>) -> Vec<String> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
    let mut roots = Vec::new();
    for (n, member) in members.iter().enumerate() {
        match member.parents.last().copied().or(member.undoes) {
            Some(parent) if parent < n => children[parent].push(n),
            _ => roots.push(n),
        }
    }
    // An explicit stack, because a chain may be as long as a workflow.
    let mut open: Vec<(usize, String, String)> =
        roots.iter().rev().map(|root| (*root, String::new(), String::new())).collect();
    let mut drawn = Vec::with_capacity(members.len());
    while let Some((n, branch, below)) = open.pop() {
        let deep = below.len() >= DEEPEST;
        for (k, child) in children[n].iter().enumerate().rev() {
            let last = k + 1 == children[n].len();
            let (knot, line) = if last { ("`- ", "   ") } else { ("|- ", "|  ") };
            open.push(match deep {
                true => (*child, branch.clone(), below.clone()),
                false => (*child, format!("{below}{knot}"), format!("{below}{line}")),
            });
        }
        drawn.push((format!("{branch}{}", visible(&members[n].name)), n, deep));
    }
    let width = drawn.iter().map(|(text, ..)| text.width()).max().unwrap_or(0);
    let line = |(text, n, deep): (String, usize, bool)| {
        let room = " ".repeat(width.saturating_sub(text.width()));
        format!("{text}{room}  {}", about(members, n, deep, own))
    };
    drawn.into_iter().map(line).collect()
}

/// `deep`: the branches no longer show its parent.
fn about(members: &[Member], n: usize, deep: bool, own: Option<&str>) -> String {
    let member = &members[n];
    let state = if member.waits { "waits".to_owned() } else { visible(&member.state) };
    let mut text = format!("{state:<11}  {}  {}", visible(&member.id), visible(&member.kind));
    let (parents, word) = match member.parents.split_last() {
        Some(_) if deep => (member.parents.as_slice(), "after"),
        Some((_, others)) => (others, "also after"),
        None => (member.undoes.as_slice(), "undoes"),
    };
    if !parents.is_empty() && (deep || word == "also after") {
        let names: Vec<String> = parents.iter().map(|parent| visible(&members[*parent].name)).collect();
        text.push_str(&format!("  {word} {}", names.join(", ")));
    }
    if own == Some(member.id.as_str()) {
        text.push_str("  <- this job");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(name: &str, state: &str, after: &[&str]) -> Value {
        json!({ "name": name, "id": "7", "kind": "NOOP", "state": state, "waiting": state == "scheduled",
            "after": after, "undoes": null })
    }

    fn drawn(jobs: Vec<Value>, own: Option<&str>) -> Vec<String> {
        lines(&members(&json!({ "jobs": jobs })), own)
    }

    #[test]
    fn a_deep_chain_stays_narrow_and_names_its_parents() {
        let name = |n: usize| format!("j{n}");
        let one = |n: usize| match n.checked_sub(1) {
            Some(before) => member(&name(n), "completed", &[&name(before)]),
            None => member(&name(n), "completed", &[]),
        };
        let drawn = drawn((0..1_000).map(one).collect(), None);
        let widest = drawn.iter().map(|line| line.chars().count()).max().unwrap();
        assert!(widest < 100, "{widest} columns");
        assert!(
            drawn[9].starts_with(&format!("{}`- j9", " ".repeat(24))) && !drawn[9].contains("after"),
            "{}",
            drawn[9]
        );
        assert!(drawn[999].ends_with("after j998"), "{}", drawn[999]);
    }

    #[test]
    fn a_diamond_is_a_tree_with_a_note() {
        let mut undo = member("undo:a", "pending", &[]);
        undo["undoes"] = json!("a");
        let members = vec![
            member("a", "completed", &[]),
            member("b", "running", &["a"]),
            member("c", "failed", &["a"]),
            member("d", "scheduled", &["b", "c"]),
            member("alone", "pending", &[]),
            undo,
        ];
        let tree = drawn(members.clone(), None).join("\n");
        let wanted = "a          completed    7  NOOP
|- b       running      7  NOOP
|- c       failed       7  NOOP
|  `- d    waits        7  NOOP  also after b
`- undo:a  pending      7  NOOP
alone      pending      7  NOOP";
        assert_eq!(tree, wanted, "\n{tree}");
        assert!(drawn(members, Some("7"))[0].ends_with("<- this job"));
    }

    #[test]
    fn states_are_aligned_for_names_in_any_script() {
        let members = vec![
            member("写真", "completed", &[]),
            member("📦🚚", "running", &["写真"]),
            member("ascii", "failed", &["写真"]),
        ];
        let drawn = drawn(members, None).join("\n");
        let wanted = "写真      completed    7  NOOP
|- 📦🚚   running      7  NOOP
`- ascii  failed       7  NOOP";
        assert_eq!(drawn, wanted, "\n{drawn}");
    }
}
