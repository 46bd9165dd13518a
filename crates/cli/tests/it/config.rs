//! The configuration, tested through the binary.

use crate::place::Place;

#[test]
fn every_mistake_is_listed_and_nothing_is_created() {
    let place = Place::new();
    place.write(
        "windlass.toml",
        "[server]\nleese = \"2m\"\ngrace = 30\n[queues.HIGH]\nconcurrency = 0\n[nope]\n",
    );
    let parts = [
        "error: the configuration cannot be used: 5 problems",
        "windlass.toml:2: `leese` is not a key of server; did you mean `lease`?",
        "windlass.toml:3: server.grace: needs a unit",
        "windlass.toml:5: queues.HIGH.concurrency: must be a number 1–10000, not `0`",
        "windlass.toml:6: `nope` is not a section",
        "WINDLASS_SERVER__POLL: server.poll: `fast` is not a duration",
        "hint: ",
    ];
    place.run_env(&["jobs"], &[("WINDLASS_SERVER__POLL", "fast")]).fails(1, &parts);
    assert!(!place.database().exists());
}

#[test]
fn unreadable_and_missing_files_are_reported() {
    let place = Place::new();
    place
        .run(&["jobs", "--config", "missing.toml"])
        .fails(1, &["cannot read the configuration missing.toml", "hint:"]);
    std::fs::create_dir(place.path().join("folder.toml")).unwrap();
    place.run(&["jobs", "--config", "folder.toml"]).fails(1, &["cannot read the configuration folder.toml"]);
    place.write("binary.toml", [0xff, 0xfe, 0x00]);
    place.run(&["jobs", "--config", "binary.toml"]).fails(1, &["cannot read the configuration binary.toml"]);
}

#[test]
fn options_override_variables_and_variables_override_the_file() {
    let place = Place::new();
    place.write("other.toml", "[server]\nlease = \"7s\"\n[database]\nurl = \"sqlite://file.db\"\n");
    let show = |args: &[&str], variables: &[(&str, &str)], key: &str| {
        let args = [&["config", "show", "--json", "--config", "other.toml"], args].concat();
        let shown = place.run_env(&args, variables).ok().json();
        let item = shown["items"].as_array().unwrap().iter().find(|item| item["key"] == key).unwrap().clone();
        (item["value"].as_str().unwrap().to_owned(), item["from"].as_str().unwrap().to_owned())
    };
    let pair = |value: &str, from: &str| (value.to_owned(), from.to_owned());
    assert_eq!(show(&[], &[], "server.lease"), pair("7s", "other.toml:2"));
    assert_eq!(show(&[], &[], "server.grace"), pair("30s", "default"));
    let url = [("DATABASE_URL", "postgres://me:hush@h/d")];
    assert_eq!(show(&[], &url, "database.url"), pair("postgres://me:***@h/d", "DATABASE_URL"));
    let both = [url[0], ("windlass_database__url", "sqlite://env.db")];
    assert_eq!(show(&[], &both, "database.url"), pair("sqlite://env.db", "windlass_database__url"));
    let flag = ["--database", "sqlite://flag.db"];
    assert_eq!(show(&flag, &both, "database.url"), pair("sqlite://flag.db", "--database"));
}

#[test]
fn init_writes_a_file_that_works_and_never_overwrites() {
    let place = Place::new();
    place.run(&["config", "init"]).ok().says(&["wrote windlass.toml"]);
    place.run(&["config"]).ok().says(&["server.lease", "2m", "default", "queues.BULK.sla"]);
    let before = std::fs::read(place.path().join("windlass.toml")).unwrap();
    place.run(&["config", "init"]).fails(1, &["cannot write windlass.toml: it exists"]);
    assert_eq!(std::fs::read(place.path().join("windlass.toml")).unwrap(), before);
}

#[test]
fn kinds_and_queues_of_the_file_are_registered() {
    let place = Place::new();
    place.write(
        "windlass.toml",
        "[queues.mail]\nconcurrency = 2\n[kinds.SEND]\nqueue = \"MAIL\"\nmax_attempts = 7\n",
    );
    let job = place.run(&["enqueue", "SEND", "--json"]).ok().json();
    assert_eq!((job["queue"].as_str(), job["max_attempts"].as_u64()), (Some("mail"), Some(7)));
    // A process without that file sees the same values and keeps them.
    let path = place.database();
    let elsewhere = Place::new();
    let queues = elsewhere
        .run(&["queues", "--json", "--database", &format!("sqlite://{}", path.display())])
        .ok()
        .json();
    let mail =
        queues["items"].as_array().unwrap().iter().find(|queue| queue["name"] == "mail").unwrap().clone();
    assert_eq!((mail["concurrency"].as_u64(), mail["depth"].as_u64()), (Some(2), Some(1)));
}
