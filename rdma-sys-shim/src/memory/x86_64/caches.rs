//! The sizes of caches, as the processor describes them.

use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::sync::OnceLock;

/// In bytes, where it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caches {
    pub(super) l2: Option<usize>,
    pub(super) l3: Option<usize>,
}

/// The leaf that describes caches: Intel's, and AMD's, which has the same fields.
const CACHES: u32 = 4;
const CACHES_OF_AMD: u32 = 0x8000_001d;

/// Where the numbers of AMD's leaves begin.
const EXTENDED: u32 = 0x8000_0000;

/// No processor describes more.
const MOST: u32 = 16;

const INSTRUCTIONS: u32 = 2;

impl Caches {
    /// Asked for once: in a virtual machine, the processor takes tens of microseconds to say what it is.
    pub(super) fn of_this_processor() -> Self {
        static FOUND: OnceLock<Caches> = OnceLock::new();
        *FOUND.get_or_init(|| {
            #[allow(unused_unsafe, reason = "__cpuid_count is unsafe in older Rust")]
            // SAFETY: every x86-64 processor has the instruction; no leaf is asked for that it does not have.
            Self::described(|leaf, part| unsafe { __cpuid_count(leaf, part) })
        })
    }

    /// `cpuid`: what the processor says for a leaf and a part of it.
    fn described(cpuid: impl Fn(u32, u32) -> CpuidResult) -> Self {
        let has = |leaf, first| cpuid(first, 0).eax >= leaf;
        let mut found = Self { l2: None, l3: None };
        for (leaf, first) in [(CACHES_OF_AMD, EXTENDED), (CACHES, 0)] {
            if !has(leaf, first) {
                continue;
            }
            let parts = (0..MOST).map(|part| cpuid(leaf, part));
            for cache in parts.take_while(|part| part.eax & 31 != 0) {
                let level = match cache.eax >> 5 & 7 {
                    2 => &mut found.l2,
                    3 => &mut found.l3,
                    _ => continue,
                };
                if cache.eax & 31 != INSTRUCTIONS {
                    level.get_or_insert(size(cache));
                }
            }
        }
        found
    }
}

/// Lines, partitions, ways and sets are told less one.
fn size(cache: CpuidResult) -> usize {
    let field = |from: u32, bits: u32| (cache.ebx >> from & ((1 << bits) - 1)) as usize + 1;
    field(0, 12) * field(12, 10) * field(22, 10) * (cache.ecx as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Level, kind, ways and sets; lines are of 64 bytes.
    type Described = (u32, u32, u32, u32);

    fn found(leaf: u32, caches: &[Described]) -> Caches {
        let nothing = CpuidResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        };
        Caches::described(|asked, part| match (asked, caches.get(part as usize)) {
            (0 | EXTENDED, _) => CpuidResult {
                eax: if leaf & EXTENDED == asked {
                    leaf
                } else {
                    asked
                },
                ..nothing
            },
            (asked, Some(&(level, kind, ways, sets))) if asked == leaf => CpuidResult {
                eax: level << 5 | kind,
                ebx: (ways - 1) << 22 | 63,
                ecx: sets - 1,
                edx: 0,
            },
            _ => nothing,
        })
    }

    #[test]
    fn made_up_processors_are_understood() {
        // Kinds: 1 is data, 2 instructions, 3 both.
        let first = [(1, 1, 8, 64), (1, 2, 8, 64)];
        let of_amd = [&first[..], &[(2, 3, 8, 2048), (3, 3, 16, 32768)]].concat();
        let expected = Caches {
            l2: Some(1 << 20),
            l3: Some(32 << 20),
        };
        assert_eq!(found(CACHES_OF_AMD, &of_amd), expected);
        assert_eq!(found(CACHES, &of_amd), expected);
        let without_l3 = [&first[..], &[(2, 3, 16, 2048)]].concat();
        let expected = Caches {
            l2: Some(2 << 20),
            l3: None,
        };
        assert_eq!(found(CACHES, &without_l3), expected);
        assert_eq!(found(CACHES, &[]), Caches { l2: None, l3: None });
        assert_eq!(found(1, &of_amd), Caches { l2: None, l3: None });
    }

    #[test]
    fn this_processor_says_nothing_impossible() {
        let Caches { l2, l3 } = Caches::of_this_processor();
        for size in [l2, l3].into_iter().flatten() {
            assert!((64 << 10..16 << 30).contains(&size), "{size}");
        }
    }
}
