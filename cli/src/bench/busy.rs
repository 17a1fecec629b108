//! How long an epoch takes at a target that computes for 50 ms and makes no calls meanwhile.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use transom::raw::{Assert, Window};
use transom::{BasicType, LockKind, Op};

use super::args::{Operation, name};
use super::engine::{Bench, Line, Scale, TARGET};
use super::error::Result;
use super::record::What;

const COMPUTES: Duration = Duration::from_millis(50);
/// After this time the target has certainly begun.
const HEAD_START: Duration = Duration::from_millis(3);

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("target computes: lock, operation, unlock")?;
    for (line, operation) in [
        ("busy_target_put", Operation::Put),
        ("busy_target_get", Operation::Get),
        ("busy_target_acc", Operation::Accumulate),
    ] {
        let line = Line {
            name: line,
            what: What::new(name(operation), 8, "lock").case("busy_target"),
            iterations: 1,
            scale: Scale::Microseconds,
        };
        let (comm, origin) = (bench.comm, bench.is_origin());
        bench.one_by_one(line, || {
            comm.barrier()?;
            let begun = Instant::now();
            if comm.rank() == TARGET {
                compute(begun);
            } else if origin {
                thread::sleep(HEAD_START);
                let start = Instant::now();
                epoch(window, buffer, operation)?;
                return Ok(start.elapsed().as_secs_f64());
            }
            Ok(0.0)
        })?;
    }
    Ok(())
}

fn compute(begun: Instant) {
    let mut x = 0.0;
    while begun.elapsed() < COMPUTES {
        x = black_box(x + 1.0);
    }
}

fn epoch(window: &Window, buffer: *mut u8, operation: Operation) -> transom::Result<()> {
    let one = 1_i64.to_ne_bytes();
    window.lock(LockKind::Exclusive, TARGET, Assert::NONE)?;
    // SAFETY: the buffer has more than 8 bytes and `one` is an element. Both outlive the unlock, and nothing accesses
    // them before it.
    unsafe {
        match operation {
            Operation::Put => window.put(buffer, 8, TARGET, 0)?,
            Operation::Get => window.get(buffer, 8, TARGET, 0)?,
            _ => window.accumulate(one.as_ptr(), 1, BasicType::I64, TARGET, 0, Op::Sum)?,
        }
    }
    window.unlock(TARGET)
}
