//! Two parts with the same names: all clashes are reported at once, and nothing is opened.

// Clippy's allowances for tests do not cover helper functions.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::backup::Table;
use windlass_core::schedule::ScheduleSpec;
use windlass_core::{BudgetSpec, KindSpec, QueueSpec, TypeSpec};
use windlass_engine::{Completion, handler};
use windlass_pack::metrics::{Samples, Series};
use windlass_pack::page::{Asset, Page};
use windlass_pack::settings::{Form, Section, Setting, Settings};
use windlass_pack::verb::Verb;
use windlass_pack::{Assembly, Inventory, Method, Pack, PackStep, Registry, Route, Scope, SqlText, nothing};

static TABLE: Table = Table { name: "shared_rows", columns: &[] };

/// Registers one of everything, under fixed names.
struct Greedy(&'static str);

impl Pack for Greedy {
    fn name(&self) -> &'static str {
        self.0
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::new(Section::plain("shared"), "key", Form::Flag, "true", "")]
    }

    fn register(&self, registry: &mut Registry) {
        registry
            .queue(QueueSpec::named("SHARED"))
            .kind(KindSpec::new("SHARED", "SHARED"), handler(|_, _: ()| async { Ok(Completion::done()) }))
            .schedule(ScheduleSpec { name: "shared".to_owned(), ..ScheduleSpec::default() })
            .budget(BudgetSpec::named("shared"))
            .entity_type(TypeSpec::named("shared"))
            .table(&TABLE)
            .route(
                Route::new(Method::GET, "/v1/shared", "shared", "", |_| async { Ok(nothing()) })
                    .needs(Scope::Read),
            )
            .page(Page::new("shared", "Shared", "/v1/shared"))
            .asset(Asset { name: "shared", path: "/assets/shared.js", content_type: "", content: "" })
            .verb(Verb::call("shared", "list", "", Method::GET, "/v1/shared"))
            .metrics(&[Series::gauge("shared", "")], || async { Ok(Samples::default()) })
            .figures(&[("shared", "")], || async { Ok(Vec::new()) })
            .check("shared", || async { Ok(Vec::new()) })
            .cleanup("shared", "", Duration::ZERO, |_| async { Ok(0) });
    }
}

#[test]
fn all_clashes_are_reported_at_once() {
    let packs: Vec<Arc<dyn Pack>> = vec![Arc::new(Greedy("one")), Arc::new(Greedy("two"))];
    let refused = Assembly::new(&packs, Settings::default(), Vec::new()).err().unwrap();
    let reported: Vec<String> =
        refused.problems.iter().map(|problem| format!("{}: {}", problem.field, problem.rule)).collect();
    let expected = [
        "queue `SHARED`",
        "kind `SHARED`",
        "schedule `shared`",
        "budget `shared`",
        "entity type `shared`",
        "table `shared_rows`",
        "route `GET /v1/shared`",
        "page `shared`",
        "asset `/assets/shared.js`",
        "verb `shared list`",
        "configuration key `shared.key`",
        "metric `shared`",
        "figure `shared`",
        "health check `shared`",
        "cleanup task `shared`",
    ];
    let expected: Vec<String> =
        expected.iter().map(|name| format!("{name}: one and two both register it")).collect();
    assert_eq!(reported, expected);
}

/// Names used by the host are taken too.
#[test]
fn names_of_the_host_are_taken() {
    let mut host = Inventory::of("windlass");
    host.routes = vec!["GET /v1/shared".to_owned()];
    host.metrics = vec!["shared".to_owned()];
    let packs: Vec<Arc<dyn Pack>> = vec![Arc::new(Greedy("one"))];
    let refused = Assembly::new(&packs, Settings::default(), vec![host]).err().unwrap();
    let fields: Vec<&str> = refused.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["route `GET /v1/shared`", "metric `shared`"]);
}

/// `shared` alone takes the whole noun: a part cannot add `shared list` to it.
#[test]
fn a_part_cannot_add_a_verb_to_a_noun_of_the_host() {
    let mut host = Inventory::of("windlass");
    host.verbs = vec!["shared".to_owned()];
    let packs: Vec<Arc<dyn Pack>> = vec![Arc::new(Greedy("one"))];
    let refused = Assembly::new(&packs, Settings::default(), vec![host]).err().unwrap();
    assert_eq!(refused.problems[0].field, "verb `shared list`");
    assert_eq!(refused.problems[0].rule, "its noun belongs to windlass");
}

struct Outside;

impl Pack for Outside {
    fn name(&self) -> &'static str {
        "Outside!"
    }

    fn register(&self, registry: &mut Registry) {
        let text = SqlText::Same("create table windlass.jobs (x bigint)");
        registry.migration(PackStep { version: 2, name: "x", up: text, down: text });
    }
}

#[test]
fn invalid_names_and_steps_are_refused_before_anything_is_opened() {
    let packs: Vec<Arc<dyn Pack>> = vec![Arc::new(Outside)];
    let refused = Assembly::new(&packs, Settings::default(), Vec::new()).err().unwrap().to_string();
    for part in ["pack `Outside!`", "must be 1: steps are numbered from 1", "windlass.jobs"] {
        assert!(refused.contains(part), "`{part}` is missing in {refused}");
    }
}
