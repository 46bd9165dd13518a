use jiff::civil::Weekday;

use super::*;

/// Year, trading days, weekdays without a session, days that end early: published tables for 1990–2026, without
/// unscheduled changes of hours.
#[rustfmt::skip]
const NYSE: [(i16, usize, &str, &str); 37] = [
    (1990, 253, "01-01 02-19 04-13 05-28 07-04 09-03 11-22 12-25", "12-24@14:00"),
    (1991, 253, "01-01 02-18 03-29 05-27 07-04 09-02 11-28 12-25", "12-24@14:00"),
    (1992, 254, "01-01 02-17 04-17 05-25 07-03 09-07 11-26 12-25", "11-27@14:00 12-24@14:00"),
    (1993, 253, "01-01 02-15 04-09 05-31 07-05 09-06 11-25 12-24", "11-26@13:00"),
    (1994, 252, "02-21 04-01 04-27 05-30 07-04 09-05 11-24 12-26", "11-25@13:00"),
    (1995, 252, "01-02 02-20 04-14 05-29 07-04 09-04 11-23 12-25", "07-03@13:00 11-24@13:00"),
    (1996, 254, "01-01 02-19 04-05 05-27 07-04 09-02 11-28 12-25", "07-05@13:00 11-29@13:00 12-24@13:00"),
    (1997, 253, "01-01 02-17 03-28 05-26 07-04 09-01 11-27 12-25", "07-03@13:00 11-28@13:00 12-24@13:00 12-26@13:00"),
    (1998, 252, "01-01 01-19 02-16 04-10 05-25 07-03 09-07 11-26 12-25", "11-27@13:00 12-24@13:00"),
    (1999, 252, "01-01 01-18 02-15 04-02 05-31 07-05 09-06 11-25 12-24", "11-26@13:00 12-31@13:00"),
    (2000, 252, "01-17 02-21 04-21 05-29 07-04 09-04 11-23 12-25", "07-03@13:00 11-24@13:00"),
    (2001, 248, "01-01 01-15 02-19 04-13 05-28 07-04 09-03 09-11 09-12 09-13 09-14 11-22 12-25", "07-03@13:00 11-23@13:00 12-24@13:00"),
    (2002, 252, "01-01 01-21 02-18 03-29 05-27 07-04 09-02 11-28 12-25", "07-05@13:00 11-29@13:00 12-24@13:00"),
    (2003, 252, "01-01 01-20 02-17 04-18 05-26 07-04 09-01 11-27 12-25", "07-03@13:00 11-28@13:00 12-24@13:00 12-26@13:00"),
    (2004, 252, "01-01 01-19 02-16 04-09 05-31 06-11 07-05 09-06 11-25 12-24", "11-26@13:00"),
    (2005, 252, "01-17 02-21 03-25 05-30 07-04 09-05 11-24 12-26", "11-25@13:00"),
    (2006, 251, "01-02 01-16 02-20 04-14 05-29 07-04 09-04 11-23 12-25", "07-03@13:00 11-24@13:00"),
    (2007, 251, "01-01 01-02 01-15 02-19 04-06 05-28 07-04 09-03 11-22 12-25", "07-03@13:00 11-23@13:00 12-24@13:00"),
    (2008, 253, "01-01 01-21 02-18 03-21 05-26 07-04 09-01 11-27 12-25", "07-03@13:00 11-28@13:00 12-24@13:00"),
    (2009, 252, "01-01 01-19 02-16 04-10 05-25 07-03 09-07 11-26 12-25", "11-27@13:00 12-24@13:00"),
    (2010, 252, "01-01 01-18 02-15 04-02 05-31 07-05 09-06 11-25 12-24", "11-26@13:00"),
    (2011, 252, "01-17 02-21 04-22 05-30 07-04 09-05 11-24 12-26", "11-25@13:00"),
    (2012, 250, "01-02 01-16 02-20 04-06 05-28 07-04 09-03 10-29 10-30 11-22 12-25", "07-03@13:00 11-23@13:00 12-24@13:00"),
    (2013, 252, "01-01 01-21 02-18 03-29 05-27 07-04 09-02 11-28 12-25", "07-03@13:00 11-29@13:00 12-24@13:00"),
    (2014, 252, "01-01 01-20 02-17 04-18 05-26 07-04 09-01 11-27 12-25", "07-03@13:00 11-28@13:00 12-24@13:00"),
    (2015, 252, "01-01 01-19 02-16 04-03 05-25 07-03 09-07 11-26 12-25", "11-27@13:00 12-24@13:00"),
    (2016, 252, "01-01 01-18 02-15 03-25 05-30 07-04 09-05 11-24 12-26", "11-25@13:00"),
    (2017, 251, "01-02 01-16 02-20 04-14 05-29 07-04 09-04 11-23 12-25", "07-03@13:00 11-24@13:00"),
    (2018, 251, "01-01 01-15 02-19 03-30 05-28 07-04 09-03 11-22 12-05 12-25", "07-03@13:00 11-23@13:00 12-24@13:00"),
    (2019, 252, "01-01 01-21 02-18 04-19 05-27 07-04 09-02 11-28 12-25", "07-03@13:00 11-29@13:00 12-24@13:00"),
    (2020, 253, "01-01 01-20 02-17 04-10 05-25 07-03 09-07 11-26 12-25", "11-27@13:00 12-24@13:00"),
    (2021, 252, "01-01 01-18 02-15 04-02 05-31 07-05 09-06 11-25 12-24", "11-26@13:00"),
    (2022, 251, "01-17 02-21 04-15 05-30 06-20 07-04 09-05 11-24 12-26", "11-25@13:00"),
    (2023, 250, "01-02 01-16 02-20 04-07 05-29 06-19 07-04 09-04 11-23 12-25", "07-03@13:00 11-24@13:00"),
    (2024, 252, "01-01 01-15 02-19 03-29 05-27 06-19 07-04 09-02 11-28 12-25", "07-03@13:00 11-29@13:00 12-24@13:00"),
    (2025, 250, "01-01 01-09 01-20 02-17 04-18 05-26 06-19 07-04 09-01 11-27 12-25", "07-03@13:00 11-28@13:00 12-24@13:00"),
    (2026, 251, "01-01 01-19 02-16 04-03 05-25 06-19 07-03 09-07 11-26 12-25", "11-27@13:00 12-24@13:00"),
];

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

#[test]
fn nyse_matches_the_published_tables() {
    let befallen = ["1994-02-11", "1995-12-18", "1996-01-08", "1997-10-27", "2002-09-11", "2005-06-01"];
    let calendar = Calendar::nyse();
    assert_eq!(calendar.zone.name(), "America/New_York");
    for (year, days, closed, early) in NYSE {
        let (mut found_closed, mut found_early, mut sessions) = (Vec::new(), Vec::new(), 0);
        let mut date = Date::new(year, 1, 1).unwrap();
        while date.year() == year {
            let short = date.strftime("%m-%d").to_string();
            match calendar.on(date) {
                [] if matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday) => {}
                [] => found_closed.push(short),
                [session] => {
                    sessions += 1;
                    if session.to != 16 * 60 && !befallen.contains(&date.to_string().as_str()) {
                        assert_eq!(session.from, 9 * 60 + 30);
                        found_early.push(format!("{short}@{}:00", session.to / 60));
                    }
                }
                more => panic!("{more:?}"),
            }
            date = date.tomorrow().unwrap();
        }
        assert_eq!(found_closed.join(" "), closed, "{year}");
        assert_eq!(found_early.join(" "), early, "{year}");
        assert_eq!(sessions, days, "{year}");
    }
}

#[test]
fn nyse_opens_and_closes_to_the_minute() {
    let calendar = Calendar::nyse();
    for (at, open) in [
        // Winter and summer time.
        ("2026-01-05T14:29:59.999Z", false),
        ("2026-01-05T14:30:00Z", true),
        ("2026-01-05T20:59:59Z", true),
        ("2026-01-05T21:00:00Z", false),
        ("2026-07-06T13:30:00Z", true),
        ("2026-07-06T20:00:00Z", false),
        // Saturday; Independence Day observed on Friday; the day after Thanksgiving.
        ("2026-01-03T16:00:00Z", false),
        ("2026-07-03T16:00:00Z", false),
        ("2026-11-27T17:59:59Z", true),
        ("2026-11-27T18:00:00Z", false),
        // New Year's Day on a Saturday is not observed on Friday.
        ("2021-12-31T20:00:00Z", true),
        ("2022-06-20T16:00:00Z", false),
        ("2021-06-18T16:00:00Z", true),
        ("2001-09-12T16:00:00Z", false),
        ("2002-09-11T15:59:00Z", false),
        ("2002-09-11T16:00:00Z", true),
        ("1994-02-11T19:29:00Z", true),
        ("1994-02-11T19:30:00Z", false),
    ] {
        assert_eq!(calendar.open(time(at)), open, "{at}");
    }
    assert_eq!(calendar.check(time("1990-01-01T05:00:00Z")), Ok(()));
    let error = calendar.check(time("1990-01-01T04:59:59Z")).unwrap_err().to_string();
    assert_eq!(error, "at: NYSE is known from 1990-01-01 on");
}

#[test]
fn changes_and_phases() {
    let calendar = Calendar::nyse();
    let change = |at| calendar.next_change(time(at)).unwrap().to_string();
    assert_eq!(change("2026-01-05T14:30:00Z"), "2026-01-05T21:00:00Z");
    // Across Christmas, a Friday.
    assert_eq!(change("2026-12-24T17:00:00Z"), "2026-12-24T18:00:00Z");
    assert_eq!(change("2026-12-24T18:00:00Z"), "2026-12-28T14:30:00Z");
    // Across the night in which daylight saving time begins.
    assert_eq!(change("2026-03-06T21:00:00Z"), "2026-03-09T13:30:00Z");
    let mut at = time("2026-01-16T15:00:00Z");
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push((calendar.phase(at), at.to_string()));
        at = calendar.phase_end(at).unwrap();
    }
    // Monday is Martin Luther King Jr. Day.
    assert_eq!(
        seen,
        [
            (Phase::Open, "2026-01-16T15:00:00Z".to_owned()),
            (Phase::AfterHours, "2026-01-16T21:00:00Z".to_owned()),
            (Phase::DayOff, "2026-01-17T05:00:00Z".to_owned()),
            (Phase::AfterHours, "2026-01-20T05:00:00Z".to_owned()),
            (Phase::Open, "2026-01-20T14:30:00Z".to_owned()),
        ]
    );
}

fn spec(sessions: &[(&str, &[&str])]) -> CalendarSpec {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    CalendarSpec {
        name: "OFFICE".to_owned(),
        zone: "Asia/Tokyo".to_owned(),
        sessions: sessions.iter().map(|(days, hours)| ((*days).to_owned(), texts(hours))).collect(),
        ..CalendarSpec::default()
    }
}

#[test]
fn a_calendar_can_be_described_by_the_user() {
    let mut spec = spec(&[("mon-fri", &["09:00-11:30", "12:30-15:30"]), ("sun", &["22:00-24:00"])]);
    spec.closed = vec!["01-01".to_owned(), "2026-01-02".to_owned()];
    spec.half_days.insert("2026-12-30".to_owned(), vec!["09:00-11:30".to_owned()]);
    spec.half_days.insert("2026-01-01".to_owned(), vec!["10:00-11:00".to_owned()]);
    let calendar = spec.check().unwrap();
    for (at, phase) in [
        ("2026-01-05T08:59:59+09:00", Phase::AfterHours),
        ("2026-01-05T09:00:00+09:00", Phase::Open),
        ("2026-01-05T11:30:00+09:00", Phase::AfterHours),
        ("2026-01-05T12:30:00+09:00", Phase::Open),
        ("2026-01-03T12:30:00+09:00", Phase::DayOff),
        ("2026-01-02T12:30:00+09:00", Phase::DayOff),
        ("2027-01-01T10:30:00+09:00", Phase::DayOff),
        // A date takes precedence over a yearly date.
        ("2026-01-01T10:30:00+09:00", Phase::Open),
        ("2026-12-30T13:00:00+09:00", Phase::AfterHours),
        ("2026-01-04T23:59:59+09:00", Phase::Open),
        ("2026-01-05T00:00:00+09:00", Phase::AfterHours),
    ] {
        assert_eq!(calendar.phase(time(at)), phase, "{at}");
    }
    assert_eq!(calendar.check(time("1950-01-01T00:00:00Z")), Ok(()));
    let sessions = calendar.sessions(time("2026-01-05T00:00:00+09:00"));
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[1].0, time("2026-01-05T12:30:00+09:00"));
}

#[test]
fn always_open_never_changes() {
    let calendar = spec(&[("*", &["00:00-24:00"])]).check().unwrap();
    assert!(calendar.open(time("2026-01-05T00:00:00+09:00")));
    assert_eq!(calendar.next_change(time("2026-01-05T00:00:00+09:00")), None);
}

#[test]
fn a_session_inside_a_shift_opens_once() {
    let mut spec = spec(&[("sun", &["01:30-03:00"])]);
    spec.zone = "America/New_York".to_owned();
    let calendar = spec.check().unwrap();
    let changes = |at: &str, n: usize| {
        let step = |at: &Time| calendar.next_change(*at);
        let times: Vec<String> =
            std::iter::successors(Some(time(at)), step).skip(1).take(n).map(|at| at.to_string()).collect();
        times
    };
    // 01:30 occurs twice that night, and in this one 02:00 not at all.
    assert_eq!(changes("2026-11-01T04:00:00Z", 2), ["2026-11-01T05:30:00Z", "2026-11-01T08:00:00Z"]);
    assert_eq!(changes("2026-03-08T05:00:00Z", 2), ["2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z"]);
}

#[test]
fn bad_calendars_name_every_field() {
    let mut bad = spec(&[
        ("mon-fry", &["09:00-17:00"]),
        ("tue", &["9-17", "12:00-25:00", "17:00-09:00"]),
        ("tue-wed", &["09:00-12:00", "11:00-13:00"]),
    ]);
    bad.name = "my office".to_owned();
    bad.zone = "Tokyo/Asia".to_owned();
    bad.closed =
        vec!["2026-02-30".to_owned(), "christmas".to_owned(), "12-25".to_owned(), "12-25".to_owned()];
    let error = bad.check().unwrap_err().to_string();
    for part in [
        "name: must be",
        "zone: `Tokyo/Asia` is not a time zone",
        "sessions.mon-fry: `FRY` is not 0–7 or SUN–SAT",
        "sessions.tue: `9-17` is not a session",
        "sessions.tue: `12:00-25:00` is not a session",
        "sessions.tue: `17:00-09:00` is not a session",
        "sessions.tue-wed: names a day that another line names too",
        "sessions.tue-wed: 11:00-13:00 begins before the session in front of it ends",
        "closed: `2026-02-30` is not a date",
        "closed: `christmas` is not a date",
        "closed: 12-25 is listed twice",
    ] {
        assert!(error.contains(part), "`{part}` is missing in {error}");
    }
    let empty = spec(&[]).check().unwrap_err().to_string();
    assert_eq!(empty, "sessions: has none: the calendar would never open");
}

#[test]
fn calendars_by_name() {
    let mut calendars = Calendars::default();
    assert!(calendars.named("NYSE").is_ok());
    calendars.add(spec(&[("*", &["00:00-24:00"])]).check().unwrap());
    assert_eq!(calendars.named("LSE").unwrap_err(), "`LSE` is not a calendar; known: NYSE, OFFICE");
}
