//! A target that computes for 50 ms and never calls in: how long an epoch at it takes.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use transom::raw::{Assert, Window};
use transom::{BasicType, LockKind, Op};

use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;

const COMPUTES: Duration = Duration::from_millis(50);
/// By then the target has certainly begun.
const HEAD_START: Duration = Duration::from_millis(3);

#[derive(Clone, Copy)]
enum Access {
    Put,
    Get,
    Accumulate,
}

const ACCESSES: [(&str, &str, Access); LINES] = [
    ("busy_target_put", "put", Access::Put),
    ("busy_target_get", "get", Access::Get),
    ("busy_target_acc", "accumulate", Access::Accumulate),
];

pub(super) const LINES: usize = 3;

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.barrier()?;
    bench.group("target computes: lock, operation, unlock")?;
    for (name, op, access) in ACCESSES {
        let line = Line {
            name,
            subject: Subject::new(op, 8, "lock").case("busy_target"),
            iterations: 1,
            scale: Scale::Microseconds,
        };
        let (comm, origin) = (bench.comm(), bench.is_origin());
        bench.one_by_one(line, || {
            comm.barrier()?;
            let begun = Instant::now();
            if comm.rank() == TARGET {
                compute(begun);
            } else if origin {
                thread::sleep(HEAD_START);
                let start = Instant::now();
                epoch(window, buffer, access)?;
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

fn epoch(window: &Window, buffer: *mut u8, access: Access) -> transom::Result<()> {
    let one = 1_i64.to_ne_bytes();
    window.lock(LockKind::Exclusive, TARGET, Assert::NONE)?;
    // SAFETY: the buffer has more than 8 bytes and `one` is an element; both outlive the unlock,
    // and nobody touches them before it.
    unsafe {
        match access {
            Access::Put => window.put(buffer, 8, TARGET, 0)?,
            Access::Get => window.get(buffer, 8, TARGET, 0)?,
            Access::Accumulate => {
                window.accumulate(one.as_ptr(), 1, BasicType::I64, TARGET, 0, Op::Sum)?;
            }
        }
    }
    window.unlock(TARGET)
}
