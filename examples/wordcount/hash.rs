//! The hash that all ranks agree on. (The standard library's is seeded anew in each process.)

use std::hash::Hasher;

/// Where a word belongs.
pub(crate) fn of_word(word: &[u8]) -> u64 {
    let mut hasher = Fnv::default();
    hasher.write(word);
    hasher.finish()
}

/// Spreads the bits of `value` over all bits of the result.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

/// Maps a mixed `hash` to `0..n`.
pub(crate) fn reduce(hash: u64, n: u64) -> u64 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u64
}

/// FNV-1a, mixed at the end.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// The length that the standard library puts before a slice says nothing that its bytes do not.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        mix(self.0)
    }
}
