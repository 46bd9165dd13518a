//! The dot product in the inner loop of a scan.
//!
//! Calls a function compiled for AVX2 when the processor supports it. The portable loop gives the same sums.

#![allow(unsafe_code)]

/// The dot product of a query with the upper or lower bytes of a vector.
pub(super) type Dot = fn(&[i16], &[i8]) -> i32;

/// The fastest version for this processor.
pub(super) fn fastest() -> Dot {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // Safe: the processor supports AVX2, as just checked.
        return |query, upper| unsafe { avx2(query, upper) };
    }
    portable
}

/// Does not overflow: 256 products of 16 by 8 bits stay below 2^31.
fn portable(query: &[i16], upper: &[i8]) -> i32 {
    query.iter().zip(upper).fold(0i32, |sum, (q, u)| sum.wrapping_add(i32::from(*q) * i32::from(*u)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(query: &[i16], upper: &[i8]) -> i32 {
    use std::arch::x86_64::*;
    let (query_chunks, query_rest) = query.as_chunks::<16>();
    let (upper_chunks, upper_rest) = upper.as_chunks::<16>();
    let mut sum = _mm256_setzero_si256();
    for (q, u) in query_chunks.iter().zip(upper_chunks) {
        // Both loads are unaligned and read exactly the chunk they are given.
        let (q, u) = unsafe { (_mm256_loadu_si256(q.as_ptr().cast()), _mm_loadu_si128(u.as_ptr().cast())) };
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(q, _mm256_cvtepi8_epi16(u)));
    }
    let halves = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let pairs = _mm_add_epi32(halves, _mm_shuffle_epi32::<0b01_00_11_10>(halves));
    let all = _mm_add_epi32(pairs, _mm_shuffle_epi32::<0b10_11_00_01>(pairs));
    _mm_cvtsi128_si32(all).wrapping_add(portable(query_rest, upper_rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_agrees_with_the_portable() {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as i16
        };
        for length in [0, 1, 15, 16, 17, 255, 256] {
            let query: Vec<i16> = (0..length).map(|_| next()).collect();
            let upper: Vec<i8> = (0..length).map(|_| (next() >> 8) as i8).collect();
            assert_eq!(fastest()(&query, &upper), portable(&query, &upper), "{length}");
        }
    }
}
