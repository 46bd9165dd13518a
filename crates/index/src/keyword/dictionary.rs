//! Words and their stems. Each spelling is stemmed once and remembered.

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};

pub struct Dictionary {
    /// Every spelling seen, to its stem's number.
    words: HashMap<Box<str>, u32>,
    stems: HashMap<Box<str>, u32>,
    stemmer: Stemmer,
}

impl Default for Dictionary {
    fn default() -> Self {
        Dictionary {
            words: HashMap::new(),
            stems: HashMap::new(),
            stemmer: Stemmer::create(Algorithm::English),
        }
    }
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
        let stem = self.stem(word);
        let next = self.stems.len() as u32;
        let term = *self.stems.entry(stem.into()).or_insert(next);
        self.words.insert(word.into(), term);
        term
    }

    /// Also for spellings never seen whose stem was.
    pub fn find(&self, word: &str) -> Option<u32> {
        self.words.get(word).or_else(|| self.stems.get(self.stem(word).as_str())).copied()
    }

    fn stem(&self, word: &str) -> String {
        match word.bytes().all(|b| b.is_ascii_lowercase()) {
            true => self.stemmer.stem(word).into_owned(),
            false => word.to_owned(),
        }
    }
}
