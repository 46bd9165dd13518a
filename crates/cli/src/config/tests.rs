//! Reading and refusing configuration.

use super::*;

fn load(file: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let mut raw = RawConfig::default();
    raw.read_file("windlass.toml", file);
    let environment = Environment::of(variables);
    for (name, path, value) in environment.configuration() {
        raw.read_variable(name, &path, value);
    }
    Resolver { raw }.config().map_err(|problems| failure(&problems).text(false))
}

#[test]
fn the_defaults_are_the_engines() {
    let config = load("", &[]).unwrap();
    let worker = windlass_engine::WorkerOptions::default();
    assert_eq!(config.server.lease, worker.lease);
    assert_eq!(config.server.grace, worker.grace);
    assert_eq!(config.server.poll, worker.poll);
    assert_eq!(config.server.prefetch, worker.prefetch);
    assert_eq!(config.server.quarantine, worker.quarantine);
    assert_eq!(config.retention, Retention::default());
    assert_eq!(config.queues, super::default_queues());
    assert!(config.database.is_default);
}

#[test]
fn variables_win_over_the_file_whatever_their_case() {
    let file = "[server]\nlease = \"PT0.5S\"\n[queues.high]\nconcurrency = 3\n";
    let config = load(
        file,
        &[
            ("windlass_server__lease", "9s"),
            ("WINDLASS_QUEUES__High__SLA", "none"),
            ("WINDLASS_SERVER", "http://x"),
        ],
    )
    .unwrap();
    assert_eq!(config.server.lease, Duration::from_secs(9));
    let high = config.queues.iter().find(|queue| queue.name == "HIGH").unwrap();
    assert_eq!((high.concurrency, high.sla), (3, None));
    let shown = config.shown.iter().find(|shown| shown.path == "queues.HIGH.concurrency").unwrap();
    assert_eq!(shown.origin, "windlass.toml:4");
}

#[test]
fn every_problem_is_listed_with_its_place() {
    let file = "[server]\nleese = \"2m\"\ngrace = 30\n\n[serve]\nx = 1\n[queues.HIGH]\nconcurrency = 0\nsla = \"soon\"\n\
                [kinds.MINE]\nmax_attempts = 3\n[kinds.NOOP]\nqueue = \"HIGH\"\n[database]\nurl = \"mysql://a:b@c/d\"\n";
    let text = load(file, &[("WINDLASS_SERVER__POLL", "-1s"), ("WINDLASS_QUEUES__HIGH", "x")]).unwrap_err();
    for part in [
        "10 problems",
        "windlass.toml:2: `leese` is not a key of server; did you mean `lease`?",
        "windlass.toml:3: server.grace: needs a unit",
        "windlass.toml:5: `serve` is not a section; did you mean `server`?",
        "windlass.toml:8: queues.HIGH.concurrency: must be a number 1–10000, not `0`",
        "windlass.toml:9: queues.HIGH.sla: `soon` is not a duration",
        "windlass.toml:11: kinds.MINE: a kind this binary does not carry needs `queue`",
        "windlass.toml:13: kinds.NOOP.queue: it belongs to DEFAULT and cannot move",
        "windlass.toml:15: database.url: `mysql` is not a database this binary can use",
        "WINDLASS_SERVER__POLL: server.poll: `-1s` is not a duration: it is negative",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
    assert!(text.contains("WINDLASS_QUEUES__HIGH: write WINDLASS_QUEUES__NAME__KEY"), "{text}");
    assert!(!text.contains("a:b"), "{text}");
}

#[test]
fn broken_toml_names_its_line() {
    let text = load("[server]\nlease = \n", &[]).unwrap_err();
    assert!(text.contains("windlass.toml:2: is not TOML"), "{text}");
}

#[test]
fn every_kind_and_one_kind() {
    let file = "[kinds.\"*\"]\nmax_attempts = 9\nbackoff_base = \"1s\"\n[kinds.noop]\nmax_attempts = 2\n\
                [kinds.MINE]\nqueue = \"low\"\ntimeout = \"none\"\n";
    let config = load(file, &[]).unwrap();
    let mut handlers = windlass_engine::Handlers::default();
    windlass_engine::tryout::add(&mut handlers, false);
    let kinds = config.kinds.apply(handlers.specs());
    let kind = |name: &str| kinds.iter().find(|kind| kind.name == name).unwrap();
    assert_eq!(kind("NOOP").max_attempts, 2);
    assert_eq!(kind("SLEEP").max_attempts, 9);
    assert_eq!(kind("SLEEP").backoff.base, Duration::from_secs(1));
    assert_eq!(kind("FAIL").backoff.base, Duration::from_millis(500), "the code's own value stays");
    assert_eq!((kind("MINE").queue.as_str(), kind("MINE").timeout), ("LOW", None));
}

#[test]
fn the_written_file_is_the_default_and_each_line_can_be_used() {
    let written = template();
    assert!(load(&written, &[]).unwrap().database.is_default);
    let used: String = written
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') || rest.contains(" = ") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let config = load(&used, &[]).unwrap();
    assert_eq!(
        config.queues[0],
        super::default_queues()
            .into_iter()
            .map(|mut q| {
                if q.name == "HIGH" {
                    q.owner = "ops on call".to_owned();
                }
                q
            })
            .next()
            .unwrap()
    );
    for key in keys::KEYS {
        assert!(used.lines().any(|line| line.starts_with(&format!("{} = ", key.name))), "{}", key.path());
    }
}

#[test]
fn a_variable_may_name_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("url");
    std::fs::write(&secret, "postgres://me:hush@db/app\n").unwrap();
    let config = load("", &[("WINDLASS_DATABASE__URL_FILE", secret.to_str().unwrap())]).unwrap();
    let url = config.shown.iter().find(|shown| shown.path == "database.url").unwrap();
    assert_eq!(url.value, "postgres://me:***@db/app");
    let text = load("", &[("WINDLASS_DATABASE__URL_FILE", "/does/not/exist")]).unwrap_err();
    assert!(text.contains("WINDLASS_DATABASE__URL_FILE: cannot read the file it names"), "{text}");
}
