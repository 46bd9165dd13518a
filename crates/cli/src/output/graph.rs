//! A workflow as a tree of plain characters: each job stands under the last of those it runs after and names the others.

use windlass_core::JobId;
use windlass_core::store::{MemberRecord, WorkflowDetail};

use super::{Output, visible};
use crate::failure::Failure;

/// `own` is the job that is being shown.
pub(crate) fn print(detail: &WorkflowDetail, own: Option<JobId>, output: &Output) -> Result<(), Failure> {
    let workflow = &detail.workflow;
    let name = workflow.name.as_deref().map(|name| format!(" {}", visible(name))).unwrap_or_default();
    let counts = &workflow.counts;
    output.line(format_args!(
        "workflow {}{name} · {} · {} of {} jobs completed · on failure: {}",
        workflow.id,
        workflow.state,
        counts.completed,
        counts.total(),
        workflow.on_failure
    ))?;
    for line in lines(&detail.members, own) {
        output.line(format_args!("  {line}"))?;
    }
    Ok(())
}

/// Columns of branches: what stands deeper is drawn no deeper, and names whom it runs after.
const DEEPEST: usize = 30;

fn lines(members: &[MemberRecord], own: Option<JobId>) -> Vec<String> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
    let mut roots = Vec::new();
    for (n, member) in members.iter().enumerate() {
        match member.parents.last().copied().or(member.undoes) {
            Some(parent) if parent < n => children[parent].push(n),
            _ => roots.push(n),
        }
    }
    // A chain may be as long as a workflow, so what is left to do is kept here and not on the stack.
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
    let width = drawn.iter().map(|(text, ..)| text.chars().count()).max().unwrap_or(0);
    let line = |(text, n, deep)| format!("{text:<width$}  {}", about(members, n, deep, own));
    drawn.into_iter().map(line).collect()
}

/// `deep`: the branches do not show under whom it stands.
fn about(members: &[MemberRecord], n: usize, deep: bool, own: Option<JobId>) -> String {
    let member = &members[n];
    let state = if member.waits { "waits" } else { member.state.name() };
    let mut text = format!("{state:<11}  {}  {}", member.job, visible(&member.kind));
    let (told, word) = match member.parents.split_last() {
        Some(_) if deep => (member.parents.as_slice(), "after"),
        Some((_, others)) => (others, "also after"),
        None => (member.undoes.as_slice(), "undoes"),
    };
    if !told.is_empty() && (deep || word == "also after") {
        let names: Vec<String> = told.iter().map(|parent| visible(&members[*parent].name)).collect();
        text.push_str(&format!("  {word} {}", names.join(", ")));
    }
    if own == Some(member.job) {
        text.push_str("  <- this job");
    }
    text
}

#[cfg(test)]
mod tests {
    use windlass_core::JobState;

    use super::*;

    fn member(name: &str, state: JobState, parents: &[usize]) -> MemberRecord {
        MemberRecord {
            name: name.to_owned(),
            job: JobId(7),
            kind: "NOOP".to_owned(),
            state,
            waits: state == JobState::Scheduled,
            parents: parents.to_vec(),
            undoes: None,
            goes_on: false,
        }
    }

    #[test]
    fn a_deep_chain_stays_narrow_and_names_what_it_follows() {
        let name = |n: usize| format!("j{n}");
        let parents = |n: usize| n.checked_sub(1).into_iter().collect::<Vec<_>>();
        let chain: Vec<MemberRecord> =
            (0..1_000).map(|n| member(&name(n), JobState::Completed, &parents(n))).collect();
        let drawn = lines(&chain, None);
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
        use JobState::*;
        let members = [
            member("a", Completed, &[]),
            member("b", Running, &[0]),
            member("c", Failed, &[0]),
            member("d", Scheduled, &[1, 2]),
            member("alone", Pending, &[]),
            MemberRecord { undoes: Some(0), ..member("undo:a", Pending, &[]) },
        ];
        let drawn = lines(&members, None).join("\n");
        let wanted = "a          completed    7  NOOP
|- b       running      7  NOOP
|- c       failed       7  NOOP
|  `- d    waits        7  NOOP  also after b
`- undo:a  pending      7  NOOP
alone      pending      7  NOOP";
        assert_eq!(drawn, wanted, "\n{drawn}");
        assert!(lines(&members, Some(JobId(7)))[0].ends_with("<- this job"));
    }
}
