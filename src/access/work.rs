//! What an operation of the accumulate family does.

use std::ptr;

use rdma_sys_shim::Width;

use super::bounds::{byte_len, null_buffer};
use crate::datatype::{BasicType, Op};
use crate::diagnostics::OperationKind;
use crate::error::{Error, Misuse, Result};

/// `count` elements of one predefined type, contiguous in each of the buffers and at the target.
pub(super) struct Work {
    pub(super) kind: OperationKind,
    pub(super) ty: BasicType,
    pub(super) op: Op,
    pub(super) count: usize,
    /// The operands; null for [`Op::NoOp`].
    pub(super) operands: *const u8,
    /// If not null: the old elements must equal these, or nothing changes.
    pub(super) compare: *const u8,
    /// The buffer for the old elements, or null.
    pub(super) result: *mut u8,
}

impl Work {
    /// Work without a comparison.
    pub(super) fn of(
        kind: OperationKind,
        operands: *const u8,
        result: *mut u8,
        count: usize,
        ty: BasicType,
        op: Op,
    ) -> Self {
        Self {
            kind,
            ty,
            op,
            count,
            operands: match op {
                Op::NoOp => ptr::null(),
                _ => operands,
            },
            compare: ptr::null(),
            result,
        }
    }

    /// The same work on `count` words, from byte `offset` on.
    pub(super) fn part(&self, offset: usize, count: usize) -> Self {
        self.part_at(offset as isize, offset as isize, count)
    }

    /// As [`Work::part`], with an offset of the operands and one of the results.
    #[inline]
    pub(super) fn part_at(&self, operands: isize, result: isize, count: usize) -> Self {
        let skip = |buffer: *const u8, offset: isize| match buffer.is_null() {
            true => buffer,
            // A pointer that is not used may point anywhere.
            false => buffer.wrapping_offset(offset),
        };
        Self {
            count,
            operands: skip(self.operands, operands),
            compare: skip(self.compare, operands),
            result: skip(self.result, result).cast_mut(),
            ..*self
        }
    }

    /// The operand at byte `offset`, a word of this width.
    ///
    /// # Safety
    /// It is one of the operands.
    #[inline(always)]
    pub(super) unsafe fn operand(&self, offset: usize, width: Width) -> u64 {
        match self.op {
            Op::NoOp => 0,
            // SAFETY: the caller's promise.
            _ => unsafe { width.load(self.operands.add(offset)) },
        }
    }

    /// Checks that the operation is defined for the type, and returns the number of bytes from the
    /// first element to the end of the last.
    pub(super) fn check(&self, operation: &'static str) -> Result<usize> {
        self.op.check_defined_for(operation, self.ty)?;
        let whole = byte_len(operation, self.count, self.ty.extent())?;
        Ok(match self.count {
            0 => 0,
            _ => whole - (self.ty.extent() - self.ty.true_extent()),
        })
    }

    /// Checks that the operation is useful if nothing is fetched.
    pub(super) fn check_changes(operation: &'static str, op: Op) -> Result<()> {
        match op {
            Op::NoOp => Err(Error::new(operation, Misuse::FetchesNothing)),
            _ => Ok(()),
        }
    }

    /// Checks that there are buffers for `len` bytes.
    pub(super) fn check_buffers(&self, operation: &'static str, len: usize) -> Result<()> {
        match self.lacks_buffers() {
            true => Err(null_buffer(operation, len)),
            false => Ok(()),
        }
    }

    pub(super) fn lacks_buffers(&self) -> bool {
        let compares = self.kind == OperationKind::CompareAndSwap;
        let fetches = compares || self.kind == OperationKind::Fetch;
        self.operands.is_null() && self.op != Op::NoOp
            || self.result.is_null() && fetches
            || self.compare.is_null() && compares
    }

    pub(super) fn fetches(&self) -> bool {
        !self.result.is_null()
    }

    /// Whether nothing is fetched and nothing changes.
    pub(super) fn is_nothing(&self) -> bool {
        self.op == Op::NoOp && !self.fetches()
    }

    /// Whether the target's old values are irrelevant.
    pub(super) fn overwrites(&self) -> bool {
        self.op == Op::Replace && self.result.is_null() && self.compare.is_null()
    }
}
