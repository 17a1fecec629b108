//! Where bytes are in a memory: displacements, offsets and addresses, and the one check of bounds.

/// The distance from the start of a target's part, in the target's units; in a dynamic window, the address there
/// (MPI-4.1, section 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displacement(pub(crate) u64);

/// Bytes from the start of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset(pub(crate) u64);

/// An address in the process that owns the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(pub(crate) u64);

impl Displacement {
    /// `None` if it exceeds 64 bits, where there is no memory.
    #[inline(always)]
    pub(crate) fn in_bytes(self, unit: u64) -> Option<Offset> {
        self.0.checked_mul(unit).map(Offset)
    }

    /// As [`Displacement::in_bytes`], for mapped memory, which is in the lower half of the address space: uses a
    /// multiplication that needs one register. Larger values result in any offset in the upper half.
    #[inline(always)]
    pub(crate) fn in_mapped_bytes(self, unit: u64) -> Option<Offset> {
        let bytes = (self.0 as i64).checked_mul(unit as i64)?;
        Some(Offset(bytes as u64))
    }

    /// The address that it means in a dynamic window.
    #[inline]
    pub(crate) fn as_address(self) -> Address {
        Address(self.0)
    }
}

impl Offset {
    /// Whether `len` bytes from here on are inside a memory of `size` bytes.
    #[inline(always)]
    pub(crate) fn fits(self, len: u64, size: u64) -> bool {
        len <= size && self.0 <= size - len
    }

    /// `None` before the start, where there is no memory.
    #[inline(always)]
    pub(crate) fn moved(self, by: i64) -> Option<Self> {
        self.0.checked_add_signed(by).map(Self)
    }
}

impl Address {
    /// The offset of this address in the memory that begins at `start`, which must not be above it.
    #[inline]
    pub(crate) fn in_memory_at(self, start: u64) -> Offset {
        Offset(self.0 - start)
    }

    /// `None` past the end of the address space.
    #[inline]
    pub(crate) fn after(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }

    /// `None` outside the address space.
    #[inline]
    pub(crate) fn moved(self, by: i64) -> Option<Self> {
        self.0.checked_add_signed(by).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With integers that hold any result.
    fn is_inside(offset: u64, len: u64, size: u64) -> bool {
        u128::from(offset) + u128::from(len) <= u128::from(size)
    }

    #[test]
    fn what_fits_is_inside_and_what_is_inside_fits() {
        const EDGES: [u64; 9] = [
            0,
            1,
            2,
            7,
            8,
            1 << 63,
            (1 << 63) - 1,
            u64::MAX - 1,
            u64::MAX,
        ];
        for offset in EDGES {
            for len in EDGES {
                for size in EDGES {
                    let fits = Offset(offset).fits(len, size);
                    assert_eq!(fits, is_inside(offset, len, size), "{offset} {len} {size}");
                }
            }
        }
    }

    #[test]
    fn what_is_past_64_bits_is_nowhere() {
        assert_eq!(Displacement(1 << 61).in_bytes(8), None);
        assert_eq!(Displacement(1 << 60).in_bytes(8), Some(Offset(1 << 63)));
        for far in [1 << 61, (1 << 60) - 1, 1 << 60, u64::MAX, u64::MAX - 7] {
            let mapped = Displacement(far).in_mapped_bytes(8);
            assert!(mapped.is_none_or(|offset| !offset.fits(0, (1 << 63) - 9)));
        }
        assert_eq!(Displacement(7).in_mapped_bytes(8), Some(Offset(56)));
        assert_eq!(Offset(0).moved(-1), None);
        assert_eq!(Offset(1).moved(-1), Some(Offset(0)));
        assert_eq!(Offset(u64::MAX).moved(1), None);
    }
}
