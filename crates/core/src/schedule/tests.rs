use super::*;
use crate::Time;

const ANCHOR: &str = "2026-01-01T00:00:00Z";

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn rule(expr: &str) -> RuleSpec {
    RuleSpec { expr: expr.to_owned(), ..RuleSpec::default() }
}

fn spec(rules: Vec<RuleSpec>) -> ScheduleSpec {
    ScheduleSpec {
        name: "refresh".to_owned(),
        kind: "STOCK_REFRESH".to_owned(),
        payload: b"{}".to_vec(),
        rules,
        ..ScheduleSpec::default()
    }
}

fn plan(spec: &ScheduleSpec) -> Plan {
    spec.plan(time(ANCHOR)).unwrap()
}

fn with(expr: &str, misfire: Misfire) -> Plan {
    plan(&ScheduleSpec { misfire, ..spec(vec![rule(expr)]) })
}

fn ticks(plan: &Plan, from: &str, to: &str) -> Vec<Time> {
    let next = std::iter::successors(plan.next(time(from)), |tick| plan.next(*tick));
    next.take_while(|tick| *tick <= time(to)).collect()
}

/// Every 5 minutes while the market is open, hourly after hours, every 6 hours on days off.
fn stock_refresh() -> Plan {
    let nyse =
        |expr: &str, phase| RuleSpec { calendar: Some("NYSE".to_owned()), during: vec![phase], ..rule(expr) };
    plan(&spec(vec![
        nyse("*/5 * * * *", Phase::Open),
        nyse("0 * * * *", Phase::AfterHours),
        nyse("0 */6 * * *", Phase::DayOff),
    ]))
}

#[test]
fn one_schedule_with_three_rules_for_the_stock_market() {
    let plan = stock_refresh();
    // Friday 16 January to Tuesday 20 January; Monday is a holiday.
    let day = |from: &str, to: &str| ticks(&plan, from, to);
    let friday = day("2026-01-16T04:59:59Z", "2026-01-17T04:59:59Z");
    // Hourly 00:00–09:00 and 16:00–23:00, every five minutes 09:30–15:55.
    assert_eq!(friday.len(), 10 + 78 + 8);
    assert_eq!(friday[9], time("2026-01-16T14:00:00Z"));
    assert_eq!(friday[10], time("2026-01-16T14:30:00Z"));
    assert_eq!(friday[87], time("2026-01-16T20:55:00Z"));
    assert_eq!(friday[88], time("2026-01-16T21:00:00Z"));
    let off = day("2026-01-17T04:59:59Z", "2026-01-20T04:59:59Z");
    assert_eq!(off.len(), 3 * 4);
    assert_eq!(off[0], time("2026-01-17T05:00:00Z"));
    assert_eq!(off[11], time("2026-01-19T23:00:00Z"));
    let tuesday = day("2026-01-20T04:59:59Z", "2026-01-20T14:30:00Z");
    assert_eq!(tuesday.len(), 10 + 1);
    // A half day.
    assert_eq!(day("2026-11-27T04:59:59Z", "2026-11-28T04:59:59Z").len(), 10 + 42 + 11);
}

#[test]
fn the_iterator_and_next_agree() {
    let plan = stock_refresh();
    let due = plan.due(time("2026-01-16T04:59:59Z"), time("2026-01-20T20:00:00Z"));
    let all = ticks(&plan, "2026-01-16T04:59:59Z", "2026-01-20T20:00:00Z");
    assert_eq!(due.missed + 1, all.len() as u64);
    assert_eq!(due.last, all.last().copied());
}

#[test]
fn intervals_bound_to_a_calendar() {
    let open = RuleSpec { calendar: Some("NYSE".to_owned()), ..rule("every 45m") };
    let plan = plan(&spec(vec![open]));
    let found = ticks(&plan, "2026-01-05T00:00:00Z", "2026-01-06T14:30:00Z");
    // Counted from midnight UTC on 1 January, regardless of skipped ticks.
    assert_eq!(found.first(), Some(&time("2026-01-05T15:00:00Z")));
    assert_eq!(found.last(), Some(&time("2026-01-05T20:15:00Z")));
    assert_eq!(found.len(), 8);
}

#[test]
fn the_zone_is_the_rules_then_the_schedules_then_the_calendars() {
    let at = |rule_zone: Option<&str>, zone: Option<&str>, calendar: Option<&str>| {
        let rule = RuleSpec {
            zone: rule_zone.map(str::to_owned),
            calendar: calendar.map(str::to_owned),
            during: if calendar.is_some() { vec![Phase::AfterHours] } else { Vec::new() },
            ..rule("0 3 * * *")
        };
        let plan = plan(&ScheduleSpec { zone: zone.map(str::to_owned), ..spec(vec![rule]) });
        plan.next(time("2026-01-07T02:00:00Z")).unwrap().to_string()
    };
    assert_eq!(at(None, None, None), "2026-01-07T03:00:00Z");
    assert_eq!(at(None, None, Some("NYSE")), "2026-01-07T08:00:00Z");
    assert_eq!(at(None, Some("Europe/Berlin"), Some("NYSE")), "2026-01-08T02:00:00Z");
    assert_eq!(at(Some("Asia/Kolkata"), Some("Europe/Berlin"), None), "2026-01-07T21:30:00Z");
}

#[test]
fn nothing_is_due_before_the_next_tick() {
    let plan = with("0 * * * *", Misfire::All);
    let last = time("2026-05-01T10:00:00Z");
    for now in ["2026-05-01T10:59:59.999Z", "2026-05-01T10:00:00Z", "2026-05-01T09:00:00Z"] {
        assert_eq!(plan.due(last, time(now)), Due::default(), "{now}");
    }
    let due = plan.due(last, time("2026-05-01T11:00:00Z"));
    let tick = time("2026-05-01T11:00:00Z");
    assert_eq!(due, Due { ticks: vec![tick], missed: 0, last: Some(tick) });
}

#[test]
fn a_tick_that_is_a_little_late_is_on_time_under_every_policy() {
    for misfire in [Misfire::Skip, Misfire::Once, Misfire::All] {
        let due = with("0 * * * *", misfire).due(time("2026-05-01T10:00:00Z"), time("2026-05-01T11:01:00Z"));
        assert_eq!((due.ticks.len(), due.missed), (1, 0), "{misfire:?}");
        // More often than the ticker runs.
        let due =
            with("every 500ms", misfire).due(time("2026-05-01T10:00:00Z"), time("2026-05-01T10:00:01Z"));
        assert_eq!((due.ticks.len(), due.missed), (2, 0), "{misfire:?}");
    }
}

#[test]
fn missed_ticks_by_policy() {
    let (last, now) = (time("2026-05-01T10:00:00Z"), time("2026-05-01T15:30:00Z"));
    let due = |misfire| with("0 * * * *", misfire).due(last, now);
    let latest = time("2026-05-01T15:00:00Z");
    assert_eq!(due(Misfire::Skip), Due { ticks: vec![], missed: 5, last: Some(latest) });
    assert_eq!(due(Misfire::Once), Due { ticks: vec![latest], missed: 4, last: Some(latest) });
    let all = due(Misfire::All);
    assert_eq!((all.ticks.len(), all.missed, all.ticks[0]), (5, 0, time("2026-05-01T11:00:00Z")));
    // The tick that is on time also covers those that were missed.
    let now = time("2026-05-01T15:00:30Z");
    let due = |misfire| with("0 * * * *", misfire).due(last, now);
    assert_eq!(due(Misfire::Skip), Due { ticks: vec![latest], missed: 4, last: Some(latest) });
    assert_eq!(due(Misfire::Once), due(Misfire::Skip));
}

#[test]
fn catching_up_is_capped_and_the_rest_is_counted_as_missed() {
    let spec = ScheduleSpec { misfire: Misfire::All, catch_up: Some(3), ..spec(vec![rule("* * * * *")]) };
    let due = plan(&spec).due(time("2026-05-01T10:00:00Z"), time("2026-05-01T20:00:00Z"));
    assert_eq!((due.ticks.len(), due.missed), (3, 597));
    assert_eq!(due.ticks[0], time("2026-05-01T19:58:00Z"));
    assert_eq!(due.last, Some(time("2026-05-01T20:00:00Z")));
}

#[test]
fn a_year_of_missed_seconds_is_not_evaluated_one_by_one() {
    let spec = ScheduleSpec { misfire: Misfire::All, ..spec(vec![rule("* * * * * *")]) };
    let due = plan(&spec).due(time("2025-05-01T10:00:00Z"), time("2026-05-01T10:00:00.5Z"));
    assert_eq!((due.ticks.len(), due.missed), (100, MAX_COUNTED - 100));
    assert_eq!(due.last, Some(time("2026-05-01T10:00:00Z")));
    assert_eq!(due.ticks[0], time("2026-05-01T09:58:21Z"));
    // Very many ticks, but long ago.
    let spec = ScheduleSpec { misfire: Misfire::Once, ..spec_of("* * * 1-5 5 *") };
    let due = plan(&spec).due(time("2025-04-01T10:00:00Z"), time("2026-04-01T10:00:00Z"));
    assert_eq!(due.ticks, [time("2025-05-05T23:59:59Z")]);
}

fn spec_of(expr: &str) -> ScheduleSpec {
    spec(vec![rule(expr)])
}

#[test]
fn everything_is_checked_at_once() {
    let bad = ScheduleSpec {
        name: "every night".to_owned(),
        kind: String::new(),
        payload: b"{".to_vec(),
        priority: Some(11),
        max_attempts: Some(0),
        timeout: Some(std::time::Duration::ZERO),
        unique_key: Some(String::new()),
        tags: vec!["no spaces".to_owned()],
        zone: Some("Nowhere".to_owned()),
        catch_up: Some(0),
        rules: vec![
            rule("61 * * * *"),
            RuleSpec { calendar: Some("LSE".to_owned()), zone: Some("X".to_owned()), ..rule("@daily") },
            RuleSpec { during: vec![Phase::Open], ..rule("@daily") },
            RuleSpec { calendar: Some("NYSE".to_owned()), ..rule("0 3 * * *") },
        ],
        ..ScheduleSpec::default()
    };
    let error = bad.plan(time(ANCHOR)).unwrap_err().to_string();
    for part in [
        "name: must be",
        "kind: must be",
        "payload: is not JSON",
        "priority: must be 0",
        "max_attempts: must be 1",
        "timeout: must be longer than zero",
        "unique_key: must be",
        "tags: must be",
        "zone: `Nowhere` is not a time zone",
        "catch_up: must be 1 to 1000, not 0",
        "rules[0].minute: 61 is not 0–59",
        "rules[1].calendar: `LSE` is not a calendar; known: NYSE",
        "rules[1].zone: `X` is not a time zone",
        "rules[2].during: means something only with calendar",
        "rules[3].expr: never ticks in the phases of the calendar it is bound to",
    ] {
        assert!(error.contains(part), "`{part}` is missing in {error}");
    }
    for count in [0, 17] {
        let spec = spec(vec![rule("@daily"); count]);
        let error = spec.plan(time(ANCHOR)).unwrap_err().to_string();
        assert_eq!(error, format!("rules: must be 1 to 16, not {count}"));
    }
}

#[test]
fn a_rule_is_stored_as_written() {
    let text = r#"{"expr":"*/5 * * * *","calendar":"NYSE","during":["open","after_hours"]}"#;
    let rule: RuleSpec = serde_json::from_str(text).unwrap();
    assert_eq!(rule.during, [Phase::Open, Phase::AfterHours]);
    assert_eq!(serde_json::to_string(&rule).unwrap(), text);
    assert!(serde_json::from_str::<RuleSpec>(r#"{"expr":"@daily","when":"open"}"#).is_err());
    assert_eq!(serde_json::to_string(&Misfire::Once).unwrap(), r#""once""#);
}

/// The API and the stored form use the same names.
#[test]
fn names_survive_a_round_trip() {
    for misfire in Misfire::ALL {
        assert_eq!(misfire.name().parse(), Ok(misfire));
        assert_eq!(serde_json::to_string(&misfire).unwrap(), format!("\"{}\"", misfire.name()));
    }
    for phase in Phase::ALL {
        assert_eq!(phase.name().parse(), Ok(phase));
        assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{}\"", phase.name()));
    }
    assert_eq!("never".parse::<Misfire>(), Err("must be skip, once or all, not `never`".to_owned()));
    assert_eq!("shut".parse::<Phase>(), Err("`shut` is not one of open, after_hours, day_off".to_owned()));
}

#[test]
fn a_schedule_brings_its_own_calendars() {
    let tokyo = CalendarSpec {
        name: "tokyo".to_owned(),
        zone: "Asia/Tokyo".to_owned(),
        sessions: [("mon-fri".to_owned(), vec!["09:00-11:30".to_owned()])].into(),
        ..CalendarSpec::default()
    };
    let open = RuleSpec { calendar: Some("tokyo".to_owned()), ..rule("0 * * * *") };
    let bound = ScheduleSpec { calendars: vec![tokyo.clone()], ..spec(vec![open]) };
    let found = ticks(&plan(&bound), "2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z");
    assert_eq!(
        found,
        [time("2026-01-05T01:00:00Z"), time("2026-01-05T02:00:00Z"), time("2026-01-06T00:00:00Z")]
    );
    let bad = CalendarSpec { zone: "Mars".to_owned(), ..tokyo };
    let error = ScheduleSpec { calendars: vec![bad], ..bound }.plan(time(ANCHOR)).unwrap_err().to_string();
    assert!(error.contains("calendars.tokyo.zone: `Mars` is not a time zone"), "{error}");
}

#[test]
fn a_new_schedule_starts_now_and_a_changed_one_continues() {
    let now = time("2026-05-01T10:30:00Z");
    let new = spec_of("0 * * * *").position(None, now).unwrap();
    let hour = |text: &str| Some(time(text));
    assert_eq!((new.anchor, new.last_tick, new.next_at), (now, now, hour("2026-05-01T11:00:00Z")));
    let last = time("2026-05-01T09:00:00Z");
    let changed = spec_of("*/30 * * * *").position(Some((time(ANCHOR), last)), now).unwrap();
    assert_eq!(changed.next_at, hour("2026-05-01T09:30:00Z"), "ticks it missed are still due");
    assert_eq!((changed.anchor, changed.last_tick), (time(ANCHOR), last));
}

#[test]
fn jobs_are_tagged_with_schedule_and_tick() {
    let spec = ScheduleSpec { tags: vec!["own".to_owned()], ..spec_of("@daily") };
    assert_eq!(
        spec.job_tags(Some(time("2026-05-01T10:30:00.25Z"))),
        ["own", "schedule:refresh", "tick:2026-05-01T10:30:00.25Z"]
    );
    assert_eq!(spec.job_tags(None), ["own", "schedule:refresh", "trigger:manual"]);
    let mut invalid = crate::Invalid::default();
    let longest = ScheduleSpec { name: "n".repeat(55), ..spec };
    invalid.check_tags("tags", &longest.job_tags(Some(time("9999-01-01T10:30:00.123456Z"))));
    assert_eq!(invalid.into_result(), Ok(()));
}

#[test]
fn the_size_of_a_schedule_is_bounded() {
    let refused = |spec: ScheduleSpec| spec.plan(time(ANCHOR)).unwrap_err().to_string();
    let daily = spec_of("@daily");
    let long = ScheduleSpec { name: "n".repeat(56), ..daily.clone() };
    assert_eq!(
        refused(long),
        format!("name: must be 1–55 of A–Z a–z 0–9 _ - . :, not `{}…`", "n".repeat(40))
    );
    for count in [15, 16] {
        let tagged = ScheduleSpec { tags: vec!["t".to_owned(); count], ..daily.clone() };
        assert_eq!(refused(tagged), format!("tags: has {count} entries; 2 of 16 are the schedule's"));
    }
    let fourteen = ScheduleSpec { tags: vec!["t".to_owned(); 14], ..daily.clone() };
    assert!(fourteen.plan(time(ANCHOR)).is_ok());
    let payload = format!("\"{}\"", "x".repeat(MAX_SCHEDULE_BYTES)).into_bytes();
    assert!(refused(ScheduleSpec { payload, ..daily }).starts_with("payload: make a schedule of 26"));
}

#[test]
fn names_of_built_in_schedules_are_reserved() {
    let refused = check_free("windlass-backup").unwrap_err().to_string();
    assert!(refused.starts_with("name: `windlass-backup` is reserved"), "{refused}");
    assert_eq!(check_free("windlass"), Ok(()));
    assert_eq!(check_free("my-windlass-backup"), Ok(()));
}

#[test]
fn a_tick_is_shown_in_the_zone_of_its_rule() {
    let nyse = RuleSpec { calendar: Some("nyse".to_owned()), ..rule("0 10 * * *") };
    let tokyo = RuleSpec { zone: Some("Asia/Tokyo".to_owned()), ..rule("0 10 * * *") };
    let plan = plan(&spec(vec![nyse, tokyo]));
    let local: Vec<String> = ticks(&plan, "2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z")
        .into_iter()
        .map(|tick| plan.zone_at(tick).local(tick).unwrap())
        .collect();
    assert_eq!(local, ["2026-01-05T10:00:00+09:00", "2026-01-05T10:00:00-05:00"]);
}
