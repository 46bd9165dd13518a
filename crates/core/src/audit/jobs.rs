//! Audit records for actions on jobs: one job with its values before and after, or a filter with counts.

use serde_json::{Map, Value, json};

use super::words::{
    DEAD_LETTER_DELETE, DEAD_LETTER_REPLAY, JOB_CANCEL, JOB_DELETE, JOB_RETRY, JOBS_CANCEL, JOBS_DELETE,
    JOBS_RETRY,
};
use super::{NewAudit, differences};
use crate::store::{Action, Bulk, JobFilter};
use crate::{JobId, JobRecord};

/// Above this many jobs, one record covers all of them.
const MAX_SEPARATE_RECORDS: usize = 100;

/// The jobs that each get their own audit record; empty if one record covers all.
pub fn named_jobs(filter: &JobFilter) -> &[JobId] {
    match filter.ids.len() {
        0..=MAX_SEPARATE_RECORDS => &filter.ids,
        _ => &[],
    }
}

fn is_about_dead(filter: &JobFilter) -> bool {
    !filter.states.is_empty() && filter.states.iter().all(|state| state.is_dead())
}

/// The values of a job that an operator can change.
pub fn job_figures(job: &JobRecord, cancel_requested: bool) -> Map<String, Value> {
    let mut figures = Map::new();
    figures.insert("kind".to_owned(), json!(job.kind));
    figures.insert("state".to_owned(), json!(job.state.name()));
    figures.insert("priority".to_owned(), json!(job.priority));
    figures.insert("run_at".to_owned(), json!(job.run_at.map(|at| at.to_string())));
    if cancel_requested {
        figures.insert("cancel_requested".to_owned(), json!(true));
    }
    figures
}

/// For one job; no values after it was deleted. `run_at` is included only if the job was waiting before: a job that
/// returns to its queue waits from the record's own time on.
pub fn on_job(
    filter: &JobFilter,
    action: Action,
    id: JobId,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Option<NewAudit> {
    let dead = is_about_dead(filter);
    let act = match action {
        Action::Retry if dead => DEAD_LETTER_REPLAY,
        Action::Delete if dead => DEAD_LETTER_DELETE,
        Action::Retry => JOB_RETRY,
        Action::Cancel => JOB_CANCEL,
        Action::Delete => JOB_DELETE,
    };
    let mut detail = differences(before, after);
    let waited = before.get("run_at").is_some_and(|at| !at.is_null());
    if !waited || action == Action::Cancel {
        detail.remove("run_at");
    }
    NewAudit::about(act, format!("job/{id}"), detail)
}

/// For many jobs: the filter, and counts of what this transaction did.
pub fn on_jobs(
    filter: &JobFilter,
    words: Map<String, Value>,
    action: Action,
    bulk: &Bulk,
) -> Option<NewAudit> {
    if bulk.done + bulk.requested + bulk.superseded == 0 {
        return None;
    }
    let dead = is_about_dead(filter);
    let act = match action {
        Action::Retry if dead => DEAD_LETTER_REPLAY,
        Action::Delete if dead => DEAD_LETTER_DELETE,
        Action::Retry => JOBS_RETRY,
        Action::Cancel => JOBS_CANCEL,
        Action::Delete => JOBS_DELETE,
    };
    let mut detail = Map::new();
    detail.insert("filter".to_owned(), json!({ "from": words }));
    add_counts(&mut detail, bulk);
    NewAudit::about(act, "jobs".to_owned(), detail)
}

pub(super) fn add_counts(detail: &mut Map<String, Value>, bulk: &Bulk) {
    let Bulk { done, requested, superseded, skipped } = *bulk;
    let counts = [("done", done), ("requested", requested), ("superseded", superseded), ("skipped", skipped)];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        detail.insert(name.to_owned(), json!({ "to": count }));
    }
}

/// A filter as in the API; the store supplies the names. Ids are included only if they were selected one by one.
pub fn filter_words(
    filter: &JobFilter,
    picked: &[JobId],
    queue: Option<String>,
    kind: Option<String>,
) -> Map<String, Value> {
    let mut words = Map::new();
    let mut add = |name: &str, value: Value| words.insert(name.to_owned(), value);
    if !filter.ids.is_empty() {
        add("ids", picked.iter().map(JobId::to_string).collect());
    }
    if !filter.states.is_empty() {
        add("state", filter.states.iter().map(|state| state.name()).collect());
    }
    if let Some(queue) = queue {
        add("queue", queue.into());
    }
    if let Some(kind) = kind {
        add("kind", kind.into());
    }
    if let Some(entity) = &filter.entity {
        add("entity", format!("{}:{}", entity.entity_type, entity.entity_id).into());
    }
    if let Some(tag) = &filter.tag {
        add("tag", tag.as_str().into());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobState;

    fn figures(state: &str, run_at: Option<&str>) -> Map<String, Value> {
        let figures = json!({ "kind": "K", "state": state, "run_at": run_at });
        figures.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn actions_distinguish_one_job_from_many_and_dead_letters_from_jobs() {
        let one = JobFilter { ids: vec![JobId(7)], ..JobFilter::default() };
        let dead = JobFilter { states: vec![JobState::Failed, JobState::DeadLetter], ..one.clone() };
        assert_eq!(named_jobs(&one), [JobId(7)]);
        let many = |count| JobFilter { ids: (0..count).map(JobId).collect(), ..one.clone() };
        assert_eq!((named_jobs(&many(100)).len(), named_jobs(&many(101)).len()), (100, 0));
        let (was, is) = (figures("dead_letter", None), figures("pending", Some("2026-11-18T07:00:00Z")));
        let act = |filter, action| on_job(filter, action, JobId(7), &was, &is).unwrap();
        assert_eq!(act(&one, Action::Retry).act, JOB_RETRY);
        assert_eq!(act(&dead, Action::Retry).act, DEAD_LETTER_REPLAY);
        assert_eq!(act(&dead, Action::Delete).act, DEAD_LETTER_DELETE);
        let note = act(&one, Action::Retry);
        assert_eq!(note.subject, "job/7");
        assert_eq!(
            Value::Object(note.detail),
            json!({ "state": { "from": "dead_letter", "to": "pending" } })
        );
        assert_eq!(on_job(&one, Action::Retry, JobId(7), &was, &was), None, "nothing changed");
    }

    #[test]
    fn a_bulk_record_has_the_filter_and_counts() {
        let filter = JobFilter {
            ids: vec![JobId(1), JobId(2)],
            states: vec![JobState::Failed],
            tag: Some("t".to_owned()),
            ..JobFilter::default()
        };
        let words = filter_words(&filter, &[JobId(2)], Some("LOW".to_owned()), None);
        let bulk = Bulk { done: 3, superseded: 1, ..Bulk::default() };
        let note = on_jobs(&JobFilter::default(), words.clone(), Action::Retry, &bulk).unwrap();
        assert_eq!(on_jobs(&filter, words.clone(), Action::Retry, &bulk).unwrap().act, DEAD_LETTER_REPLAY);
        let meant = json!({ "ids": ["2"], "state": ["failed"], "queue": "LOW", "tag": "t" });
        let detail = json!({ "filter": { "from": meant }, "done": { "to": 3 }, "superseded": { "to": 1 } });
        assert_eq!((note.act, note.subject.as_str()), (JOBS_RETRY, "jobs"));
        assert_eq!(Value::Object(note.detail), detail);
        assert_eq!(on_jobs(&filter, words, Action::Retry, &Bulk { skipped: 9, ..Bulk::default() }), None);
    }
}
