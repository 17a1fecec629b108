//! The timed loops: operations of any kind and size, with their synchronisation.

use std::hint::black_box;
use std::ptr;

use transom::raw::{Assert, Committed, Datatype, Window};
use transom::{BasicType, LockKind, Op};

use super::args::{COLUMNS, Operation, Sync, name};
use super::engine::{Bench, Line, Measured, Scale, TARGET};
use super::error::Result;
use super::record::What;

/// Operations, and how they are completed.
#[derive(Clone, Copy)]
pub(super) struct Timed {
    pub(super) operation: Operation,
    /// Bytes of one operation.
    pub(super) size: usize,
    pub(super) sync: Sync,
    /// Operations before each synchronisation.
    pub(super) burst: u32,
    /// Whether all ranks do it at once, or only the origin.
    pub(super) by_all: bool,
}

/// Times `$operation` on `$target` as `$timed` says. Each kind of operation has a loop of its own, so that no loop
/// contains the selection. A closure that several loops call would not be inlined.
macro_rules! time {
    ($timed:ident, $bench:ident, $window:ident, $line:ident, $target:ident, $operation:expr) => {
        match u64::from($timed.burst) {
            1 => complete!($timed, $bench, $window, $line, $target, $operation),
            burst => complete!($timed, $bench, $window, $line, $target, {
                (0..burst).try_for_each(|_| $operation)
            }),
        }
    };
}

macro_rules! complete {
    ($timed:ident, $bench:ident, $window:ident, $line:ident, $target:ident, $operations:expr) => {{
        let takes_part = $timed.by_all || $bench.is_origin();
        match $timed.sync {
            Sync::Flush => {
                if takes_part {
                    $window.lock_all(Assert::NONE)?;
                }
                let measured = $bench.measure($line, takes_part, move || {
                    $operations?;
                    $window.flush($target)
                })?;
                if takes_part {
                    $window.unlock_all()?;
                }
                Ok(measured)
            }
            Sync::Lock | Sync::LockShared => {
                let kind = black_box(match $timed.sync {
                    Sync::Lock => LockKind::Exclusive,
                    _ => LockKind::Shared,
                });
                $bench.measure($line, takes_part, move || {
                    $window.lock(kind, $target, Assert::NONE)?;
                    $operations?;
                    $window.unlock($target)
                })
            }
            Sync::LockAll => $bench.measure($line, takes_part, move || {
                $window.lock_all(Assert::NONE)?;
                $operations?;
                $window.unlock_all()
            }),
            Sync::Fence => {
                $window.fence(Assert::NO_PRECEDE)?;
                let measured = $bench.measure($line, true, move || {
                    if takes_part {
                        $operations?;
                    }
                    $window.fence(Assert::NONE)
                })?;
                $window.fence(Assert::NO_SUCCEED)?;
                Ok(measured)
            }
        }
    }};
}

impl Timed {
    pub(super) fn new(operation: Operation, size: usize, sync: Sync) -> Self {
        Self {
            operation,
            size,
            sync,
            burst: 1,
            by_all: false,
        }
    }

    pub(super) fn line(self, name_of_line: &str, iterations: u32, scale: Scale) -> Line<'_> {
        Line {
            name: name_of_line,
            what: What {
                burst: self.burst,
                case: self.by_all.then(|| "contended".to_owned()),
                ..What::new(name(self.operation), self.size, name(self.sync))
            },
            iterations,
            scale,
        }
    }

    /// `buffer` has `size` bytes, and no other thread accesses it.
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
        // For all operations below: the buffer has `size` bytes and the other places are words. All of them outlive the
        // synchronisation that follows the operations, and nothing accesses them before it.
        match self.operation {
            Operation::Put => time!(self, bench, window, line, target, {
                // SAFETY: see above.
                unsafe { window.put(buffer, len, target, at) }
            }),
            Operation::Get => time!(self, bench, window, line, target, {
                // SAFETY: see above.
                unsafe { window.get(buffer, len, target, at) }
            }),
            Operation::PutStrided => {
                let real = BasicType::F64.into();
                let column = Datatype::vector(elements as i64, 1, COLUMNS as i64, &real)?.commit();
                let dense = Committed::of(BasicType::F64).times(elements);
                let (dense, column) = black_box((dense, column.times(1)));
                time!(self, bench, window, line, target, {
                    // SAFETY: see above.
                    unsafe { window.put_layout(buffer, dense, target, at, column) }
                })
            }
            Operation::Accumulate | Operation::AccumulateF64 => {
                let ty = match self.operation {
                    Operation::Accumulate => BasicType::I64,
                    _ => BasicType::F64,
                };
                let (ty, count) = black_box((ty, elements as usize));
                time!(self, bench, window, line, target, {
                    // SAFETY: see above.
                    unsafe { window.accumulate(buffer, count, ty, target, at, Op::Sum) }
                })
            }
            Operation::FetchAndOp => time!(self, bench, window, line, target, {
                // SAFETY: see above.
                unsafe { window.fetch_and_op(one, result, word, target, at, Op::Sum) }
            }),
            Operation::CompareAndSwap => time!(self, bench, window, line, target, {
                // SAFETY: see above.
                unsafe { window.compare_and_swap(one, zero, result, word, target, at) }
            }),
        }
    }
}
