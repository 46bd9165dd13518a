//! JSON numbers with exact order and equality.
//!
//! 10 equals 10.0, but 9007199254740993 does not equal 9007199254740992. As doubles they would be equal, and ids are
//! often that long.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde_json::Value as Json;

/// Every integer from -2⁶³ to 2⁶⁴ - 1 is `Whole` or `Huge`, however it was written; all others are `Real`. The form is
/// canonical, so `Eq` and `Hash` agree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Whole(i64),
    /// Above `i64::MAX`.
    Huge(u64),
    /// Never NaN: JSON has none.
    Real(f64),
}

/// 2⁶⁴, the first double above every `u64`.
const TOP: f64 = 18_446_744_073_709_551_616.0;
const BOTTOM: f64 = -9_223_372_036_854_775_808.0;

impl Number {
    pub(crate) fn of(number: &serde_json::Number) -> Option<Number> {
        if let Some(whole) = number.as_i64() {
            return Some(Number::Whole(whole));
        }
        if let Some(huge) = number.as_u64() {
            return Some(Number::Huge(huge));
        }
        number.as_f64().filter(|real| !real.is_nan()).map(Number::of_real)
    }

    fn of_real(real: f64) -> Number {
        if real.fract() != 0.0 || !(BOTTOM..TOP).contains(&real) {
            return Number::Real(real);
        }
        // An integer in range, so both conversions are exact.
        let huge = real as u64;
        if real > 0.0 && i64::try_from(huge).is_err() {
            Number::Huge(huge)
        } else {
            Number::Whole(real as i64)
        }
    }

    pub(crate) fn into_json(self) -> Json {
        match self {
            Number::Whole(whole) => whole.into(),
            Number::Huge(huge) => huge.into(),
            Number::Real(real) => real.into(),
        }
    }

    /// `None` for a fraction or an integer out of range.
    fn whole(self) -> Option<i128> {
        match self {
            Number::Whole(whole) => Some(whole.into()),
            Number::Huge(huge) => Some(huge.into()),
            Number::Real(_) => None,
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        match (self.whole(), other.whole()) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(a), None) => against(a, *other),
            (None, Some(b)) => against(b, *self).reverse(),
            (None, None) => real(*self).total_cmp(&real(*other)),
        }
    }
}

/// Compares an integer with a `Real`. They are never equal, because the form is canonical.
fn against(whole: i128, other: Number) -> Ordering {
    let other = real(other);
    if other >= TOP {
        Ordering::Less
    } else if other < BOTTOM {
        Ordering::Greater
    } else {
        // `other` has a fraction, so it is greater than its floor. Doubles with a fraction are below 2^53, so the cast
        // is exact.
        whole.cmp(&(other.floor() as i128)).then(Ordering::Less)
    }
}

fn real(number: Number) -> f64 {
    match number {
        Number::Real(real) => real,
        Number::Whole(whole) => whole as f64,
        Number::Huge(huge) => huge as f64,
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Number::Whole(whole) => whole.hash(state),
            Number::Huge(huge) => huge.hash(state),
            Number::Real(real) => real.to_bits().hash(state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::of(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn spelling_does_not_change_a_number() {
        for (a, b) in [
            ("10", "10.0"),
            ("-0.0", "0"),
            ("1e3", "1000"),
            ("9223372036854775808", "9.223372036854775808e18"),
            ("-9223372036854775808", "-9.223372036854775808e18"),
        ] {
            assert_eq!(number(a), number(b), "{a} {b}");
        }
    }

    #[test]
    fn integers_and_fractions_have_one_order() {
        let rising = [
            "-1e300",
            "-9223372036854775808",
            "-2.5",
            "-2",
            "0",
            "0.5",
            "1",
            "9007199254740992",
            "9007199254740993",
            "7528080644346216448",
            "7528080644346216449",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "1e300",
        ];
        for (n, a) in rising.iter().enumerate() {
            for (m, b) in rising.iter().enumerate() {
                assert_eq!(number(a).cmp(&number(b)), n.cmp(&m), "{a} {b}");
            }
        }
    }

    #[test]
    fn numbers_survive_the_way_back_to_json() {
        for text in ["7528080644346216449", "18446744073709551615", "-3", "2.5", "1e300"] {
            let json: Json = serde_json::from_str(text).unwrap();
            assert_eq!(number(text).into_json(), json);
        }
    }
}
