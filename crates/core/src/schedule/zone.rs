//! Time zones by IANA name, from a database bundled in the binary.
//!
//! Decides what a wall-clock time means when it is skipped or repeated. Never uses the machine's zone or tzdata: nodes
//! with different versions would tick differently.

use std::fmt;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use crate::input::shown;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time zone; write an IANA name such as Europe/Berlin, America/New_York or UTC")]
pub struct UnknownZone(String);

impl Zone {
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// Case-insensitive.
    pub fn named(name: &str) -> Result<Zone, UnknownZone> {
        match ZONES.get(name) {
            Ok(zone) if !zone.is_unknown() => Ok(Zone(zone)),
            _ => Err(UnknownZone(shown(name))),
        }
    }

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The wall-clock time with its UTC offset: `2026-03-29T03:00:00+02:00`.
    pub fn local(&self, at: crate::Time) -> Option<String> {
        let at = Timestamp::from_microsecond(at.0).ok()?;
        Some(at.display_with_offset(self.0.to_offset(at)).to_string())
    }

    pub(super) fn wall(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(at)
    }

    pub(super) fn offset(&self, at: Timestamp) -> jiff::tz::Offset {
        self.0.to_offset(at)
    }

    /// When the UTC offset next changes, strictly after `at`.
    pub(super) fn shift(&self, at: Timestamp) -> Option<Timestamp> {
        self.0.following(at).next().map(|shift| shift.timestamp())
    }

    /// The first instant with the wall-clock time `wall`, or the end of the gap if it is skipped.
    pub(super) fn instant(&self, wall: DateTime) -> Option<Timestamp> {
        match self.0.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok(),
            // At the later offset, a skipped time lies before the shift.
            AmbiguousOffset::Gap { after, .. } => self.shift(after.to_timestamp(wall).ok()?),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!(Zone::named("america/new_york").unwrap().name(), "America/New_York");
        assert_eq!(Zone::named("utc"), Ok(Zone::UTC));
        for name in ["", "Mars/Olympus", "+02:00", "local", "Etc/Unknown"] {
            let error = Zone::named(name).unwrap_err().to_string();
            assert!(error.contains("Europe/Berlin"), "{error}");
        }
    }

    #[test]
    fn skipped_and_repeated_times() {
        let zone = Zone::named("America/New_York").unwrap();
        let instant = |wall: &str| zone.instant(wall.parse().unwrap()).unwrap().to_string();
        assert_eq!(instant("2026-03-08T01:59:59"), "2026-03-08T06:59:59Z");
        assert_eq!(instant("2026-03-08T02:00:00"), "2026-03-08T07:00:00Z");
        assert_eq!(instant("2026-03-08T02:59:59"), "2026-03-08T07:00:00Z");
        assert_eq!(instant("2026-03-08T03:00:00"), "2026-03-08T07:00:00Z");
        assert_eq!(instant("2026-11-01T01:30:00"), "2026-11-01T05:30:00Z");
        assert_eq!(instant("2026-11-01T02:00:00"), "2026-11-01T07:00:00Z");
    }
}
