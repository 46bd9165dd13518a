use super::*;

#[test]
fn both_notations_are_read() {
    for (text, micros) in [
        ("500ms", 500_000),
        ("PT0.5S", 500_000),
        ("pt0.5s", 500_000),
        ("1.5s", 1_500_000),
        ("90s", 90_000_000),
        ("90sec", 90_000_000),
        ("5m", 300_000_000),
        ("5 min", 300_000_000),
        ("PT5M", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("1h 30m", 5_400_000_000),
        ("1 h 30 m", 5_400_000_000),
        (" 1.5h ", 5_400_000_000),
        ("P1DT2H", 93_600_000_000),
        ("p1dt2h", 93_600_000_000),
        ("7d", 604_800_000_000),
        ("1w", 604_800_000_000),
        ("P2W", 1_209_600_000_000),
        ("7us", 7),
        ("7µs", 7),
        ("0.000002s", 2),
        ("0s", 0),
        ("36600d", 3_162_240_000_000_000),
    ] {
        assert_eq!(parse(text), Ok(Duration::from_micros(micros)), "{text}");
    }
}

#[test]
fn an_invalid_duration_is_refused_with_the_reason() {
    let number = "a number is missing or malformed";
    let order = "units go from long to short, and only the last, of an hour or less, may have a fraction";
    for (text, why) in [
        ("", "it is empty"),
        (" ", "it is empty"),
        ("P", "it is empty"),
        ("PT", "nothing follows the T"),
        ("P1DT", "nothing follows the T"),
        ("-5m", "it is negative"),
        ("-P1D", "it is negative"),
        ("5", "the unit is missing"),
        ("1h30", "the unit is missing"),
        ("PT5", "the unit is missing"),
        ("m", number),
        ("1..5s", number),
        (".5s", number),
        ("5.s", number),
        ("0.0000000001s", number),
        ("+5m", number),
        ("1.0000015s", "it is finer than a microsecond"),
        ("PT0.0000015S", "it is finer than a microsecond"),
        ("PT-5M", number),
        ("5 parsecs", "the unit is unknown"),
        ("5m ago", "the unit is unknown"),
        ("1:30:00", "the unit is unknown"),
        ("5M", "the unit is unknown"),
        ("5ns", "the unit is unknown"),
        ("2mo", "the unit is unknown"),
        ("1y", "the unit is unknown"),
        ("P1M", "the unit is unknown"),
        ("P0M", "the unit is unknown"),
        ("P1Y", "the unit is unknown"),
        ("30m1h", order),
        ("1s1s", order),
        ("1.5h30m", order),
        ("0.5d", order),
        ("PT1S1M", order),
        ("36601d", TOO_LONG),
        ("36600d1us", TOO_LONG),
        ("200000000d", TOO_LONG),
        ("99999999999999999999s", TOO_LONG),
        ("PT99999999999999999999S", TOO_LONG),
    ] {
        assert_eq!(parse(text), Err(BadDuration { text: text.to_owned(), why }), "{text}");
    }
    assert_eq!(
        parse("5").unwrap_err().to_string(),
        "`5` is not a duration: the unit is missing; write it as 500ms, 90s, 5m, 1h30m, 7d or PT0.5S"
    );
}

#[test]
fn durations_are_formatted_exactly_and_roughly() {
    for (text, exact, brief) in [
        ("0s", "0s", "0s"),
        ("7µs", "7us", "7us"),
        ("1500us", "1ms500us", "1ms"),
        ("250ms", "250ms", "250ms"),
        ("1.5s", "1s500ms", "1s"),
        ("60s", "1m", "1m"),
        ("90.25s", "1m30s250ms", "1m30s"),
        ("5400s", "1h30m", "1h30m"),
        ("1h30m12s", "1h30m12s", "1h30m"),
        ("1h12s", "1h12s", "1h"),
        ("25h1m", "1d1h1m", "1d1h"),
        ("P1DT2H3M", "1d2h3m", "1d2h"),
        ("2w", "14d", "14d"),
    ] {
        let duration = parse(text).unwrap();
        assert_eq!((format(duration).as_str(), rough(duration).as_str()), (exact, brief), "{text}");
    }
}

#[test]
fn formatted_durations_are_read_back_exactly() {
    let mut random = fastrand::Rng::new();
    let longest = LONGEST.as_micros() as u64;
    // Draws as many short durations as long ones; every second one has only a few units.
    let drawn = (0..200_000).map(|n| {
        let micros = random.u64(..) >> random.u32(12..64);
        let unit = [1, 1_000, 1_000_000, 60_000_000][random.usize(..4)];
        if n % 2 == 0 { micros % longest } else { micros % longest / unit * unit }
    });
    for micros in [0, 1, longest].into_iter().chain(drawn) {
        let duration = Duration::from_micros(micros);
        assert_eq!(parse(&format(duration)), Ok(duration), "{micros} µs");
    }
}

#[test]
fn the_longest_duration_can_be_formatted() {
    assert_eq!(format(Duration::MAX), "213503982334601d");
    assert_eq!(rough(Duration::from_secs(10_000 * 366 * 86_400)), "3660000d");
}
