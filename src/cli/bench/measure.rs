//! The loops that are timed: an operation of any kind and size, and what completes it.

use std::hint::black_box;
use std::ptr;

use transom::raw::{Assert, Committed, Datatype, Window};
use transom::{BasicType, LockKind, Op};

use super::args::{COLUMNS, Operation, Sync};
use super::engine::{Bench, Line, Measured, Scale, Subject, TARGET};
use super::error::Result;

impl Sync {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Lock => "lock",
            Self::LockAll => "lock_all",
            Self::Fence => "fence",
        }
    }
}

/// An operation, and how it is completed.
#[derive(Clone, Copy)]
pub(super) struct Timed {
    pub(super) operation: Operation,
    /// In bytes.
    pub(super) size: usize,
    pub(super) sync: Sync,
    /// Operations before each synchronisation.
    pub(super) burst: u32,
}

impl Timed {
    pub(super) fn new(operation: Operation, size: usize, sync: Sync) -> Self {
        Self {
            operation,
            size,
            sync,
            burst: 1,
        }
    }

    pub(super) fn line(self, name: &str, iterations: u32, scale: Scale) -> Line<'_> {
        let subject = Subject::new(self.operation.name(), self.size, self.sync.label());
        Line {
            name,
            subject: subject.burst(self.burst),
            iterations,
            scale,
        }
    }

    /// Each kind of operation is a loop of its own, so that none pays for the choice. `buffer` has `size` bytes, which no
    /// other thread touches.
    pub(super) fn measure(
        self,
        bench: &mut Bench<'_>,
        window: &Window,
        buffer: *mut u8,
        line: Line<'_>,
    ) -> Result<Measured> {
        let word = match self.size {
            4 => BasicType::I32,
            _ => BasicType::I64,
        };
        let (one, zero, mut result) = (1_i64, 0_i64, 0_u64);
        let (buffer, len, target, at) = black_box((buffer, self.size, TARGET, 0));
        let (one, zero) = (ptr::from_ref(&one).cast(), ptr::from_ref(&zero).cast());
        let (one, zero) = black_box((one, zero));
        let (result, word) = black_box(((&raw mut result).cast(), word));
        let elements = (len / 8) as u64;
        // Of all operations below: the buffer has `size` bytes and the others are words; all of them outlive the
        // synchronisation that follows each operation, and nobody touches them before it.
        match self.operation {
            Operation::Put => self.time(bench, window, line, move || {
                // SAFETY: as said above.
                unsafe { window.put(buffer, len, target, at) }
            }),
            Operation::Get => self.time(bench, window, line, move || {
                // SAFETY: as said above.
                unsafe { window.get(buffer, len, target, at) }
            }),
            Operation::PutStrided => {
                let real = BasicType::F64.into();
                let column = Datatype::vector(elements as i64, 1, COLUMNS as i64, &real)?.commit();
                let dense = Committed::of(BasicType::F64).times(elements);
                let (dense, column) = black_box((dense, column.times(1)));
                self.time(bench, window, line, move || {
                    // SAFETY: as said above.
                    unsafe { window.put_layout(buffer, dense, target, at, column) }
                })
            }
            Operation::Accumulate | Operation::AccumulateF64 => {
                let ty = match self.operation {
                    Operation::Accumulate => BasicType::I64,
                    _ => BasicType::F64,
                };
                let ty = black_box(ty);
                self.time(bench, window, line, move || {
                    // SAFETY: as said above.
                    unsafe { window.accumulate(buffer, elements as usize, ty, target, at, Op::Sum) }
                })
            }
            Operation::FetchAndOp => self.time(bench, window, line, move || {
                // SAFETY: as said above.
                unsafe { window.fetch_and_op(one, result, word, target, at, Op::Sum) }
            }),
            Operation::CompareAndSwap => self.time(bench, window, line, move || {
                // SAFETY: as said above.
                unsafe { window.compare_and_swap(one, zero, result, word, target, at) }
            }),
        }
    }

    #[inline(never)]
    fn time(
        self,
        bench: &mut Bench<'_>,
        window: &Window,
        line: Line<'_>,
        operation: impl Fn() -> transom::Result<()>,
    ) -> Result<Measured> {
        let burst = black_box(self.burst);
        let operations = move || (0..burst).try_for_each(|_| operation());
        let (target, origin) = (black_box(TARGET), bench.is_origin());
        match self.sync {
            Sync::Flush => {
                if origin {
                    window.lock_all(Assert::NONE)?;
                }
                let measured = bench.origin(line, move || {
                    operations()?;
                    window.flush(target)
                })?;
                if origin {
                    window.unlock_all()?;
                }
                Ok(measured)
            }
            Sync::Lock => bench.origin(line, move || {
                window.lock(LockKind::Exclusive, target, Assert::NONE)?;
                operations()?;
                window.unlock(target)
            }),
            Sync::LockAll => bench.origin(line, move || {
                window.lock_all(Assert::NONE)?;
                operations()?;
                window.unlock_all()
            }),
            Sync::Fence => {
                window.fence(Assert::NO_PRECEDE)?;
                let measured = bench.every(line, move || {
                    if origin {
                        operations()?;
                    }
                    window.fence(Assert::NONE)
                })?;
                window.fence(Assert::NO_SUCCEED)?;
                Ok(measured)
            }
        }
    }
}
