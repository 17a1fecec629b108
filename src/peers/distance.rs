//! Distances between ranks that stand in a ring.

/// The rank `distance` ahead in the ring.
pub(crate) fn around(rank: u32, distance: u32, size: u32) -> u32 {
    ((u64::from(rank) + u64::from(distance)) % u64::from(size)) as u32
}

/// ceil(log2(size)): the number of steps in which all ranks of a group can hear of one.
pub(crate) fn rounds(size: u32) -> u32 {
    size.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_the_ceiling_of_the_logarithm() {
        let of = |size| rounds(size);
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9].map(of), [0, 0, 1, 2, 2, 3, 3, 4]);
    }
}
