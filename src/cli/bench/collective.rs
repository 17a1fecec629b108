//! One word that all ranks count up.

use std::hint::black_box;

use transom::raw::{Assert, Window};
use transom::{BasicType, Op};

use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;

pub(super) const LINES: usize = 1;

#[inline(never)]
pub(super) fn contended(bench: &mut Bench<'_>, window: &Window) -> Result<()> {
    let line = Line {
        name: "contended_fetch_add",
        subject: Subject::new("fetch_and_op", 8, "flush").case("contended"),
        iterations: 20_000,
        scale: Scale::MegaOperationsOfAll(f64::from(bench.comm().size())),
    };
    let one = 1_i64.to_ne_bytes();
    let mut result = [0; 8];
    let (from, to) = black_box((one.as_ptr(), result.as_mut_ptr()));
    let (ty, target, at) = black_box((BasicType::I64, TARGET, 0));
    window.lock_all(Assert::NONE)?;
    bench.barrier()?;
    bench.every(line, move || {
        // SAFETY: both are elements, outlive the flush and are not touched before it.
        unsafe { window.fetch_and_op(from, to, ty, target, at, Op::Sum)? };
        window.flush(target)
    })?;
    Ok(window.unlock_all()?)
}
