//! BERT's WordPiece tokenizer: clean, lower-case, strip accents, split, then take the longest known pieces of each
//! word.
//!
//! Owns the vocabulary. Agrees with the model's own tokenizer, except that text cannot contain special tokens.

use foldhash::{HashMap, HashMapExt};
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::EmbedError;

/// Longer words are unknown, as in the model's own tokenizer.
const LONGEST_WORD: usize = 100;

pub(super) struct WordPieces {
    /// Pieces that begin a word.
    first: HashMap<Box<str>, u32>,
    /// Pieces that continue a word, without their `##`.
    next: HashMap<Box<str>, u32>,
}

#[derive(Deserialize)]
struct File {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    vocab: HashMap<String, u32>,
}

impl WordPieces {
    pub(super) fn parse(json: &[u8]) -> Result<WordPieces, EmbedError> {
        let file: File =
            serde_json::from_slice(json).map_err(|error| EmbedError::Model(error.to_string()))?;
        let (mut first, mut next) = (HashMap::with_capacity(25_000), HashMap::with_capacity(6_000));
        for (piece, id) in file.model.vocab {
            match piece.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => next.insert(rest.into(), id),
                _ => first.insert(piece.into_boxed_str(), id),
            };
        }
        Ok(WordPieces { first, next })
    }

    /// The first `most` pieces of the text; unknown words have none.
    pub(super) fn pieces(&self, text: &str, most: usize, out: &mut Vec<u32>) {
        let mut word = String::with_capacity(32);
        for c in text.chars() {
            if out.len() >= most {
                break;
            }
            self.push(c, &mut word, out);
        }
        self.word(&word, out);
        out.truncate(most);
    }

    fn push(&self, c: char, word: &mut String, out: &mut Vec<u32>) {
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        } else if c.is_whitespace() {
            self.end(word, out);
        } else if c.is_ascii_punctuation() || is_ideograph(c) || is_punctuation(c) {
            self.end(word, out);
            word.push(c);
            self.end(word, out);
        } else if c == '\0' || c == '\u{fffd}' || is_control(c) {
            // Removed without ending the word, as in the model's own tokenizer.
        } else {
            let lowered = c.to_lowercase().nfd().filter(|c| !is_combining_mark(*c));
            word.extend(lowered);
        }
    }

    fn end(&self, word: &mut String, out: &mut Vec<u32>) {
        self.word(word, out);
        word.clear();
    }

    fn word(&self, word: &str, out: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        if let Some(id) = self.first.get(word) {
            return out.push(*id);
        }
        if word.chars().count() > LONGEST_WORD {
            return;
        }
        let before = out.len();
        let mut rest = word;
        let mut vocabulary = &self.first;
        while !rest.is_empty() {
            let Some((id, length)) = longest(vocabulary, rest) else {
                // One unknown piece makes the whole word unknown.
                return out.truncate(before);
            };
            out.push(id);
            rest = &rest[length..];
            vocabulary = &self.next;
        }
    }
}

fn longest(vocabulary: &HashMap<Box<str>, u32>, rest: &str) -> Option<(u32, usize)> {
    let mut end = rest.len();
    while end > 0 {
        if let Some(id) = vocabulary.get(&rest[..end]) {
            return Some((*id, end));
        }
        end -= rest[..end].chars().next_back().map_or(1, char::len_utf8);
    }
    None
}

/// The Unicode blocks in which BERT treats each character as a word.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2ceaf
        | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c), 0xad | 0x600..=0x605 | 0x61c | 0x200b..=0x200f | 0x202a..=0x202e
        | 0x2060..=0x206f | 0xfeff | 0xe0000..=0xe007f)
}

/// Unicode punctuation in the commonly used blocks.
fn is_punctuation(c: char) -> bool {
    matches!(u32::from(c), 0xa1 | 0xa7 | 0xab | 0xb6 | 0xb7 | 0xbb | 0xbf | 0x2010..=0x2027 | 0x2030..=0x205e
        | 0x3001..=0x3003 | 0x3008..=0x3011 | 0x3014..=0x301f | 0x3030 | 0x30fb | 0xff01..=0xff0f | 0xff1a..=0xff20
        | 0xff3b..=0xff3d | 0xff3f | 0xff5b | 0xff5d | 0xff5f..=0xff65 | 0x55a..=0x55f | 0x589 | 0x58a | 0x5be
        | 0x5f3 | 0x5f4 | 0x60c | 0x61b | 0x61e | 0x61f | 0x66a..=0x66d | 0x6d4 | 0x964 | 0x965)
}
