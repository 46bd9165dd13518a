//! Limits on input, and the error that lists every violated rule.

use std::fmt;
use std::time::Duration;

use crate::lane::MAX_KEY_CONCURRENCY;
use crate::queue::MAX_PRIORITY;

pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
pub const MAX_BATCH: usize = 10_000;
pub const MAX_NAME_BYTES: usize = 64;
pub const MAX_KEY_BYTES: usize = 256;
pub const MAX_TAGS: usize = 16;
pub const MAX_ATTEMPTS: u16 = 1_000;
/// Bounds the tokens of one call or of a month's limit, so that sums stay far from overflow.
pub const MAX_TOKENS: u64 = 1_000_000_000_000_000;
/// A year. Use a schedule for longer waits.
pub const MAX_DELAY: Duration = Duration::from_secs(366 * 86_400);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub field: String,
    pub rule: String,
}

/// Input that was refused before anything was written. Lists all problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invalid {
    pub problems: Vec<Problem>,
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{}: {}", problem.field, problem.rule)?;
        }
        Ok(())
    }
}

impl Invalid {
    pub fn one(field: impl Into<String>, rule: impl Into<String>) -> Invalid {
        Invalid { problems: vec![Problem { field: field.into(), rule: rule.into() }] }
    }

    pub fn add(&mut self, field: impl Into<String>, rule: impl Into<String>) {
        self.problems.push(Problem { field: field.into(), rule: rule.into() });
    }

    /// Adds the problems of a later check. Skips fields, and anything inside them, that were already refused: the later
    /// check saw placeholder values for those.
    pub fn and(mut self, later: Invalid) -> Invalid {
        let known: Vec<String> = self.problems.iter().map(|problem| problem.field.clone()).collect();
        let inside = |field: &str, known: &str| {
            let rest = field.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let new = |problem: &Problem| !known.iter().any(|known| inside(&problem.field, known));
        self.problems.extend(later.problems.into_iter().filter(new));
        self
    }

    /// `Ok` if there are no problems.
    pub fn into_result(self) -> Result<(), Invalid> {
        if self.problems.is_empty() { Ok(()) } else { Err(self) }
    }

    pub fn check_name(&mut self, field: &str, name: &str) {
        self.check_name_of(field, name, MAX_NAME_BYTES);
    }

    /// Like [`Invalid::check_name`], with another maximum length.
    pub fn check_name_of(&mut self, field: &str, name: &str, most: usize) {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if name.is_empty() || name.len() > most || !name.chars().all(fits) || is_dots(name) {
            self.add(field, format!("must be 1–{most} of A–Z a–z 0–9 _ - . :, not `{}`", shown(name)));
        }
    }

    /// A name used in code: lower case only.
    pub fn check_word(&mut self, field: &str, name: &str) {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || name.len() > MAX_NAME_BYTES || !name.chars().all(fits) {
            let name = shown(name);
            self.add(
                field,
                format!("must begin with a–z and be at most {MAX_NAME_BYTES} of a–z 0–9 _ -, not `{name}`"),
            );
        }
    }

    pub fn check_key(&mut self, field: &str, key: &str) {
        if key.is_empty() || key.len() > MAX_KEY_BYTES || key.contains('\0') {
            self.add(field, format!("must be 1–{MAX_KEY_BYTES} bytes without NUL"));
        }
    }

    pub fn check_priority(&mut self, field: &str, priority: i64) {
        if !(0..=i64::from(MAX_PRIORITY)).contains(&priority) {
            self.add(field, format!("must be 0 (most urgent) to {MAX_PRIORITY}, not {priority}"));
        }
    }

    pub fn check_payload(&mut self, field: &str, bytes: usize) {
        if bytes > MAX_PAYLOAD_BYTES {
            self.add(field, format!("is {bytes} bytes; at most {MAX_PAYLOAD_BYTES} (1 MiB) are allowed"));
        }
    }

    pub fn check_attempts(&mut self, field: &str, attempts: i64) {
        if !(1..=i64::from(MAX_ATTEMPTS)).contains(&attempts) {
            self.add(field, format!("must be 1 to {MAX_ATTEMPTS}, not {attempts}"));
        }
    }

    pub fn check_key_concurrency(&mut self, field: &str, limit: i64) {
        if !(1..=i64::from(MAX_KEY_CONCURRENCY)).contains(&limit) {
            self.add(field, format!("must be 1 to {MAX_KEY_CONCURRENCY}, not {limit}"));
        }
    }

    pub fn check_tags(&mut self, field: &str, tags: &[String]) {
        if tags.len() > MAX_TAGS {
            self.add(field, format!("has {} entries; at most {MAX_TAGS} are allowed", tags.len()));
        }
        for tag in tags {
            self.check_name(field, tag);
        }
    }
}

/// `.` and `..`, escaped or not, mean a folder in a path. Clients resolve them before sending a request, so nothing can
/// have such a name.
pub fn is_dots(name: &str) -> bool {
    matches!(name, "." | "..")
}

/// Names in an error message.
pub const NAMES_SHOWN: usize = 10;

/// Names for an error message, the first few: a message that lists thousands, once per mistake, is megabytes.
pub fn some_of(names: &[&str]) -> String {
    match names.split_at_checked(NAMES_SHOWN) {
        Some((first, rest)) if !rest.is_empty() => {
            format!("{} and {} more", first.join(", "), rest.len())
        }
        _ => names.join(", "),
    }
}

/// A user's text, shortened for error messages.
pub fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(40).map(|c| if c.is_control() { '·' } else { c }).collect();
    if text.chars().nth(40).is_some() {
        out.push('…');
    }
    out
}
