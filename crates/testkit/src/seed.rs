//! Random choices that can be repeated: one number makes a whole run, and a failing run prints it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The variable that repeats a run.
pub const SEED_VARIABLE: &str = "WINDLASS_SEED";

/// Xorshift64*: enough to shuffle a test, of no use for anything else.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    pub fn new(seed: u64) -> Seed {
        // Zero is the one state xorshift never leaves.
        Seed(seed.max(1))
    }

    /// From [`SEED_VARIABLE`] if that is set, otherwise from the clock. Printed either way, because a failure without its seed cannot
    /// be looked at again.
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
