//! Adds a weighted row of the table to a sum: the hot loop of an embedding.
//!
//! It does the same additions in the same order on every processor, so vectors are identical across machines.

#![allow(unsafe_code)]

pub(super) type Add = fn(&mut [f32], &[u8], f32);

/// The fastest version for this processor.
pub(super) fn fastest() -> Add {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // Safe: the processor supports AVX2, as just checked.
        return |sum, row, weight| unsafe { avx2(sum, row, weight) };
    }
    portable
}

#[inline(always)]
fn portable(sum: &mut [f32], row: &[u8], weight: f32) {
    for (total, cell) in sum.iter_mut().zip(row) {
        *total += f32::from(cell.cast_signed()) * weight;
    }
}

/// The compiler vectorises this. FMA is not enabled, because it would round differently.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(sum: &mut [f32], row: &[u8], weight: f32) {
    portable(sum, row, weight);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_agrees_with_the_portable_to_the_bit() {
        let row: Vec<u8> = (0..=255).collect();
        for length in [0, 1, 7, 8, 9, 255, 256] {
            let (mut fast, mut plain) = (vec![0.1f32; length], vec![0.1f32; length]);
            for weight in [0.37, 1.93e-3, -7.7] {
                fastest()(&mut fast, &row[..length], weight);
                portable(&mut plain, &row[..length], weight);
            }
            assert!(fast.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits()), "{length}");
        }
    }
}
