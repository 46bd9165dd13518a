//! Splits text into words, the same way for documents and queries.
//!
//! Owns splitting and folding. A word is a run of letters and digits, lower-cased and without accents. Scripts without
//! spaces give single characters and pairs. The dictionary does the stemming, once per word.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer words are cut, so that hashes and base64 do not fill the dictionary.
const LONGEST_WORD: usize = 64;

/// Words without meaning of their own. They are indexed, and left out of queries that have other words.
const STOP_WORDS: [&str; 45] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does",
    "for", "from", "has", "have", "how", "i", "if", "in", "into", "is", "it", "no", "not", "of", "on", "or",
    "s", "such", "t", "that", "the", "their", "there", "these", "they", "this", "to", "was", "what", "with",
];

pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Calls `each` with every word and its byte range.
pub fn words(text: &str, mut each: impl FnMut(&str, Range<usize>)) {
    let mut word = String::with_capacity(LONGEST_WORD);
    let mut begin = 0;
    let mut previous: Option<(char, usize)> = None;
    for (at, c) in text.char_indices() {
        if c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric() && !is_unspaced(c)) {
            if word.is_empty() {
                begin = at;
            }
            fold(c, &mut word);
            previous = None;
            continue;
        }
        // A combining mark belongs to the letter before it; a soft hyphen does not end a word.
        if !word.is_empty() && !c.is_ascii() && (is_combining_mark(c) || c == '\u{ad}') {
            continue;
        }
        flush(&mut word, begin..at, &mut each);
        if is_unspaced(c) {
            single(c, at, &mut previous, &mut each);
        } else {
            previous = None;
        }
    }
    flush(&mut word, begin..text.len(), &mut each);
}

fn flush(word: &mut String, place: Range<usize>, each: &mut impl FnMut(&str, Range<usize>)) {
    if !word.is_empty() {
        each(word, place);
        word.clear();
    }
}

/// A character of a script without spaces, and the pair it makes with the one before.
fn single(
    c: char,
    at: usize,
    previous: &mut Option<(char, usize)>,
    each: &mut impl FnMut(&str, Range<usize>),
) {
    let mut buffer = [0u8; 8];
    let end = at + c.len_utf8();
    each(c.encode_utf8(&mut buffer), at..end);
    if let Some((before, begin)) = previous.take() {
        let length = before.encode_utf8(&mut buffer).len();
        let total = length + c.encode_utf8(&mut buffer[length..]).len();
        if let Ok(pair) = std::str::from_utf8(&buffer[..total]) {
            each(pair, begin..end);
        }
    }
    *previous = Some((c, at));
}

fn fold(c: char, word: &mut String) {
    if word.len() >= LONGEST_WORD {
        return;
    }
    if c.is_ascii() {
        word.push(c.to_ascii_lowercase());
    } else if matches!(c, 'ß' | 'ẞ') {
        word.push_str("ss");
    } else {
        word.extend(c.to_lowercase().nfkd().filter(|c| !is_combining_mark(*c)).map(plain));
    }
}

/// Letters that do not decompose in Unicode but are commonly typed as another letter.
fn plain(c: char) -> char {
    match c {
        'ø' => 'o',
        'ł' => 'l',
        'đ' => 'd',
        'ı' => 'i',
        // The form of sigma at the end of a word.
        'ς' => 'σ',
        other => other,
    }
}

/// Han, kana, Thai, Lao, Khmer, Burmese, Tibetan.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x0f00..=0x0fff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3005..=0x3007
        | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x323af)
        && c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        words(text, |word, place| {
            assert!(text.get(place).is_some(), "the range cuts a character");
            all.push(word.to_owned());
        });
        all
    }

    #[test]
    fn words_are_folded() {
        assert_eq!(split("Crème brûlée, 3.5kg; ŁÓDŹ"), ["creme", "brulee", "3", "5kg", "lodz"]);
        assert_eq!(split("e\u{301}te\u{301}"), ["ete"]);
        assert_eq!(split("ﬁne STRASSE straße"), ["fine", "strasse", "strasse"]);
        assert_eq!(split("ΒΡΑΣΤΉΡΑΣ βραστήρας"), ["βραστηρασ", "βραστηρασ"]);
    }

    #[test]
    fn scripts_without_spaces_give_characters_and_pairs() {
        assert_eq!(split("東京都 x"), ["東", "京", "東京", "都", "京都", "x"]);
        assert_eq!(split("Привет мир"), ["привет", "мир"]);
    }

    #[test]
    fn text_without_letters_has_no_words_and_long_words_are_cut() {
        assert!(split("").is_empty());
        assert!(split(" \u{0} \u{200b} --- \u{301}").is_empty());
        assert_eq!(split(&"x".repeat(1_000)), ["x".repeat(64)]);
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("the") && !is_stop_word("wing"));
    }
}
