//! Small operations, each with its flush.
#![allow(missing_docs, reason = "a program, not a library")]

mod ranks;

use std::hint::black_box;

use criterion::Criterion;
use ranks::{Stage, TARGET};
use transom::{BasicType, Op};

fn main() {
    ranks::main(|criterion, stage| {
        put_and_get(criterion, stage);
        atomics(criterion, stage);
        burst(criterion, stage);
    });
}

fn put_and_get(criterion: &mut Criterion, stage: &Stage<'_>) {
    for (name, window) in &stage.windows {
        let mut group = criterion.benchmark_group(format!("latency/{name}"));
        for size in [8, 64, 512] {
            let (buffer, len, target, at) = black_box((stage.buffer, size, TARGET, 0));
            stage.flushed(&mut group, format!("put/{size}"), window, || {
                // SAFETY: the buffer is longer, and nobody writes to it before the flush.
                unsafe { window.put(buffer, len, target, at) }
            });
            stage.flushed(&mut group, format!("get/{size}"), window, || {
                // SAFETY: the buffer is longer, and nobody else touches it before the flush.
                unsafe { window.get(buffer, len, target, at) }
            });
        }
        group.finish();
    }
}

fn atomics(criterion: &mut Criterion, stage: &Stage<'_>) {
    let (one, zero, mut result) = (1_i64.to_ne_bytes(), [0_u8; 8], [0_u8; 8]);
    let real = 1_f64.to_ne_bytes();
    let real = black_box(real.as_ptr());
    let (one, zero, result) = black_box((one.as_ptr(), zero.as_ptr(), result.as_mut_ptr()));
    let (ty, target, at) = black_box((BasicType::I64, TARGET, 0));
    for (name, window) in &stage.windows {
        let mut group = criterion.benchmark_group(format!("latency/{name}"));
        // In all of these the operands are words that outlive the flush, and that nobody else
        // touches before it.
        stage.flushed(&mut group, "accumulate_i64", window, || {
            // SAFETY: as said above.
            unsafe { window.accumulate(one, 1, ty, target, at, Op::Sum) }
        });
        stage.flushed(&mut group, "accumulate_f64", window, || {
            // SAFETY: as said above.
            unsafe { window.accumulate(real, 1, BasicType::F64, target, at, Op::Sum) }
        });
        stage.flushed(&mut group, "fetch_and_op", window, || {
            // SAFETY: as said above.
            unsafe { window.fetch_and_op(one, result, ty, target, at, Op::Sum) }
        });
        stage.flushed(&mut group, "compare_and_swap", window, || {
            // SAFETY: as said above.
            unsafe { window.compare_and_swap(one, zero, result, ty, target, at) }
        });
        group.finish();
    }
}

/// The rate of messages: 64 puts before one flush.
fn burst(criterion: &mut Criterion, stage: &Stage<'_>) {
    const COUNT: u64 = 64;
    for (name, window) in &stage.windows {
        let mut group = criterion.benchmark_group(format!("rate/{name}"));
        group.throughput(criterion::Throughput::Elements(COUNT));
        let (buffer, len, target) = black_box((stage.buffer, 8, TARGET));
        stage.flushed(&mut group, "put/8", window, || {
            // SAFETY: the buffer is longer, and nobody writes to it before the flush.
            (0..COUNT).try_for_each(|k| unsafe { window.put(buffer, len, target, 8 * k) })
        });
        group.finish();
    }
}
