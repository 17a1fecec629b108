//! Which collective call a rank makes, with which arguments that must be equal on all ranks, and where
//! each rank publishes this.
//!
//! A collective begins with a barrier whose flags carry a digest of the call, its number, and whether this rank has
//! found its own arguments wrong. No data is sent before all ranks agree, so a mismatch is an error on all ranks.
//! Afterwards the communicator refuses collectives, because its ranks are out of step; its windows have barriers of
//! their own and go on. If all ranks refuse their own arguments, they are in step and go on. A later failure that the
//! system causes is known to one rank only, so it aborts the job. The price is one barrier for each collective, even
//! for those that need not wait for all ranks.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::{Pod, Zeroable};

use super::barrier::{CallTag, mismatch, named_rank};
use super::team::Team;
use crate::datatype::Op;
use crate::error::{Error, ErrorClass, PeerError, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE};
use crate::peers::{padded, unpadded};

/// One collective call as all ranks must make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Call {
    name: [u8; 16],
    /// The type of the elements, if the call combines them.
    ty: [u8; 16],
    /// The number of elements; [`ANY_NUMBER`] if ranks may differ.
    elements: u64,
    /// The size of an element; 0 if lengths may differ or there are no elements.
    element: u32,
    root: u32,
    number: u32,
    /// The operation, counted from 1; 0 if there is none.
    op: u8,
    /// The class of the error, if this rank's own arguments are wrong.
    refused: u8,
    _room: [u8; 2],
}

const NO_ROOT: u32 = u32::MAX;
const ANY_NUMBER: u64 = u64::MAX;
const WORDS: usize = size_of::<Call>() / 8;

impl Call {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: padded(name),
            root: NO_ROOT,
            ..Self::zeroed()
        }
    }

    pub(super) fn rooted(self, root: u32) -> Self {
        // The caller refuses a root that is not a rank.
        let root = root.min(NO_ROOT - 1);
        Self { root, ..self }
    }

    pub(super) fn of<T>(self, data: &[T]) -> Self {
        Self {
            elements: data.len() as u64,
            element: size_of::<T>() as u32,
            ..self
        }
    }

    /// For elements of this type, with any number on each rank.
    pub(super) fn of_any<T>(self) -> Self {
        Self {
            elements: ANY_NUMBER,
            element: size_of::<T>() as u32,
            ..self
        }
    }

    pub(super) fn combining<T>(self, op: Op) -> Self {
        let ty = type_name::<T>().rsplit("::").next().unwrap_or_default();
        let op = Op::ALL.iter().position(|&one| one == op);
        Self {
            ty: padded(ty),
            op: op.map_or(0, |op| op as u8 + 1),
            ..self
        }
    }

    /// The digest ([`digest_of`]) of all fields.
    pub(super) fn digest(&self) -> u64 {
        let words: &[u64; WORDS] = bytemuck::cast_ref(self);
        digest_of(words.iter().copied())
    }
}

/// A hash of these numbers in this order. Collisions are negligible.
pub(super) fn digest_of(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, |sum, number| {
        let mixed = (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&unpadded(&self.name))?;
        if self.element > 0 {
            let plural = |count: u64| if count == 1 { "" } else { "s" };
            let (count, size) = (self.elements, self.element);
            match count {
                ANY_NUMBER => f.write_str(" of elements of ")?,
                _ => write!(f, " of {count} element{} of ", plural(count))?,
            }
            match self.ty[0] {
                0 => write!(f, "{size} byte{}", plural(size.into()))?,
                _ => f.write_str(&unpadded(&self.ty))?,
            }
        }
        if let Some(op) = usize::from(self.op)
            .checked_sub(1)
            .map(|at| Op::ALL.get(at))
        {
            match op {
                Some(op) => write!(f, " by {op:?}")?,
                None => f.write_str(" by an unknown operation")?,
            }
        }
        if self.root != NO_ROOT {
            write!(f, " with root {}", self.root)?;
        }
        write!(f, " (collective number {})", self.number)
    }
}

/// What a rank shows of its call. If its own arguments are wrong, this includes the text of its error.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Shown {
    call: Call,
    words: [u8; WORDS_SHOWN],
}

impl Shown {
    /// Numbers the call. `fit` says whether this rank's own arguments are right.
    pub(super) fn new(call: &mut Call, number: u32, fit: &Result<()>) -> Self {
        call.number = number;
        let words = match fit {
            Ok(()) => [0; WORDS_SHOWN],
            Err(error) => {
                call.refused = error.class() as u8;
                padded(&error.to_string())
            }
        };
        Self { call: *call, words }
    }

    pub(super) fn differs(&self, call: &Call) -> bool {
        self.call != *call
    }
}

const WORDS_SHOWN: usize = 256;
/// Bytes of it at the start of a communicator's block. Other ranks read a call only after it failed on all ranks, and
/// no call follows then.
pub(super) const CALL_BYTES: u64 = (size_of::<Shown>() as u64).next_multiple_of(LINE);

/// A call that this rank has begun.
pub(super) struct Begun<'a> {
    pub(super) call: Call,
    pub(super) team: &'a Team,
    pub(super) blocks: &'a Column<u64>,
}

impl<'a> Begun<'a> {
    /// Shows the call with the number `number` of this communicator. `fit` says whether this rank's own arguments are
    /// right.
    pub(super) fn new(
        mut call: Call,
        number: u32,
        fit: &Result<()>,
        block: &Arc<ControlBlock>,
        team: &'a Team,
        blocks: &'a Column<u64>,
    ) -> Self {
        let shown = Shown::new(&mut call, number, fit);
        // The text is meaningful only in a refused call.
        let count = match call.refused {
            0 => size_of::<Call>(),
            _ => size_of::<Shown>(),
        };
        let words = bytemuck::bytes_of(&shown)[..count].chunks_exact(8);
        for (at, word) in (0..).step_by(8).zip(words) {
            let word = bytemuck::pod_read_unaligned(word);
            block.word(at).store(word, Ordering::Relaxed);
        }
        Self { call, team, blocks }
    }

    /// What another rank shows of the same call.
    fn shown_by(&self, rank: u32) -> Result<Shown> {
        // Another rank sent this number.
        self.team.check_rank("collective", rank)?;
        let mut shown = Shown::zeroed();
        let (memory, block) = self.team.connect_to(rank)?.block(self.blocks.get(rank))?;
        memory.read(block, bytemuck::bytes_of_mut(&mut shown))?;
        Ok(shown)
    }
}

impl CallTag for Begun<'_> {
    fn code(&self) -> u32 {
        (self.call.digest() >> 33) as u32
    }

    #[cold]
    fn name_mismatch(&self, operation: &'static str, behind: u32, tag: u32) -> (Error, u32) {
        let named = named_rank(behind, tag);
        let mismatched = [named, behind].into_iter().find_map(|rank| {
            let shown = self.shown_by(rank).ok()?;
            let mismatched = || disagreement(operation, rank, self.call, &shown);
            shown.differs(&self.call).then(|| (mismatched(), rank))
        });
        mismatched.unwrap_or_else(|| {
            // The named rank cannot be reached any more.
            (mismatch(operation, named, self.call, "another call"), named)
        })
    }
}

/// The error of a rank that makes the call `ours` while `rank` shows another.
pub(super) fn disagreement(operation: &'static str, rank: u32, ours: Call, shown: &Shown) -> Error {
    if shown.call.refused == 0 {
        return mismatch(operation, rank, ours, shown.call);
    }
    let failed = PeerError::Failed {
        rank,
        message: unpadded(&shown.words),
        class: ErrorClass::from_code(shown.call.refused),
    };
    Error::new(operation, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_differ_in_anything_are_told_apart() {
        let call = Call::new("reduce")
            .of(&[0_u32; 3])
            .combining::<u32>(Op::Sum);
        let others = [
            Call::new("allreduce")
                .of(&[0_u32; 3])
                .combining::<u32>(Op::Sum),
            call.of(&[0_u32; 4]),
            call.combining::<u32>(Op::Max),
            call.combining::<i32>(Op::Sum),
            call.rooted(0),
            call.rooted(1),
            Call { number: 1, ..call },
            Call { refused: 1, ..call },
        ];
        for (at, one) in others.iter().enumerate() {
            let before = others[..at].iter().chain([&call]);
            for other in before {
                assert_ne!(one.digest() >> 33, other.digest() >> 33, "{one}, {other}");
            }
        }
    }

    #[test]
    fn a_call_says_what_is_asked() {
        let call = Call::new("reduce")
            .of(&[0_u32; 3])
            .combining::<u32>(Op::Sum)
            .rooted(2);
        let words = "reduce of 3 elements of u32 by Sum with root 2 (collective number 0)";
        assert_eq!(call.to_string(), words);
        let call = Call::new("gather").of(&[[0_u8; 12]]);
        assert_eq!(
            call.to_string(),
            "gather of 1 element of 12 bytes (collective number 0)"
        );
        let call = Call::new("alltoallv").of_any::<u64>();
        assert_eq!(
            call.to_string(),
            "alltoallv of elements of 8 bytes (collective number 0)"
        );
        let call = Call::new("a_name_that_is_far_too_long");
        assert_eq!(call.to_string(), "a_name_that_is_f (collective number 0)");
    }
}
