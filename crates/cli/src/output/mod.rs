//! Output of verbs: lines, tables, JSON objects.
//!
//! Owns stdout, and the rule that stored text is hostile: nothing in a job reaches the terminal as a control sequence.

pub(crate) mod graph;
pub(crate) mod indent;
pub(crate) mod job;
pub(crate) mod progress;
pub(crate) mod table;

use std::fmt::{Display, Write as _};
use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;

use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::config::Environment;
use crate::failure::{During, Failure};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Colour on stdout.
    pub(crate) colour: bool,
    pub(crate) error_colour: bool,
    /// Whether progress bars are drawn: stderr is a terminal.
    pub(crate) bars: bool,
    pretty: bool,
}

impl Output {
    pub(crate) fn new(environment: &Environment) -> Output {
        let plain = environment.get("NO_COLOR").is_some()
            || environment.get("TERM").is_some_and(|terminal| terminal == "dumb");
        let stdout = std::io::stdout().is_terminal();
        let stderr = std::io::stderr().is_terminal();
        Output { colour: stdout && !plain, error_colour: stderr && !plain, bars: stderr, pretty: stdout }
    }

    /// One or more lines of our own text; stored text in them must have passed [`visible`].
    pub(crate) fn line(&self, text: impl Display) -> Result<(), Failure> {
        writeln!(std::io::stdout().lock(), "{text}").during("write the answer")
    }

    /// One object: indented on a terminal, otherwise on one line.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text =
            if self.pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        let text = text.map_err(|error| Failure::new("write the answer", error))?;
        self.line(json_visible(&text))
    }

    /// JSON text, with all its digits.
    pub(crate) fn json_text(&self, text: &str) -> Result<(), Failure> {
        match self.pretty {
            true => self.line(json_visible(&indent::indented(text))),
            false => self.line(json_visible(&text.replace('\n', " "))),
        }
    }

    /// One of many objects, each on its own line, into a buffer of stdout.
    pub(crate) fn json_line(&self, out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::new("write the answer", error))?;
        writeln!(out, "{}", json_visible(&text)).during("write the answer")
    }

    /// For people, on stderr.
    pub(crate) fn note(&self, text: impl Display) {
        // If stderr is closed, nothing can be done.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// Says how to get the next page of a list, if there is one.
pub(crate) fn more(output: &Output, page: &serde_json::Value) {
    if let Some(cursor) = page["next_cursor"].as_str() {
        output.note(format_args!("more with --cursor {}", visible(cursor)));
    }
}

/// Stored text on one line, with control characters, escape sequences and direction overrides made visible.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hostile(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// Like [`visible`], but keeps line breaks.
pub(crate) fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Valid JSON has no control characters except whitespace outside strings, and none inside. So a tab becomes a space,
/// and any other that is left is escaped in place.
fn json_visible(text: &str) -> String {
    if !text.chars().any(|c| c != '\n' && is_hostile(c)) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if matches!(c, '\t' | '\r') {
            out.push(' ');
        } else if c != '\n' && is_hostile(c) {
            let mut units = [0u16; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that move the cursor, are invisible, or reorder text: controls, line separators, Unicode format
/// characters (which include all direction controls), and others without a glyph. Of the variation selectors, those of
/// ordinary emoji are allowed.
fn is_hostile(c: char) -> bool {
    c.is_control() || UNSEEN.iter().any(|range| range.contains(&c))
}

/// In ascending order.
const UNSEEN: [RangeInclusive<char>; 26] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d159}'..='\u{1d159}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

/// Text cut to `width` terminal columns.
pub(crate) fn short(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        // The selector turns a one-column symbol into a two-column emoji.
        let taken = if *c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(1) };
        left.checked_sub(taken).map(|rest| left = rest).is_some()
    };
    let mut out: String = text.chars().take_while(fits).collect();
    out.push('…');
    out
}

/// Quoted for a shell unless that is not needed.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A duration with a sensible number of digits.
pub(crate) fn taken(time: std::time::Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.01 => format!("{:.1}ms", seconds * 1e3),
        seconds if seconds < 1.0 => format!("{}ms", time.as_millis()),
        seconds if seconds < 100.0 => format!("{seconds:.1}s"),
        _ => windlass_core::duration::rough(time),
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn plural(n: u64, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_cannot_control_the_terminal() {
        assert_eq!(visible("a\x1b[2Jb\r\n\u{9b}31m\u{202e}c"), "a\\u{1b}[2Jb\\r\\n\\u{9b}31m\\u{202e}c");
        let json = serde_json::to_string("\x1b[2J\u{9b}\u{202e}\u{e0041}").unwrap();
        let shown = json_visible(&json);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), "\x1b[2J\u{9b}\u{202e}\u{e0041}");
        assert_eq!(json_visible("{\"a\":\t1}"), "{\"a\": 1}", "a payload is stored as enqueued");
    }

    /// Every character with the property Bidi_Control, and one of each kind that is invisible.
    #[test]
    fn stored_text_cannot_hide_or_reorder_text() {
        let bidi = ['\u{61c}', '\u{200e}', '\u{200f}'];
        let bidi = bidi.into_iter().chain('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let unseen = "\u{ad}\u{34f}\u{180e}\u{200b}\u{200c}\u{200d}\u{2060}\u{2063}\u{3164}\u{feff}\u{fff9}\u{1d173}\u{e0001}\u{e0100}";
        for c in bidi.chain(unseen.chars()) {
            assert_eq!(visible(&format!("a{c}b")), format!("a\\u{{{:x}}}b", c as u32));
            let json = json_visible(&serde_json::to_string(&c).unwrap());
            assert!(json.is_ascii() && serde_json::from_str::<char>(&json).unwrap() == c, "{json}");
        }
        for plain in ["naïve", "日本語", "한국어", "עברית", "العربية", "ไทย", "❤️", "👍🏽", "e\u{301}"]
        {
            assert_eq!(visible(plain), plain);
        }
        assert!(UNSEEN.is_sorted_by(|a, b| a.end() < b.start()));
    }

    #[test]
    fn a_shell_reads_one_word() {
        assert_eq!(quoted("sqlite://./a.db"), "sqlite://./a.db");
        assert_eq!(quoted("http://[::1]:80"), "'http://[::1]:80'");
        assert_eq!(quoted("postgres://h/d?a=b&c=it's"), r"'postgres://h/d?a=b&c=it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn text_is_cut_at_characters_not_bytes() {
        assert_eq!(short("äöüß", 3), "äö…");
        assert_eq!(short("äöü", 3), "äöü");
        assert_eq!(short("日本語", 6), "日本語");
        assert_eq!(short("日本語", 5), "日本…");
        assert_eq!(short("日本語", 4), "日…");
        assert_eq!(short("⚠\u{fe0f}⚠\u{fe0f}⚠", 4), "⚠\u{fe0f}⚠…");
    }
}
