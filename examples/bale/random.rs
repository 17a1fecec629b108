//! Numbers that look random, the same in each run.

/// From a number that counts (splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(rank: u32) -> Self {
        Self(mix(rank.into()) << 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(1);
        ((u128::from(number) * end as u128) >> 64) as usize
    }
}
