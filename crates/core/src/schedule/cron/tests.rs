use jiff::Timestamp;

use super::*;

fn ticks(expr: &str, zone: &str, from: &str, n: usize) -> Vec<String> {
    let cron = Cron::parse(expr).unwrap_or_else(|error| panic!("{expr}: {error}"));
    let zone = Zone::named(zone).unwrap();
    let mut at: Timestamp = from.parse().unwrap();
    let mut ticks = Vec::new();
    for _ in 0..n {
        at = cron.next(at, &zone).unwrap();
        ticks.push(at.to_string());
    }
    ticks
}

fn next(expr: &str, from: &str) -> String {
    ticks(expr, "UTC", from, 1).remove(0)
}

#[test]
fn fields_lists_ranges_and_steps() {
    for (expr, from, expected) in [
        ("* * * * *", "2024-02-28T23:59:00Z", "2024-02-29T00:00:00Z"),
        ("* * * * *", "2023-12-31T23:59:59.999Z", "2024-01-01T00:00:00Z"),
        ("* * * * * *", "1969-12-31T23:59:58.5Z", "1969-12-31T23:59:59Z"),
        ("*/20 * * * * *", "2024-01-01T00:00:40Z", "2024-01-01T00:01:00Z"),
        ("7-31/8 * * * *", "2024-01-01T00:23:00Z", "2024-01-01T00:31:00Z"),
        ("7-31/8,50 * * * *", "2024-01-01T00:31:00Z", "2024-01-01T00:50:00Z"),
        ("5/20 * * * *", "2024-01-01T00:26:00Z", "2024-01-01T00:45:00Z"),
        ("10 08 * Jan-mar *", "2024-03-31T09:00:00Z", "2025-01-01T08:10:00Z"),
        ("0 0 29 2 ?", "2024-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"),
        ("30 6 * * MON-fri", "2024-06-07T07:00:00Z", "2024-06-10T06:30:00Z"),
        ("0 0 * * wednesday", "2024-06-07T07:00:00Z", "2024-06-12T00:00:00Z"),
        ("0 0 * * 5-7", "2024-06-08T00:00:00Z", "2024-06-09T00:00:00Z"),
        ("0 0 * * 7", "2024-06-08T00:00:00Z", "2024-06-09T00:00:00Z"),
        ("0 0 * * SAT-SUN", "2024-06-08T00:00:00Z", "2024-06-09T00:00:00Z"),
        ("0 0 * * SAT-SUN", "2024-06-09T00:00:00Z", "2024-06-15T00:00:00Z"),
        ("0 0 * * Fri-Sunday/2", "2024-06-07T00:00:00Z", "2024-06-09T00:00:00Z"),
        ("0 0 * * SUN-SUN", "2024-06-09T00:00:00Z", "2024-06-16T00:00:00Z"),
        ("0 0 * * 0", "2024-06-08T00:00:00Z", "2024-06-09T00:00:00Z"),
        ("0 0 * * TUE/2", "2024-06-07T00:00:00Z", "2024-06-08T00:00:00Z"),
        ("0\t12   1 *  *", "2024-06-07T00:00:00Z", "2024-07-01T12:00:00Z"),
        ("@HOURLY", "2024-06-07T00:00:00Z", "2024-06-07T01:00:00Z"),
        ("@weekly", "2024-06-07T00:00:00Z", "2024-06-09T00:00:00Z"),
        ("@yearly", "2024-06-07T00:00:00Z", "2025-01-01T00:00:00Z"),
    ] {
        assert_eq!(next(expr, from), expected, "{expr} after {from}");
    }
}

#[test]
fn either_day_field_matches_if_both_restrict() {
    for (expr, from, expected) in [
        ("0 0 13 * FRI", "2024-06-08T00:00:00Z", "2024-06-13T00:00:00Z"),
        ("0 0 13 * FRI", "2024-06-13T00:00:00Z", "2024-06-14T00:00:00Z"),
        // A step restricts the days, a star does not.
        ("0 0 */10 * SUN", "2024-06-07T00:00:00Z", "2024-06-09T00:00:00Z"),
        ("0 0 */1 * SUN", "2024-06-09T00:00:00Z", "2024-06-16T00:00:00Z"),
        ("0 0 ? * SUN", "2024-06-09T00:00:00Z", "2024-06-16T00:00:00Z"),
        ("0 0 31 2 MON", "2024-02-05T00:00:00Z", "2024-02-12T00:00:00Z"),
    ] {
        assert_eq!(next(expr, from), expected, "{expr} after {from}");
    }
}

#[test]
fn last_nearest_and_nth_days() {
    for (expr, from, expected) in [
        ("0 0 L * *", "2024-02-01T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("0 0 L-3 * *", "2024-02-01T00:00:00Z", "2024-02-26T00:00:00Z"),
        ("0 0 LW * *", "2024-06-01T00:00:00Z", "2024-06-28T00:00:00Z"),
        ("0 0 LW * *", "2024-08-01T00:00:00Z", "2024-08-30T00:00:00Z"),
        // Saturday 1 June moves forward to stay in the month. Sunday 30 June moves back.
        ("0 0 1W * *", "2024-05-31T00:00:00Z", "2024-06-03T00:00:00Z"),
        ("0 0 30W * *", "2024-06-04T00:00:00Z", "2024-06-28T00:00:00Z"),
        ("0 0 15W * *", "2024-06-04T00:00:00Z", "2024-06-14T00:00:00Z"),
        ("0 0 16w * *", "2024-06-04T00:00:00Z", "2024-06-17T00:00:00Z"),
        ("0 0 31W * *", "2024-06-04T00:00:00Z", "2024-07-31T00:00:00Z"),
        ("0 0 * * 5L", "2024-06-04T00:00:00Z", "2024-06-28T00:00:00Z"),
        ("0 0 * * sunL", "2024-06-04T00:00:00Z", "2024-06-30T00:00:00Z"),
        ("0 0 * * 7L", "2024-06-04T00:00:00Z", "2024-06-30T00:00:00Z"),
        ("0 0 * * FRI#3", "2024-06-04T00:00:00Z", "2024-06-21T00:00:00Z"),
        ("0 0 * * 6#5", "2024-06-30T00:00:00Z", "2024-08-31T00:00:00Z"),
        ("0 0 * 2 MON#5", "2024-06-30T00:00:00Z", "2044-02-29T00:00:00Z"),
        ("0 0 * 2 MON#5", "2072-03-01T00:00:00Z", "2112-02-29T00:00:00Z"),
    ] {
        assert_eq!(next(expr, from), expected, "{expr} after {from}");
    }
}

#[test]
fn an_invalid_expression_is_refused_with_field_and_rule() {
    for (expr, expected) in [
        ("61 * * * *", "minute: 61 is not 0–59"),
        ("* 24 * * *", "hour: 24 is not 0–23"),
        ("* * 0 * *", "day of month: 0 is not 1–31"),
        ("* * * 13 *", "month: 13 is not 1–12 or JAN–DEC"),
        ("* * * * 8", "day of week: 8 is not 0–7 or SUN–SAT"),
        ("* * * JANU *", "month: `JANU` is not 1–12 or JAN–DEC"),
        ("x 60 * * 9", "minute: `X` is not 0–59; hour: 60 is not 0–23; day of week: 9 is not 0–7 or SUN–SAT"),
        ("-5 * * * *", "minute: `-5` is not 0–59"),
        ("+5 * * * *", "minute: `+5` is not 0–59"),
        ("1,,2 * * * *", "minute: `1,,2` has an empty place in its list"),
        ("50-10 * * * *", "minute: `50-10` runs backwards; write two ranges"),
        ("* * * * SAT-MON", "day of week: `SAT-MON` runs backwards; write two ranges"),
        ("* * * * 6-0", "day of week: `6-0` runs backwards; write two ranges"),
        ("*/0 * * * *", "minute: the step of `*/0` is not 1–59; for longer periods write @every DURATION"),
        ("*/90 * * * *", "minute: the step of `*/90` is not 1–59; for longer periods write @every DURATION"),
        (
            "1/2/3 * * * *",
            "minute: the step of `1/2/3` is not 1–59; for longer periods write @every DURATION",
        ),
        ("0 0 30 2 *", "day of month: 30 never comes in month 2"),
        ("0 0 31W 4,6,SEP *", "day of month: 31W never comes in month 4,6,SEP"),
        ("0 0 L-31 * *", "day of month: `L-31` is not L-1 to L-30"),
        ("0 0 L-29 2 *", "day of month: L-29 never comes in month 2"),
        ("0 0 1-5W * *", "day of month: `1-5` is not 1–31"),
        ("0 0 * * L", "day of week: `L` alone is no day; write the last Friday as 5L"),
        ("0 0 * * 5#6", "day of week: `5#6` is not the 1st to 5th (5#3)"),
        ("L * * * *", "minute: `L` is not 0–59"),
        (
            "TZ=Asia/Tokyo 0 5 * * *",
            "expression: names the zone `Asia/Tokyo`; give it beside the expression: --zone Asia/Tokyo, or the field zone",
        ),
        (
            "CRON_TZ=UTC 0 0 5 * * *",
            "expression: names the zone `UTC`; give it beside the expression: --zone UTC, or the field zone",
        ),
    ] {
        assert_eq!(Cron::parse(expr).unwrap_err().to_string(), expected, "{expr}");
    }
    for (expr, part) in [
        ("", "has 0 fields; write five"),
        ("* * * *", "has 4 fields"),
        ("0 0 12 1 1 ? 2030", "has 7 fields"),
        ("@reboot", "`@reboot` is not one of @yearly"),
        ("ü * * * *", "minute: `ü` is not 0–59"),
    ] {
        let error = Cron::parse(expr).unwrap_err().to_string();
        assert!(error.contains(part), "{expr}: {error}");
    }
    assert!(Cron::parse(&"1,".repeat(600)).unwrap_err().to_string().contains("at most 1024"));
}

#[test]
fn a_named_time_in_the_gap_fires_right_after_it_and_once() {
    let new_york = |expr, from, n| ticks(expr, "America/New_York", from, n);
    assert_eq!(
        new_york("30 2 * * *", "2026-03-07T12:00:00Z", 3),
        ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]
    );
    assert_eq!(new_york("0,20,40 2 8 3 *", "2026-03-01T00:00:00Z", 2)[0], "2026-03-08T07:00:00Z");
    assert_eq!(new_york("0,20,40 2 8 3 *", "2026-03-01T00:00:00Z", 2)[1], "2027-03-08T07:00:00Z");
    // 02:00 and 03:00 are the same instant that day.
    assert_eq!(
        new_york("0 1-3 * * *", "2026-03-08T05:00:00Z", 3),
        ["2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z", "2026-03-09T05:00:00Z"]
    );
    // Midnight itself is skipped here.
    assert_eq!(ticks("@daily", "America/Havana", "2026-03-07T12:00:00Z", 1), ["2026-03-08T05:00:00Z"]);
    // A whole day is skipped here.
    let apia = ticks("0 9 30,31 12 *", "Pacific/Apia", "2011-12-20T00:00:00Z", 2);
    assert_eq!(apia, ["2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"]);
}

#[test]
fn a_named_time_in_the_repeated_hour_fires_the_first_time_only() {
    let new_york = |expr, from, n| ticks(expr, "America/New_York", from, n);
    assert_eq!(
        new_york("30 1 * * *", "2026-10-31T12:00:00Z", 2),
        ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]
    );
    // Starting in the middle of the second hour.
    assert_eq!(new_york("10,50 1 * * *", "2026-11-01T06:20:00Z", 1), ["2026-11-02T06:10:00Z"]);
    assert_eq!(
        new_york("0 1,2 * * *", "2026-11-01T04:00:00Z", 3),
        ["2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z", "2026-11-02T06:00:00Z"]
    );
}

#[test]
fn a_star_follows_the_wall_clock() {
    let new_york = |expr, from, n| ticks(expr, "America/New_York", from, n);
    assert_eq!(
        new_york("0 * * * *", "2026-11-01T04:30:00Z", 3),
        ["2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"]
    );
    assert_eq!(
        new_york("*/30 1 * * *", "2026-11-01T04:30:00Z", 5),
        [
            "2026-11-01T05:00:00Z",
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:00:00Z",
            "2026-11-01T06:30:00Z",
            "2026-11-02T06:00:00Z"
        ]
    );
    assert_eq!(
        new_york("*/30 * * * *", "2026-03-08T06:10:00Z", 2),
        ["2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z"]
    );
    assert_eq!(new_york("*/30 2 * * *", "2026-03-08T05:00:00Z", 1), ["2026-03-09T06:00:00Z"]);
    assert_eq!(new_york("0 */2 * * *", "2026-03-08T05:00:00Z", 1), ["2026-03-08T08:00:00Z"]);
    assert_eq!(new_york("5 0-23 * * *", "2026-11-01T05:05:00Z", 1), ["2026-11-01T06:05:00Z"]);
    // The repeated time had passed; the next match is a month later.
    assert_eq!(
        new_york("30 * 1 11 *", "2026-11-01T05:40:00Z", 2),
        ["2026-11-01T06:30:00Z", "2026-11-01T07:30:00Z"]
    );
    assert_eq!(
        ticks("*/12 1 * * 7L", "Antarctica/Troll", "2024-10-26T23:40:00Z", 2),
        ["2024-10-26T23:48:00Z", "2024-10-27T01:00:00Z"]
    );
    // Half an hour is repeated here.
    assert_eq!(
        ticks("45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 3),
        ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z"]
    );
}

/// Checks every minute of days around shifts.
#[test]
fn ticks_agree_with_a_check_of_every_minute() {
    let wild =
        ["*/7 * * * *", "0 */3 * * *", "* 0-2 * * *", "13 * 1,28 * 0", "5-50/9 * * * 6L", "*/10 1 * * SUN"];
    let named = ["30 2 * * *", "0 0 * * *", "15,45 0-3 * * *", "59 23 28-31 * *", "1 1 * * SUN"];
    let places = [
        ("America/New_York", "2026-03-07T00:00:00Z"),
        ("America/New_York", "2026-10-31T00:00:00Z"),
        ("America/Havana", "2026-03-07T00:00:00Z"),
        ("America/Santiago", "2026-04-03T00:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-02T00:00:00Z"),
        ("Antarctica/Troll", "2026-03-28T00:00:00Z"),
        ("Antarctica/Troll", "2026-10-23T23:30:00Z"),
    ];
    for (zone, from) in places {
        let (zone, from) = (Zone::named(zone).unwrap(), from.parse::<Timestamp>().unwrap());
        let end = from.checked_add(SignedDuration::from_hours(72)).unwrap();
        let minutes = (1..=72 * 60).map(|n| from.checked_add(SignedDuration::from_mins(n)).unwrap());
        let minutes: Vec<Timestamp> = minutes.collect();
        for expr in wild.iter().chain(&named) {
            let cron = Cron::parse(expr).unwrap();
            let fits = |wall: DateTime| cron.at_or_after(wall) == Some(wall);
            let mut expected: Vec<Timestamp> = match cron.wild {
                true => minutes.iter().copied().filter(|at| fits(zone.wall(*at))).collect(),
                // Compares wall-clock times, with two extra days because a shift moves them.
                false => {
                    let first = zone.wall(from).checked_sub(SignedDuration::from_hours(24)).unwrap();
                    let readings = (0..5 * 24 * 60).map(|n| first + SignedDuration::from_mins(n));
                    readings.filter(|wall| fits(*wall)).filter_map(|wall| zone.instant(wall)).collect()
                }
            };
            expected.retain(|at| *at > from && *at <= end);
            expected.dedup();
            let mut found = Vec::new();
            let mut at = from;
            while let Some(next) = cron.next(at, &zone).filter(|next| *next <= end) {
                found.push(next);
                at = next;
            }
            assert_eq!(found, expected, "{expr} in {zone} from {from}");
        }
    }
}
