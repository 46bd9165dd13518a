//! The excerpt of a text that shows why it was found.

use std::collections::HashSet;

use crate::analysis;
use crate::keyword::Stems;

const LENGTH: usize = 200;

/// The text around the densest group of query words, or the beginning. Plain text: the caller must escape it.
pub fn snippet(text: &str, query: &HashSet<String>, stems: &Stems) -> String {
    let mut places = Vec::new();
    if !query.is_empty() {
        analysis::words(text, |word, place| {
            let stem = stems.stem(word);
            if query.contains(stem.as_ref()) {
                places.push((place.start, stem.into_owned()));
            }
        });
    }
    let from = densest(&places).map_or(0, |at| word_start(text, at.saturating_sub(LENGTH / 4)));
    let to = ceil(text, (from + LENGTH).min(text.len()));
    let cut = text[from..to].split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{before}{cut}{after}")
}

/// Start of the window with the most different words.
fn densest(places: &[(usize, String)]) -> Option<usize> {
    let mut best = None;
    let mut most = 0;
    for (n, (start, _)) in places.iter().enumerate() {
        let inside = places[n..].iter().take_while(|(at, _)| *at < start + LENGTH * 3 / 4);
        let different = inside.map(|(_, stem)| stem).collect::<HashSet<_>>().len();
        if different > most {
            (best, most) = (Some(*start), different);
        }
        // Bounds the work for a text with very many matches.
        if n > 500 {
            break;
        }
    }
    best
}

/// The beginning of the word at or after `at`.
fn word_start(text: &str, at: usize) -> usize {
    if at == 0 {
        return 0;
    }
    let at = ceil(text, at);
    let next = text[at..].find(char::is_whitespace).filter(|gap| *gap < 40);
    next.map_or(at, |gap| ceil(text, at + gap + 1))
}

fn ceil(text: &str, mut at: usize) -> usize {
    while at < text.len() && !text.is_char_boundary(at) {
        at += 1;
    }
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, words: &[&str]) -> String {
        snippet(text, &words.iter().map(|word| word.to_string()).collect(), &Stems::default())
    }

    #[test]
    fn the_densest_window_is_shown() {
        let text =
            format!("{} the wing of a bird carries it {}", "lead in. ".repeat(60), "and so on. ".repeat(60));
        let cut = shown(&text, &["wing", "bird"]);
        assert!(cut.contains("wing of a bird"), "{cut}");
        assert!(cut.starts_with('…') && cut.ends_with('…'), "{cut}");
        assert!(cut.len() < 260);
    }

    #[test]
    fn any_script_is_cut_between_characters() {
        for text in ["", "короткий", &"東京".repeat(300), &"🦀".repeat(200), &"é ".repeat(300)] {
            shown(text, &["東"]);
            shown(text, &[]);
        }
    }
}
