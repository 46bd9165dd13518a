//! Every data verb against a server, from an empty folder: the same results, and no database is created.

use serde_json::Value;

use crate::place::{Place, Ran, Server, postgres};

const CONFIG: &str = "[budgets.ai]\nlimit = 500.00\n[kinds.SLEEP]\nresource = \"bed\"\npermits = 2\n";
const CHAIN: &str = r#"{"name": "chain", "jobs": [{"name": "a", "kind": "NOOP"},
    {"name": "b", "kind": "NOOP", "after": ["a"]}]}"#;

/// A server in its own folder, and an empty folder for the client.
struct Far {
    home: Place,
    away: Place,
    server: Server,
    url: String,
}

impl Far {
    fn on(database: Option<&str>) -> Far {
        let (home, away) = (Place::new(), Place::new());
        let named = database.map(|url| format!("[database]\nurl = \"{url}\"\n")).unwrap_or_default();
        home.write("windlass.toml", format!("{named}{CONFIG}"));
        home.run(&["migrate", "up"]).ok();
        let server = home.serve(&["serve"]);
        let url = format!("http://{}", server.address());
        Far { home, away, server, url }
    }

    /// Both databases in turn; `name` is that of the schema.
    fn both(name: &str) -> impl Iterator<Item = Far> {
        [None, Some(postgres(name))].into_iter().map(|database| Far::on(database.as_deref()))
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.away.run(&[args, &["--server", &self.url]].concat())
    }

    fn pipe(&self, args: &[&str], input: &str) -> Ran {
        self.away.pipe(&[args, &["--server", &self.url]].concat(), input)
    }

    /// A remote and a local call print the same.
    fn same(&self, args: &[&str]) {
        let (far, near) = (self.run(args).ok(), self.home.run(args).ok());
        assert_eq!(far.out, near.out, "{args:?}");
    }

    fn end(mut self) {
        let left: Vec<_> =
            std::fs::read_dir(self.away.path()).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(left.is_empty(), "a verb that asks a server left {left:?}");
        self.server.signal("-TERM");
        assert_eq!(self.server.wait(), 0, "{}", self.server.output());
        self.home.run(&["migrate", "down", "--to", "0"]).ok();
    }
}

fn id(job: &Value) -> String {
    job["id"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
}

#[test]
fn jobs_are_enqueued_shown_and_acted_on() {
    for far in Far::both("far_jobs") {
        let done = far.run(&["enqueue", "NOOP", "--wait", "--json"]).ok().json();
        assert_eq!((done["state"].as_str(), done["duplicate"].as_bool()), (Some("completed"), Some(false)));
        let digits = ["enqueue", "NOOP", "--payload", "12345678901234567890123", "--wait", "--json"];
        let long = far.run(&digits).ok();
        assert!(long.out.contains("12345678901234567890123"), "{}", long.out);
        let lines = "{\"kind\":\"NOOP\",\"delay\":\"1h\",\"tags\":[\"bulk\"]}\n".repeat(3);
        far.pipe(&["enqueue", "--bulk", "-"], &lines).ok().says(&["3 jobs enqueued"]);
        let parts =
            ["1 problem in standard input", "line 2: kind: `NOPE` is not registered", "nothing was written"];
        far.pipe(&["enqueue", "--bulk", "-"], "{\"kind\":\"NOOP\"}\n{\"kind\":\"NOPE\"}\n").fails(1, &parts);
        far.run(&["enqueue", "NOOP", "--priority", "11"])
            .fails(2, &["priority: must be 0 (most urgent) to 10"]);
        far.run(&["jobs", "count", "--tag", "bulk"]).ok().says(&["3\n"]);
        assert_eq!(far.run(&["jobs", "count", "--tag", "bulk", "--json"]).ok().out, "{\"count\":3}\n");
        far.same(&["jobs", "--json"]);
        far.same(&["jobs", "--tag", "bulk"]);
        far.same(&["jobs", "show", &id(&done)]);
        far.same(&["jobs", "show", &id(&done), "--json"]);
        let waiting = id(&far.run(&["jobs", "--tag", "bulk", "--json"]).ok().json()["items"][0]);
        far.run(&["jobs", "set", &waiting, "--in", "2h", "--priority", "1"]).ok().says(&["scheduled"]);
        far.run(&["jobs", "cancel", "--tag", "bulk"]).fails(1, &["cancel would touch 3 jobs"]);
        far.run(&["jobs", "cancel", &waiting]).ok().says(&["cancel: 1 job done"]);
        far.run(&["jobs", "cancel", "--tag", "bulk", "--yes"]).ok().says(&["cancel: 2 jobs done"]);
        far.run(&["jobs", "retry", "--tag", "bulk", "--yes"]).ok().says(&["retry: 3 jobs done"]);
        far.run(&["jobs", "delete", "7"]).fails(1, &["1 job not found"]);
        far.run(&["jobs", "show", "7"]).fails(1, &["cannot show job 7: there is no job 7 here"]);
        far.end();
    }
}

#[test]
fn dead_letters_are_replayed_remotely() {
    for far in Far::both("far_dead") {
        let fail = ["enqueue", "FAIL", "--payload", "{\"times\":1}", "--max-attempts", "1", "--wait"];
        far.run(&fail).fails(1, &["ended as dead_letter: failure 1 of 1"]);
        far.same(&["dead-letters"]);
        far.same(&["dead-letters", "--json"]);
        let dead = id(&far.run(&["dead-letters", "--json"]).ok().json()["items"][0]);
        far.same(&["dead-letters", "show", &dead]);
        far.run(&["dead-letters", "replay", "--kind", "FAIL"]).fails(1, &["replay would touch 1 job"]);
        far.run(&["dead-letters", "delete", &dead]).ok().says(&["delete: 1 job done"]);
        far.run(&["dead-letters"]).ok().says(&["no jobs match"]);
        far.end();
    }
}

#[test]
fn the_registry_is_shown_and_changed() {
    for far in Far::both("far_registry") {
        far.run(&["queues", "pause", "low", "BULK"]).ok().says(&["LOW", "BULK", "paused"]);
        far.run(&["queues", "resume", "low", "nope"])
            .fails(1, &["there is no queue `nope`", "nothing was changed"]);
        far.run(&["queues", "set", "low", "--concurrency", "2"]).ok();
        far.same(&["queues"]);
        far.same(&["queues", "--json"]);
        far.run(&["kinds", "set", "NOOP", "--rate", "9/s"]).ok().says(&["9/s"]);
        far.same(&["kinds"]);
        far.same(&["kinds", "--json"]);
        let worker = |ran: Ran| id(&ran.ok().json()["items"][0]);
        assert_eq!(worker(far.run(&["workers", "--json"])), worker(far.home.run(&["workers", "--json"])));
        far.run(&["workers"]).ok().says(&["DEFAULT (10)", "bed 0/2"]);
        far.run(&["budgets", "set", "ai", "--limit", "750"]).ok().says(&["ai", "750.00"]);
        far.run(&["budgets", "reset", "ai"]).ok();
        far.same(&["budgets"]);
        far.same(&["budgets", "history", "ai", "--json"]);
        far.same(&["audit", "--limit", "2"]);
        let acts = far.run(&["audit", "--json"]).ok().json();
        assert!(acts["items"].as_array().unwrap().iter().all(|act| act["actor"] == "http"), "{acts}");
        far.same(&["cleanup"]);
        far.run(&["cleanup", "run", "finished", "--dry-run"]).ok();
        far.run(&["doctor"]).says(&["1 worker", "live values"]);
        far.home.run(&["backup", "a.backup"]).ok();
        far.same(&["backup"]);
        far.same(&["backup", "list", "--json"]);
        far.run(&["top", "--json"]).ok().says(&["\"queues\"", "\"completed_by_minute\""]);
        far.end();
    }
}

#[test]
fn schedules_and_workflows_are_stored_by_the_server() {
    for far in Far::both("far_kept") {
        let put = ["schedules", "put", "nightly", "--kind", "NOOP", "--cron", "30 2 * * *"];
        far.run(&put).ok().says(&["schedule nightly is new"]);
        far.run(&put).ok().says(&["was like this already"]);
        far.run(&["schedules", "put", "s", "--kind", "NOOP", "--cron", "61 * * * *"])
            .fails(2, &["cron.minute: 61 is not 0–59", "nothing was written"]);
        far.same(&["schedules"]);
        far.same(&["schedules", "show", "nightly"]);
        far.same(&["schedules", "show", "nightly", "-n", "2", "--from", "2026-01-05T00:00:00Z", "--json"]);
        far.run(&["schedules", "run", "nightly", "--wait"]).ok().says(&["NOOP in DEFAULT, completed"]);
        far.run(&["schedules", "pause", "nightly"]).ok().says(&["paused"]);
        far.run(&["schedules", "resume", "nightly"]).ok();
        far.run(&["schedules", "delete", "nightly"]).ok().says(&["was deleted; its jobs stay"]);
        far.run(&["schedules", "show", "nightly"]).fails(1, &["there is no schedule `nightly`"]);
        far.pipe(&["workflows", "run", "-", "--wait"], CHAIN).ok().says(&["2 of 2 jobs completed"]);
        far.same(&["workflows"]);
        let chain = id(&far.run(&["workflows", "--json"]).ok().json()["items"][0]);
        far.same(&["workflows", "show", &chain]);
        far.same(&["workflows", "show", &chain, "--json"]);
        far.run(&["workflows", "cancel", &chain])
            .fails(1, &["stays as it is", "cancel needs one that has not ended"]);
        far.run(&["workflows", "retry", &chain]).fails(1, &["retry needs jobs that failed"]);
        far.end();
    }
}

#[test]
fn a_server_can_be_named_by_a_variable() {
    let far = Far::on(None);
    let variable = [("WINDLASS_SERVER", far.url.as_str())];
    far.away.run_env(&["enqueue", "NOOP", "--in", "1h"], &variable).ok();
    assert_eq!(far.home.count(&[]), 1);
    // A named database takes precedence.
    let named = ["jobs", "count", "--database", "sqlite://none.db"];
    far.away.run_env(&named, &variable).fails(1, &["cannot open sqlite://none.db: there is no such file"]);
    // Verbs about this process report that they ignore it.
    let shown = far.away.run_env(&["config", "show"], &variable).ok();
    assert_eq!(shown.err, "WINDLASS_SERVER is not followed: this verb works on the database itself\n");
    far.end();
}

/// They would change or copy another database than intended.
#[test]
fn a_variable_does_not_redirect_a_verb_to_another_database() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.run(&["backup", "first.backup"]).ok();
    let variable = [("WINDLASS_SERVER", "http://127.0.0.1:1")];
    for args in [
        &["migrate", "down", "--to", "1"][..],
        &["migrate", "up"],
        &["migrate", "status"],
        &["backup", "which.backup"],
        &["backup", "verify", "first.backup"],
        &["restore", "first.backup"],
        &["bench", "queue", "--jobs", "10"],
    ] {
        let parts = ["WINDLASS_SERVER cannot be followed", "--database"];
        place.run_env(args, &variable).fails(2, &parts);
    }
    let status = place.run(&["migrate", "status", "--json"]).ok().json();
    assert!(status["items"].as_array().unwrap().iter().all(|one| !one["applied_at"].is_null()), "{status}");
    assert!(!place.path().join("which.backup").exists());
    let named = ["backup", "which.backup", "--database", "sqlite://windlass-data/windlass.db"];
    place.run_env(&named, &variable).ok();
    place.run_env(&["migrate", "status"], &[("WINDLASS_SERVER", "")]).ok();
    let demo = place.run_env(&["demo", "--no-serve"], &variable).ok();
    assert!(demo.err.contains("WINDLASS_SERVER is not followed"), "{}", demo.err);
}

#[test]
fn the_help_offers_server_only_where_it_works() {
    let place = Place::new();
    let offers = |args: &[&str]| place.run(&[args, &["--help"]].concat()).ok().out.contains("--server");
    for args in [
        &["migrate"][..],
        &["migrate", "down"],
        &["restore"],
        &["backup", "verify"],
        &["bench", "queue"],
        &["serve"],
        &["worker"],
        &["demo"],
        &["config", "show"],
    ] {
        assert!(!offers(args), "{args:?}");
    }
    for args in [&["jobs"][..], &["backup"], &["backup", "list"], &["search"], &["entities", "put"]] {
        assert!(offers(args), "{args:?}");
    }
    place
        .run(&["backup", "--help"])
        .ok()
        .says(&["Without a file, and for `list`: list the backups of this server"]);
}

#[test]
fn an_ambiguous_target_is_refused() {
    let place = Place::new();
    let both = ["jobs", "--server", "http://127.0.0.1:1", "--database", "sqlite://x.db"];
    place.run(&both).fails(2, &["--server and --database name two places"]);
    for args in [
        &["serve"][..],
        &["worker"],
        &["demo"],
        &["migrate", "up"],
        &["restore", "x.backup"],
        &["bench", "queue"],
        &["backup", "x.backup"],
        &["backup", "verify", "x.backup"],
        &["config", "show"],
        &["config", "init"],
    ] {
        let args = [args, &["--server", "http://127.0.0.1:1"]].concat();
        place.run(&args).fails(2, &["--server cannot be followed", "--database"]);
    }
    for (server, why) in [("nowhere", "--server"), ("ftp://h", "`ftp` is not http or https")] {
        place.run(&["jobs", "--server", server]).fails(2, &[why, "http://HOST:PORT"]);
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
