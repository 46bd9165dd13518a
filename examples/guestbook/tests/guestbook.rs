//! The whole command with the guest book, on both databases.

// Helper functions outside `#[test]` functions unwrap too.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use windlass_testkit::browser::Browser;
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until_blocking};

const PATIENCE: Duration = Duration::from_secs(30);

/// A working folder and a database for one test.
struct World {
    folder: tempfile::TempDir,
    database: String,
}

impl World {
    fn sqlite() -> World {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite://{}/book.db", folder.path().display());
        World { folder, database }
    }

    /// Each test uses its own schema.
    fn postgres(name: &str) -> World {
        let url = std::env::var("WINDLASS_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
        let database = format!("{url}?schema=guestbook_{name}_{}", std::process::id());
        World { folder: tempfile::tempdir().unwrap(), database }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guestbook"));
        command.current_dir(self.folder.path()).env_remove("RUST_LOG").args(args);
        command.args(["--database", &self.database]);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Output of a verb that must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).unwrap()
    }

    fn serve(&self) -> (Process, String) {
        let server = self.command(&["serve", "--bind", "127.0.0.1:0"]);
        let server = Process::start("serve", self.folder.path(), server).unwrap();
        let address = wait_until_blocking("the server's address", PATIENCE, || {
            let said = std::fs::read_to_string(self.folder.path().join("serve.out")).unwrap_or_default();
            let address = said
                .lines()
                .find_map(|line| line.split("http://").nth(1))
                .map(|rest| rest.split(' ').next().unwrap_or_default().to_owned());
            match address {
                Some(address) => Seen::Yes(address),
                None => Seen::NotYet(said),
            }
        });
        (server, format!("http://{address}"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.database.starts_with("postgres") {
            let _ = self.run(&["migrate", "down", "--pack", "guestbook"]);
            let _ = self.run(&["migrate", "down", "--to", "0"]);
        }
    }
}

/// An entry is signed, thanked by a job, found by search, shown on the page, and removed.
fn from_entry_to_thanks(world: &World) {
    world.ok(&["migrate", "up"]);
    let signed = world.json(&["guestbook", "sign", "--name", "Ada", "--message", "What a lovely engine"]);
    assert_eq!(signed["thanked_at"], Value::Null);
    assert_eq!(
        world.json(&["jobs", "list", "--kind", "GUESTBOOK_THANK"])["items"].as_array().unwrap().len(),
        1
    );
    let (mut server, url) = world.serve();
    // In an empty folder, so that answers can only come from the server.
    let elsewhere = tempfile::tempdir().unwrap();
    let at = |args: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guestbook"));
        let output = command.current_dir(elsewhere.path()).args(args).args(["--json", "--server", &url]);
        let output = output.output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    wait_until_blocking("the guest to be thanked", PATIENCE, || {
        Seen::when(at(&["guestbook"])["items"][0]["thanked_at"].clone(), Value::is_string)
    });
    wait_until_blocking("the entry to be found", PATIENCE, || {
        Seen::when(at(&["search", "guest_entry", "engine"])["hits"].clone(), |hits| {
            hits.as_array().is_some_and(|hits| hits.len() == 1)
        })
    });
    let health = at(&["doctor"]);
    let checks: Vec<&str> =
        health["findings"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(checks.contains(&"guestbook"), "{checks:?}");
    let schedules = at(&["schedules"]);
    assert_eq!(schedules["items"][0]["name"], "guestbook-count");
    page(&url);
    let acts = at(&["audit"]);
    assert_eq!(
        (&acts["items"][0]["act"], &acts["items"][0]["actor"]),
        (&"guestbook.remove".into(), &"http".into())
    );
    removed(&at);
    server.terminate().unwrap();
    server.kill().ok();
}

/// Clean-up removes the entry from its table and from search, and writes one audit record.
fn removed(at: &dyn Fn(&[&str]) -> Value) {
    let dry = at(&["cleanup", "run", "guestbook", "--older-than", "0s", "--dry-run"]);
    assert_eq!(dry["items"][0]["rows"], 1);
    let run = at(&["cleanup", "run", "guestbook", "--older-than", "0s"]);
    assert_eq!(run["items"][0]["rows"], 1);
    assert_eq!(at(&["guestbook"])["items"].as_array().unwrap().len(), 0);
    assert_eq!(at(&["search", "guest_entry", "engine"])["hits"].as_array().unwrap().len(), 0);
    let lines = at(&["audit", "--act", "cleanup."]);
    assert_eq!(lines["items"].as_array().unwrap().len(), 1, "{lines}");
    assert_eq!(lines["items"][0]["subject"], "cleanup/guestbook");
}

/// The page is rendered from its description, and its buttons call the routes.
fn page(url: &str) {
    let browser = Browser::start();
    let page = browser.open(&format!("{url}/#/guestbook"), 1200);
    page.wait("document.querySelector('#part tbody tr')");
    let text = page.text("document.getElementById('part').innerText");
    assert!(text.contains("Guest book") && text.contains("What a lovely engine"), "{text}");
    page.eval(
        "document.getElementById('act-name').value = 'Grace';
         document.getElementById('act-message').value = '<b>bold</b>';
         document.querySelector('#part form.search:has(#act-name)').requestSubmit()",
    );
    page.wait("document.querySelectorAll('#part tbody tr').length === 2");
    let text = page.text("document.getElementById('part').innerText");
    assert!(text.contains("<b>bold</b>"), "stored text is shown as text: {text}");
    page.eval("window.confirm = () => true; document.querySelector('#part tbody tr button').click()");
    page.wait("document.querySelectorAll('#part tbody tr').length === 1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn from_entry_to_thanks_on_sqlite() {
    from_entry_to_thanks(&World::sqlite());
}

#[test]
fn from_entry_to_thanks_on_postgres() {
    from_entry_to_thanks(&World::postgres("thanks"));
}

/// `remove` without a server also removes the entry from search.
fn removed_without_a_server(world: &World) {
    world.ok(&["migrate", "up"]);
    let sign = || {
        let signed = world.json(&["guestbook", "sign", "--name", "Ada", "--message", "What a lovely engine"]);
        signed["id"].as_str().unwrap().to_owned()
    };
    let hits = || world.json(&["search", "guest_entry", "engine"])["hits"].as_array().unwrap().len();
    world.ok(&["guestbook", "remove", &sign()]);
    let second = sign();
    let (mut server, _) = world.serve();
    wait_until_blocking("the entry to be found", PATIENCE, || Seen::when(hits(), |hits| *hits == 1));
    server.terminate().unwrap();
    server.kill().ok();
    world.ok(&["guestbook", "remove", &second]);
    assert_eq!(hits(), 0, "the removed entry is still found");
}

#[test]
fn an_entry_is_removed_without_a_server_on_sqlite() {
    removed_without_a_server(&World::sqlite());
}

#[test]
fn an_entry_is_removed_without_a_server_on_postgres() {
    removed_without_a_server(&World::postgres("remove"));
}

#[test]
fn every_broken_rule_is_reported_at_once() {
    let world = World::sqlite();
    world.ok(&["migrate", "up"]);
    let long = "x".repeat(501);
    let name = "y".repeat(101);
    let refused = world.run(&["guestbook", "sign", "--name", &name, "--message", &long]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("name: has 101") && said.contains("message: has 501"), "{said}");
    let refused = world.run(&["guestbook", "sign", "--name", "", "--message", " "]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("name: must not be empty") && said.contains("message: must not be"), "{said}");
    let file = world.folder.path().join("bad.toml");
    std::fs::write(&file, "[packs.guestbook]\nlongest = 0\ngreeting = \"hi\"\n").unwrap();
    let refused = world.run(&["--config", file.to_str().unwrap(), "guestbook"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("longest: must be") && said.contains("greeting: must contain {name}"), "{said}");
}

/// A backup contains the entries and can be restored into the other database.
fn backup_and_restore(from: &World, to: &World) {
    from.ok(&["migrate", "up"]);
    from.ok(&["guestbook", "sign", "--name", "Ada", "--message", "Kept"]);
    let file = from.folder.path().join("book.backup");
    let file = file.to_str().unwrap();
    from.ok(&["backup", file]);
    from.ok(&["backup", "verify", file]);
    to.ok(&["restore", file]);
    assert_eq!(to.json(&["guestbook"]), from.json(&["guestbook"]));
}

#[test]
fn a_backup_of_sqlite_is_restored_into_postgres() {
    backup_and_restore(&World::sqlite(), &World::postgres("copy"));
}

#[test]
fn a_backup_of_postgres_is_restored_into_sqlite() {
    backup_and_restore(&World::postgres("back"), &World::sqlite());
}

/// The migrations of the pack are reverted and applied without touching other tables.
fn down_and_up(world: &World) {
    world.ok(&["migrate", "up"]);
    world.ok(&["guestbook", "sign", "--name", "Ada", "--message", "Gone soon"]);
    let refused = world.run(&["migrate", "down", "--pack", "guestbook", "--to", "7"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("guestbook has no version 7; known: 0, 1"), "{said}");
    let down = world.ok(&["migrate", "down", "--pack", "guestbook"]);
    assert!(down.starts_with("reverted guestbook 1 in "), "{down}");
    let refused = world.run(&["guestbook"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("windlass migrate up"), "{said}");
    let status = world.json(&["migrate", "status"]);
    let step = |item: &&Value| item["pack"] == "guestbook";
    assert_eq!(status["items"].as_array().unwrap().iter().find(step).unwrap()["applied_at"], Value::Null);
    world.ok(&["migrate", "up"]);
    assert_eq!(world.json(&["guestbook"])["items"].as_array().unwrap().len(), 0);
    assert_eq!(world.json(&["jobs"])["items"].as_array().unwrap().len(), 1, "jobs do not belong to the pack");
}

#[test]
fn migrations_are_reverted_and_applied_on_sqlite() {
    down_and_up(&World::sqlite());
}

#[test]
fn migrations_are_reverted_and_applied_on_postgres() {
    down_and_up(&World::postgres("tables"));
}

#[test]
fn a_binary_without_the_pack_opens_the_database() {
    let world = World::sqlite();
    world.ok(&["migrate", "up"]);
    let path = world.database.strip_prefix("sqlite://").unwrap().to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        assert!(Path::new(&path).exists());
        let without = windlass::Windlass::builder().database(&world.database).build().await.unwrap();
        without.client().store().close().await;
    });
}
