//! Repeatable random choices: one seed determines a whole run, and each run prints its seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// Environment variable with the seed of a run to repeat.
pub const SEED_VARIABLE: &str = "WINDLASS_SEED";

/// Xorshift64*: good enough for tests, and not for anything else.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    pub fn new(seed: u64) -> Seed {
        // Xorshift never leaves the state zero.
        Seed(seed.max(1))
    }

    /// From [`SEED_VARIABLE`] if it is set, otherwise from the clock. Printed, so that a failure can be repeated.
    pub fn from_environment() -> Seed {
        let given = std::env::var(SEED_VARIABLE).ok();
        let seed = match given {
            Some(text) => text.parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE}=`{text}` is not a number")),
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64),
        };
        println!("{SEED_VARIABLE}={seed}");
        Seed::new(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.number() >> 11) % bound
    }

    /// One of `items`, or nothing when there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len() as u64) as usize) }
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for n in (1..items.len()).rev() {
            items.swap(n, self.below(n as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself() {
        let (mut one, mut two) = (Seed::new(7), Seed::new(7));
        assert_eq!([one.number(), one.number()], [two.number(), two.number()]);
        assert_ne!(Seed::new(7).number(), Seed::new(8).number());
        assert_ne!(Seed::new(0).number(), 0);
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Seed::new(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
