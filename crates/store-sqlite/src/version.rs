//! Whether the linked version of SQLite can be used.
//!
//! Owns: the list of versions with the WAL-reset bug (a checkpoint racing a writer loses committed pages). Never
//! works around the bug: a store that may lose an accepted job does not open.

/// Why the version is refused; `None` when it can be used.
pub(crate) fn unfit(version: i32) -> Option<&'static str> {
    const NEEDED: i32 = 3_038_000;
    match version {
        // The release that had the bug again and was withdrawn.
        3_052_000 => {
            Some("it has the WAL-reset bug, which loses committed data; use 3.51.3 or 3.53 and later")
        }
        NEEDED..=3_051_002 => {
            Some("it has the WAL-reset bug, which loses committed data; use 3.51.3 or 3.53 and later")
        }
        ..NEEDED => Some("it is too old; use 3.51.3 or 3.53 and later"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::unfit;

    #[test]
    fn affected_versions_are_refused() {
        for version in [3_007_000, 3_040_001, 3_051_002, 3_052_000] {
            assert!(unfit(version).is_some(), "{version}");
        }
        for version in [3_051_003, 3_053_000, 3_060_000] {
            assert!(unfit(version).is_none(), "{version}");
        }
    }

    #[test]
    fn the_linked_version_is_fit() {
        assert_eq!(unfit(rusqlite::version_number()), None, "{}", rusqlite::version());
    }
}
