//! Which elements single atomics update.

use rdma_sys_shim::{AtomicDomain, Width};

use super::BasicType;

/// The sizes of elements that single atomics update in some memory, as a set of the bits 1, 2, 4 and 8; and whether
/// these atomics are the device's.
///
/// This follows from the device's abilities and a hint, which are the same on all ranks, and from whether the device
/// has atomics in that memory. It does not depend on whether an origin has the memory mapped: all ranks, including the
/// target, use single atomics on a word, or all use its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicWidths(u8);

/// A bit beside the sizes.
const BY_DEVICE: u8 = 16;

impl AtomicWidths {
    /// `narrow`: whether the device has atomics of less than eight bytes. If not, wide ones cannot replace them: a
    /// neighbour's stores would be lost. Types smaller than the hint `mpi_accumulate_granularity` use the lock.
    pub(crate) fn new(narrow: bool, domain: AtomicDomain, granularity: u64) -> Self {
        let smallest = if narrow { 1 } else { 8 };
        let by_device = match domain {
            AtomicDomain::Cpu | AtomicDomain::Global => 0,
            AtomicDomain::Device => BY_DEVICE,
        };
        Self(Self::sizes(smallest, granularity).0 | by_device)
    }

    /// For memory that all ranks have mapped, without the device's atomics.
    pub(crate) fn of_processor(granularity: u64) -> Self {
        Self::sizes(1, granularity)
    }

    fn sizes(smallest: u8, granularity: u64) -> Self {
        let sizes = [1, 2, 4, 8_u8].into_iter();
        let kept = sizes.filter(|&size| size >= smallest && u64::from(size) >= granularity);
        Self(kept.sum())
    }

    /// These sizes if the device has atomics in the memory, or else none.
    #[must_use]
    pub(crate) fn where_atomic(self, has_atomics: bool) -> Self {
        if has_atomics {
            self
        } else {
            Self(self.0 & BY_DEVICE)
        }
    }

    /// Whether accumulates of such elements work in the mapped memory, by the processor's atomics or under a lock.
    #[inline]
    pub(crate) fn are_accumulated_in_place(self, ty: BasicType) -> bool {
        self.0 & BY_DEVICE == 0 || self.word(ty, 0).is_none()
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & (BY_DEVICE | 15))
    }

    /// The word of an element, if single atomics update it: its type allows it, and it is naturally aligned.
    pub(crate) fn word(self, ty: BasicType, address: u64) -> Option<Width> {
        match ty.is_swapped() {
            true => self.of_size(ty.size(), address),
            false => None,
        }
    }

    /// The word of a naturally aligned element, if it is an integer of four or eight bytes that the processor's single
    /// atomics update. The fast paths are for these. If the compiler knows the type, it knows the width.
    #[inline(always)]
    pub(crate) fn fast_word(self, ty: BasicType) -> Option<Width> {
        let (size, width) = match ty {
            BasicType::I64 | BasicType::U64 => (8, Width::W8),
            BasicType::I32 | BasicType::U32 => (4, Width::W4),
            _ => return None,
        };
        (self.0 & (size | BY_DEVICE) == size).then_some(width)
    }

    fn of_size(self, size: usize, address: u64) -> Option<Width> {
        if usize::from(self.0) & size == 0 || address & (size as u64 - 1) != 0 {
            return None;
        }
        Some(match size {
            8 => Width::W8,
            4 => Width::W4,
            2 => Width::W2,
            _ => Width::W1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_follows_from_device_hint_type_and_alignment() {
        const CPU: AtomicDomain = AtomicDomain::Cpu;
        let all = AtomicWidths::new(true, CPU, 0);
        assert_eq!(all.word(BasicType::I64, 64), Some(Width::W8));
        assert_eq!(all.word(BasicType::I64, 68), None);
        assert_eq!(all.word(BasicType::U32, 68), Some(Width::W4));
        assert_eq!(all.word(BasicType::I16, 66), Some(Width::W2));
        assert_eq!(all.word(BasicType::I16, 67), None);
        for byte in [BasicType::Bool, BasicType::Byte, BasicType::I8] {
            assert_eq!(all.word(byte, 67), Some(Width::W1));
        }
        assert_eq!(all.fast_word(BasicType::I64), Some(Width::W8));
        assert_eq!(all.fast_word(BasicType::U32), Some(Width::W4));
        assert_eq!(all.fast_word(BasicType::F64), None);
        for other in [BasicType::F64, BasicType::ComplexF32, BasicType::TwoInt] {
            assert_eq!(all.word(other, 64), None);
        }
        let coarse = AtomicWidths::new(true, CPU, 3);
        assert_eq!(coarse.word(BasicType::U16, 64), None);
        assert_eq!(coarse.word(BasicType::U32, 64), Some(Width::W4));
        assert_eq!(AtomicWidths::new(true, CPU, 9), AtomicWidths(0));
        assert_eq!(
            AtomicWidths::new(true, CPU, 5).fast_word(BasicType::U32),
            None
        );
        assert_eq!(AtomicWidths::new(false, CPU, 8), AtomicWidths(8));
        let both = AtomicWidths::new(false, AtomicDomain::Global, 0);
        assert!(both.are_accumulated_in_place(BasicType::I64));
        assert_eq!(both.fast_word(BasicType::I64), Some(Width::W8));
        assert_eq!(both.word(BasicType::I32, 64), None);
        let theirs =
            AtomicWidths::from_bits(AtomicWidths::new(false, AtomicDomain::Device, 0).bits());
        assert!(all.are_accumulated_in_place(BasicType::I64));
        assert!(!theirs.are_accumulated_in_place(BasicType::I64));
        assert!(theirs.are_accumulated_in_place(BasicType::F64));
        assert!(
            theirs.are_accumulated_in_place(BasicType::I32),
            "under the lock"
        );
        assert!(
            theirs
                .where_atomic(false)
                .are_accumulated_in_place(BasicType::I64)
        );
        assert_eq!(theirs.word(BasicType::I64, 64), Some(Width::W8));
        assert_eq!(theirs.fast_word(BasicType::I64), None);
    }
}
