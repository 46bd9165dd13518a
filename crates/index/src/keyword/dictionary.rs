//! Words and their stems. The stem of each spelling is computed once and cached.

use std::borrow::Cow;

use foldhash::HashMap;
use frostem::{Algorithm, Stemmer};

/// English stemmer: `wings` and `wing` have one stem.
pub struct Stems(Stemmer);

impl Default for Stems {
    fn default() -> Self {
        Stems(Stemmer::new(Algorithm::English))
    }
}

impl Stems {
    /// Words with other characters than a–z stay as they are.
    pub fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        match word.bytes().all(|b| b.is_ascii_lowercase()) {
            true => self.0.stem(word),
            false => Cow::Borrowed(word),
        }
    }
}

#[derive(Default)]
pub struct Dictionary {
    /// From each spelling to the number of its stem.
    words: HashMap<Box<str>, u32>,
    stems: HashMap<Box<str>, u32>,
    stemmer: Stems,
}

impl Dictionary {
    pub fn len(&self) -> usize {
        self.stems.len()
    }

    pub fn is_empty(&self) -> bool {
        self.stems.is_empty()
    }

    pub fn add(&mut self, word: &str) -> u32 {
        if let Some(term) = self.words.get(word) {
            return *term;
        }
        let stem = self.stemmer.stem(word);
        let next = self.stems.len() as u32;
        let term = *self.stems.entry(stem.into_owned().into_boxed_str()).or_insert(next);
        self.words.insert(word.into(), term);
        term
    }

    /// Also finds a new spelling of a known stem.
    pub fn find(&self, word: &str) -> Option<u32> {
        self.words.get(word).or_else(|| self.stems.get(self.stemmer.stem(word).as_ref())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_spellings_share_a_stem_and_other_words_do_not() {
        let mut dictionary = Dictionary::default();
        let connect = ["connect", "connected", "connection", "connections"].map(|word| dictionary.add(word));
        assert_eq!(connect, [connect[0]; 4]);
        assert_eq!(dictionary.find("connecting"), Some(connect[0]), "its stem was seen");
        assert_eq!(dictionary.find("wings"), None);
        // Not English letters only, so not stemmed.
        assert_ne!(dictionary.add("größe"), dictionary.add("größen"));
        assert_ne!(dictionary.add("b2s"), dictionary.add("b2"));
        assert_eq!(dictionary.len(), 5);
    }
}
