//! Reading and refusing configuration.

use windlass::parts::families;

use super::*;

fn load(file: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let parts = Parts::new(false, &[]);
    let carried = Carried::of(&parts).map_err(|failure| failure.text(false))?;
    let names = carried.queues.iter().map(|queue| queue.name.clone()).collect();
    let mut raw = RawConfig::new(Keys::with(settings_of(&parts.packs)), names);
    raw.read_file("windlass.toml", file);
    let environment = Environment::of(variables);
    for (name, path, value) in environment.configuration() {
        raw.read_variable(name, &path, value);
    }
    Resolver { raw, carried }.config().map_err(|problems| failure(&problems).text(false))
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
    assert_eq!(config.queues, Carried::of(&Parts::new(false, &[])).unwrap().queues);
    assert!(config.database.is_default);
}

/// By default queues have no owners; the example names one for each family.
#[test]
fn owners_come_only_from_the_configuration() {
    let owners = |file: &str| -> Vec<String> {
        let families: Vec<String> = families().into_iter().map(|family| family.name).collect();
        let queues = load(file, &[]).unwrap().queues;
        let ours = queues.into_iter().filter(|queue| families.contains(&queue.name));
        ours.map(|queue| queue.owner).collect()
    };
    assert!(owners("").iter().all(String::is_empty), "{:?}", owners(""));
    let named = owners(include_str!("../../../../examples/homepage.toml"));
    assert_eq!(named.len(), 5);
    assert!(named.iter().all(|owner| owner.contains('(')), "{named:?}");
}

#[test]
fn variables_override_the_file_in_any_case() {
    let file = "[server]\nlease = \"PT0.5S\"\n[queues.high]\nconcurrency = 3\n";
    let config = load(
        file,
        &[
            ("windlass_server__lease", "9s"),
            ("WINDLASS_QUEUES__High__SLA", "none"),
            ("WINDLASS_SERVER", "http://x"),
            ("WINDLASS_ENTITIES__DOCUMENT__TEXT", "title, body"),
            ("WINDLASS_BUDGETS__AI__LIMIT", "5"),
        ],
    )
    .unwrap();
    for path in ["entities.document.text", "budgets.ai.limit"] {
        assert!(config.shown.iter().any(|shown| shown.path == path), "{path}");
    }
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
fn an_empty_section_is_a_mistake() {
    let file =
        "[server]\n[budgets.none]\n\n[kinds.MINE]\n# queue = \"LOW\"\n[queues.extra]\n[entities.book]\n";
    let text = load(file, &[]).unwrap_err();
    for part in [
        "4 problems",
        "windlass.toml:2: budgets.none: the section is empty; limit or tokens is needed",
        "windlass.toml:4: kinds.MINE: the section is empty; a kind this binary does not carry needs `queue`",
        "windlass.toml:6: queues.extra: the section is empty; give it a key or leave it out",
        "windlass.toml:7: entities.book: the section is empty",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
    let budgets = load("[budgets.Ai]\n", &[("WINDLASS_BUDGETS__AI__TOKENS", "5")]).unwrap().budgets;
    assert_eq!(budgets.len(), 1, "a variable may fill it");
}

#[test]
fn an_error_in_toml_is_reported_with_its_line() {
    let text = load("[server]\nlease = \n", &[]).unwrap_err();
    assert!(text.contains("windlass.toml:2: is not TOML"), "{text}");
}

#[test]
fn values_for_all_kinds_yield_to_those_of_one_kind() {
    let file = "[kinds.\"*\"]\nmax_attempts = 9\nbackoff_base = \"1s\"\n[kinds.noop]\nmax_attempts = 2\n\
                [kinds.MINE]\nqueue = \"low\"\ntimeout = \"none\"\n";
    let config = load(file, &[]).unwrap();
    let kinds = config.kinds.apply(Parts::new(false, &[]).assemble(Settings::default()).unwrap().kinds());
    let kind = |name: &str| kinds.iter().find(|kind| kind.name == name).unwrap();
    assert_eq!(kind("NOOP").max_attempts, 2);
    assert_eq!(kind("SLEEP").max_attempts, 9);
    assert_eq!(kind("SLEEP").backoff.base, Duration::from_secs(1));
    assert_eq!(kind("FAIL").backoff.base, Duration::from_millis(500), "the code's own value stays");
    assert_eq!((kind("MINE").queue.as_str(), kind("MINE").timeout), ("LOW", None));
}

#[test]
fn the_file_of_config_init_has_the_defaults_and_each_line_is_valid() {
    let keys = Keys::with(settings_of(&Parts::new(false, &[]).packs));
    let written = template(&keys);
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
        Carried::of(&Parts::new(false, &[]))
            .unwrap()
            .queues
            .into_iter()
            .map(|mut q| {
                if q.name == "HIGH" {
                    q.owner = "ops on call".to_owned();
                    q.bounds = Some(Bounds { min: 5, max: 40 });
                    q.resource = Some(Resource::new("browser", 3));
                }
                q
            })
            .next()
            .unwrap()
    );
    for key in keys.iter() {
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

#[test]
fn budgets_are_read_to_the_last_digit() {
    let file = "[budgets.ai]\nlimit = 500.00\ncurrency = \"EUR\"\n[budgets.small]\nlimit = 0.000006\n\
                [budgets.whole]\nlimit = 12\ntokens = 5000\nthresholds = \"50 critical\"\n[budgets.text]\nlimit = \"0.10\"\n";
    let budgets =
        load(file, &[("WINDLASS_BUDGETS__AI__LIMIT", "750.006"), ("WINDLASS_BUDGETS__NEW__TOKENS", "9")]);
    let budgets = budgets.unwrap().budgets;
    let shown: Vec<(&str, Option<String>, Option<u64>)> = budgets
        .iter()
        .map(|spec| (spec.name.as_str(), spec.limit.map(|limit| limit.to_string()), spec.tokens))
        .collect();
    let money = |text: &str| Some(text.to_owned());
    assert_eq!(
        shown,
        [
            ("ai", money("750.006"), None),
            ("new", None, Some(9)),
            ("small", money("0.000006"), None),
            ("text", money("0.10"), None),
            ("whole", money("12.00"), Some(5_000)),
        ]
    );
    assert_eq!((budgets[0].currency.as_str(), budgets[1].currency.as_str()), ("EUR", "USD"));
    assert_eq!((budgets[4].thresholds.len(), budgets[0].thresholds.len()), (1, 4));
}

#[test]
fn an_invalid_budget_is_reported_with_its_line() {
    let file = "[budgets.ai]\nlimit = -5\n[budgets.none]\ncurrency = \"dollars\"\n[budgets.Big]\nlimit = 1e99\n\
                [budgets.loud]\nlimit = true\nthresholds = \"75 loud\"\n[budgets.down]\ntokens = 1\nthresholds = \"90 info, 75 info\"\n";
    let text = load(file, &[]).unwrap_err();
    for part in [
        "windlass.toml:2: budgets.ai.limit: `-5` is not an amount: it is negative",
        "windlass.toml:4: budgets.none.limit: or tokens has to be set",
        "windlass.toml:4: budgets.none.currency: must be three capital letters such as USD, not `dollars`",
        "windlass.toml:6: budgets.Big.limit: `1000",
        "windlass.toml:8: budgets.loud.limit: must be a sum of money, not true or false",
        "windlass.toml:9: budgets.loud.thresholds: `loud` is not a level",
        "windlass.toml:12: budgets.down.thresholds: must rise",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn limits_are_read_and_shown() {
    let file = "[queues.BULK]\nconcurrency_max = 32\n[queues.SCREENSHOT]\npermits = 5\n[queues.PRINT]\nresource = \"printer\"\n\
                [kinds.PRINT_LABEL]\nqueue = \"PRINT\"\nrate = \"30/m\"\n[kinds.SHOT]\nqueue = \"LOW\"\nresource = \"screenshot\"\n";
    let config = load(file, &[("WINDLASS_KINDS__PRINT_LABEL__PERMITS", "2")]).unwrap_err();
    assert!(
        config.contains("WINDLASS_KINDS__PRINT_LABEL__PERMITS") && config.contains("permits of what?"),
        "{config}"
    );
    let config = load(file, &[]).unwrap();
    let queue = |name: &str| config.queues.iter().find(|queue| queue.name == name).unwrap();
    assert_eq!(queue("BULK").bounds, Some(Bounds { min: 8, max: 32 }));
    assert_eq!(queue("SCREENSHOT").resource, Some(Resource::new("screenshot", 5)));
    assert_eq!(queue("PRINT").resource, Some(Resource { name: "printer".to_owned(), permits: None }));
    let kinds = config.kinds.apply(Vec::new());
    let kind = |name: &str| kinds.iter().find(|kind| kind.name == name).unwrap();
    assert_eq!(kind("PRINT_LABEL").rate.map(|rate| rate.to_string()).as_deref(), Some("30/m"));
    assert_eq!(kind("SHOT").resource, Some(Resource { name: "screenshot".to_owned(), permits: None }));
    for (path, value) in [
        ("queues.BULK.concurrency_min", "8"),
        ("queues.BULK.concurrency_max", "32"),
        ("queues.SCREENSHOT.permits", "5"),
        ("queues.LOW.resource", "none"),
        ("kinds.PRINT_LABEL.rate", "30/m"),
    ] {
        let shown = config.shown.iter().find(|shown| shown.path == path).unwrap();
        assert_eq!(shown.value, value, "{path}");
    }
}

#[test]
fn invalid_limits_are_listed() {
    let file = "[queues.LOW]\nconcurrency_max = 2\npermits = 3\n[queues.SCREENSHOT]\nresource = \"none\"\npermits = 2\n\
                [kinds.NOOP]\nrate = 30\nresource = \"two words\"\n[kinds.SLEEP]\nrate = \"fast\"\n[kinds.\"*\"]\nrate = \"1/s\"\n";
    let text = load(file, &[]).unwrap_err();
    for part in [
        "windlass.toml:2: queues.LOW.concurrency: runs from 5 to 2",
        "windlass.toml:3: queues.LOW.permits: needs queues.LOW.resource",
        "windlass.toml:6: queues.SCREENSHOT.permits: needs queues.SCREENSHOT.resource",
        "windlass.toml:8: kinds.NOOP.rate: needs a time: write \"30/s\"",
        "windlass.toml:9: kinds.NOOP.resource: must be 1–64 of",
        "windlass.toml:11: kinds.SLEEP.rate: `fast` is not a rate; write it as 500/s",
        "windlass.toml:13: kinds.\"*\".rate: it belongs to one kind",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}
