//! A digest of rows that does not depend on their order, because databases sort text differently.

use sha2::{Digest, Sha256};

/// Number of rows and sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub rows: u64,
    lanes: [u64; 4],
}

impl Sum {
    /// Adds a row as written in the file, without its newline.
    pub fn add(&mut self, line: &[u8]) {
        self.rows += 1;
        let hash = Sha256::digest(line);
        for (lane, part) in self.lanes.iter_mut().zip(hash.chunks_exact(8)) {
            let part = part.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            *lane = lane.wrapping_add(part);
        }
    }

    pub fn hex(&self) -> String {
        self.lanes.iter().map(|lane| format!("{lane:016x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        let of = |rows: &[&str]| {
            let mut sum = Sum::default();
            rows.iter().for_each(|row| sum.add(row.as_bytes()));
            sum
        };
        assert_eq!(of(&["[1]", "[2]"]), of(&["[2]", "[1]"]));
        assert_ne!(of(&["[1]", "[2]"]), of(&["[1]", "[3]"]));
        assert_ne!(of(&["[1]", "[1]"]), of(&["[1]"]));
        assert_ne!(of(&["[1]", "[1]"]).hex(), of(&[]).hex(), "rows do not cancel each other out");
    }
}
