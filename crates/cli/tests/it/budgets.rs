//! Budgets on the command line: configured, listed, changed for a month, reset.

use crate::place::{Place, postgres};

const FILE: &str = "[budgets.ai]\nlimit = 500.00\n[budgets.words]\ntokens = 1000\ncurrency = \"EUR\"\n";

#[test]
fn configured_budgets_are_listed() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.run(&["budgets"]).ok().says(&["no budgets; `windlass serve` registers those under [budgets.NAME]"]);
    place.run(&["queues"]).ok().says(&["no queues yet"]);
    place.write("windlass.toml", FILE);
    place.run(&["budgets"]).ok().says(&["no budgets"]);
    place.serve(&["serve"]).stop();
    place
        .run(&["budgets"])
        .ok()
        .says(&["budget", "state", "ai", "NORMAL", "0.0", "500.00", "words", "EUR", "1000"]);
    let listed = place.run(&["budgets", "list", "--json"]).ok().json();
    let ai = &listed["items"][0];
    assert_eq!(
        (ai["name"].as_str(), ai["limit"].as_str(), ai["limit_cents"].as_i64()),
        (Some("ai"), Some("500.00"), Some(50_000))
    );
    assert_eq!((ai["state"].as_str(), ai["batch_size"].as_u64()), (Some("NORMAL"), Some(20)));
    assert_eq!(listed["items"][1]["tokens_limit"].as_u64(), Some(1_000));
    let shown = place.run(&["config", "show"]).ok();
    shown.says(&["budgets.ai.limit", "500.00", "windlass.toml:2"]);
}

#[test]
fn a_live_limit_for_one_month_overrides_the_file() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.write("windlass.toml", FILE);
    let after = place.run(&["budgets", "set", "ai", "--limit", "750.006", "--json"]).ok().json();
    assert_eq!((after["limit"].as_str(), after["used"].as_str()), (Some("750.006"), Some("0.00")));
    assert_eq!(after["name"].as_str(), Some("ai"));
    let server = place.serve(&["serve"]);
    drop(server);
    let listed = place.run(&["budgets", "--json"]).ok().json();
    let ai = &listed["items"][0];
    assert_eq!((ai["limit"].as_str(), ai["limits_are_live"].as_bool()), (Some("750.006"), Some(true)));
    place.run(&["budgets", "set", "words", "--tokens", "0"]).ok().says(&["HARD_STOP", "100.0"]);
    place
        .run(&["budgets", "set", "ai", "--limit", "1", "--month", "2999-12"])
        .ok()
        .says(&["ai", "2999-12", "1.00"]);
    place.run(&["budgets", "reset", "ai"]).ok().says(&["NORMAL", "750.006"]);
    let months = place.run(&["budgets", "history", "ai", "--json"]).ok().json();
    let of =
        |place: usize| (months["items"][place]["name"].as_str(), months["items"][place]["limit"].as_str());
    assert_eq!((of(0), of(1)), ((Some("ai"), Some("1.00")), (Some("ai"), Some("750.006"))), "{months}");
    assert_eq!(months["items"][0]["month"].as_str(), Some("2999-12"), "what was set ahead is shown");
    place.run(&["budgets", "history", "ai", "--months", "3"]).ok().says(&["month", "settled", "750.006"]);
}

#[test]
fn a_limit_is_removed_and_reset() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.write("windlass.toml", FILE);
    let limits = |args: &[&str]| {
        let after = place.run(&[&["budgets", "set", "ai", "--json"], args].concat()).ok().json();
        (after["limit"].as_str().map(str::to_owned), after["tokens_limit"].as_u64())
    };
    assert_eq!(limits(&["--limit", "none", "--tokens", "70"]), (None, Some(70)));
    place
        .run(&["budgets", "set", "ai", "--tokens", "none"])
        .fails(1, &["cannot change ai: limit: or tokens has to stay", "hint: nothing was changed"]);
    assert_eq!(limits(&["--limit", "configured"]), (Some("500.00".to_owned()), Some(70)));
    assert_eq!(limits(&["--tokens", "none"]), (Some("500.00".to_owned()), None));
    place
        .run(&["budgets", "set", "ai", "--tokens", "many"])
        .fails(2, &["a whole number, none or configured"]);
}

#[test]
fn changes_by_operators_are_audited() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.write("windlass.toml", FILE);
    place.run(&["audit"]).ok().says(&["no operator has changed anything yet"]);
    place.run(&["budgets", "set", "ai", "--limit", "750"]).ok();
    place.run(&["audit", "--act", "budget"]).ok().says(&["budget.change"]);
    place.run(&["audit", "--act", "budget."]).ok().says(&["budget.change"]);
    place.run(&["audit", "--act", "job"]).ok().says(&["no act matches"]);
    place.run(&["queues", "pause", "LOW"]).ok();
    place.run(&["kinds", "set", "NOOP", "--rate", "5/s"]).ok();
    place.run(&["audit"]).ok().says(&[
        "when",
        "cli",
        "budget/ai/",
        "limit 500.00",
        "limit 750.00",
        "queue/LOW",
        "paused true",
        "rate 5/s",
    ]);
    let acts = place.run(&["audit", "list", "--limit", "2", "--json"]).ok().json();
    let subjects = |acts: &serde_json::Value| -> Vec<String> {
        let items = acts["items"].as_array().unwrap().iter();
        items.map(|act| act["subject"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(subjects(&acts), ["kind/NOOP", "queue/LOW"], "newest first");
    let cursor = acts["next_cursor"].as_str().unwrap();
    let rest = place.run(&["audit", "list", "--cursor", cursor, "--json"]).ok().json();
    assert!(subjects(&rest)[0].starts_with("budget/ai/") && rest["next_cursor"].is_null(), "{rest}");
}

/// Both the verb and a running server report each alert of a change, at any level.
#[test]
fn alerts_of_a_change_reach_the_servers_log() {
    let on_postgres = format!("[database]\nurl = \"{}\"\n", postgres("alerts"));
    for database in ["", &on_postgres] {
        let place = Place::new();
        place.write("windlass.toml", format!("{database}{FILE}"));
        place.run(&["migrate", "up"]).ok();
        let server = place.serve(&["serve"]);
        let changed = place.run(&["budgets", "set", "words", "--tokens", "0"]).ok();
        for level in ["INFO", "WARNING", "CRITICAL"] {
            assert!(changed.err.contains(&format!("level={level}")), "{level} in\n{}", changed.err);
        }
        for percent in [75, 80, 90, 100] {
            server.wait_for(&format!("a budget reached {percent} % of its limit"));
        }
    }
}

#[test]
fn mistakes_are_reported() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.write("windlass.toml", FILE);
    place.run(&["budgets", "reset", "ai"]).ok();
    let parts = ["there is no budget `nope`: known: ai, words", "hint: nothing was changed"];
    for args in [
        &["budgets", "history", "nope"][..],
        &["budgets", "set", "nope", "--limit", "1"],
        &["budgets", "reset", "nope"],
    ] {
        place.run(args).fails(1, &parts);
    }
    place.run(&["budgets", "set", "ai"]).fails(2, &["--limit", "--tokens"]);
    place.run(&["budgets", "set", "ai", "--limit", "-5"]).fails(2, &["it is negative"]);
    place.run(&["budgets", "set", "ai", "--limit", "1", "--month", "May"]).fails(2, &["write it as 2026-11"]);
    place
        .run(&["budgets", "set", "ai", "--tokens", "99999999999999999"])
        .fails(1, &["tokens: must be at most"]);
    place
        .run(&["budgets", "set", "ai", "--limit", "1", "--month", "2001-01"])
        .fails(1, &["cannot change ai: 2001-01 is over and its books are closed"]);
    place.write("windlass.toml", "[budgets.ai]\nlimit = \"lots\"\ncurency = \"EUR\"\n");
    let parts = [
        "windlass.toml:2: budgets.ai.limit: `lots` is not an amount",
        "windlass.toml:3: `curency` is not a key of budgets.ai; did you mean `currency`?",
    ];
    place.run(&["budgets"]).fails(1, &parts);
}
