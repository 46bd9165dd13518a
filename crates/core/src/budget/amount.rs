//! Money in millionths of the currency unit: a call may cost 0.6 cents, and sums must still be exact.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Millionths of the currency unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Amount(pub i64);

const UNIT: i64 = 1_000_000;
const CENT: i64 = UNIT / 100;
const DIGITS: usize = 6;

impl Amount {
    pub const ZERO: Amount = Amount(0);
    /// A billion units. Larger values are typing errors, and sums stay far from overflow.
    pub const MOST: Amount = Amount(1_000_000_000 * UNIT);

    pub fn from_cents(cents: i64) -> Amount {
        Amount(cents.saturating_mul(CENT))
    }

    /// Rounded to the nearest cent, half a cent upwards.
    pub fn cents(self) -> i64 {
        (self.0.saturating_add(CENT / 2)).div_euclid(CENT)
    }

    /// In currency units, for gauges. Never use it for sums.
    pub fn units(self) -> f64 {
        self.0 as f64 / UNIT as f64
    }

    pub fn plus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0))
    }

    pub fn minus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_sub(other.0))
    }
}

/// `500.00`, `0.006`: at least two decimals, more only if they are not zero.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, millionths) = (self.0.unsigned_abs() / UNIT as u64, self.0.unsigned_abs() % UNIT as u64);
        let fraction = format!("{millionths:0DIGITS$}");
        let digits = fraction.trim_end_matches('0').len().max(2);
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{units}.{}", &fraction[..digits]))
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an amount: {why}; write it as 500, 500.00 or 0.006", crate::input::shown(text))]
pub struct BadAmount {
    text: String,
    why: &'static str,
}

impl FromStr for Amount {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Amount, BadAmount> {
        let bad = |why| BadAmount { text: text.to_owned(), why };
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(bad("it is negative"));
        }
        let (units, fraction) = trimmed.split_once('.').unwrap_or((trimmed, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(units) || !digits(fraction) {
            return Err(bad("it is not digits with at most one point"));
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > DIGITS {
            return Err(bad("it has more than six digits after the point"));
        }
        let whole = units.parse::<i64>().ok().and_then(|units| units.checked_mul(UNIT));
        let part = format!("{fraction:0<DIGITS$}").parse::<i64>().unwrap_or(0);
        match whole.and_then(|whole| whole.checked_add(part)).map(Amount) {
            Some(amount) if amount <= Amount::MOST => Ok(amount),
            _ => Err(bad("it is more than a billion")),
        }
    }
}

/// Serialized as text, so that no JSON reader rounds it.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_survive_a_round_trip_through_text() {
        for (text, millionths, shown) in [
            ("500.00", 500_000_000, "500.00"),
            ("500", 500_000_000, "500.00"),
            ("0.006", 6_000, "0.006"),
            (" 12.5 ", 12_500_000, "12.50"),
            ("0.000001", 1, "0.000001"),
            ("0.0000010000", 1, "0.000001"),
            ("1000000000", 1_000_000_000_000_000, "1000000000.00"),
        ] {
            let amount: Amount = text.parse().unwrap();
            assert_eq!((amount.0, amount.to_string()), (millionths, shown.to_owned()), "{text}");
        }
        assert_eq!(Amount(-1_500_000).to_string(), "-1.50");
        assert_eq!(serde_json::to_string(&Amount(6_000)).unwrap(), "\"0.006\"");
    }

    #[test]
    fn an_invalid_amount_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "digits"),
            ("-1", "negative"),
            (".5", "digits"),
            ("5.", "digits"),
            ("1e3", "digits"),
            ("1,50", "digits"),
            ("0.0000001", "six digits"),
            ("1000000000.01", "a billion"),
            ("99999999999999999999", "a billion"),
        ] {
            let error = text.parse::<Amount>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn cents_are_rounded_to_the_nearest() {
        let cents = |millionths| Amount(millionths).cents();
        assert_eq!(
            [cents(0), cents(4_999), cents(5_000), cents(14_999), cents(500_000_000)],
            [0, 0, 1, 1, 50_000]
        );
        assert_eq!(Amount::from_cents(75_000).to_string(), "750.00");
    }
}
