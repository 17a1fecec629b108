//! Large operations, each with its flush.
#![allow(missing_docs, reason = "a program, not a library")]

mod ranks;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ranks::{SPAN, Stage, TARGET};
use transom::{BasicType, Op};

fn main() {
    ranks::main(|criterion, stage| {
        put_and_get(criterion, stage);
        accumulate(criterion, stage);
    });
}

fn put_and_get(criterion: &mut Criterion, stage: &Stage<'_>) {
    for (name, window) in &stage.windows {
        let mut group = criterion.benchmark_group(format!("bandwidth/{name}"));
        for size in [4 << 10, 64 << 10, 1 << 20, SPAN] {
            group.throughput(Throughput::Bytes(size as u64));
            let (buffer, len, target, at) = black_box((stage.buffer, size, TARGET, 0));
            stage.flushed(&mut group, format!("put/{}K", size >> 10), window, || {
                // SAFETY: the buffer is that long, and nobody writes to it before the flush.
                unsafe { window.put(buffer, len, target, at) }
            });
            stage.flushed(&mut group, format!("get/{}K", size >> 10), window, || {
                // SAFETY: the buffer is that long, and nobody else touches it before the flush.
                unsafe { window.get(buffer, len, target, at) }
            });
        }
        group.finish();
    }
}

fn accumulate(criterion: &mut Criterion, stage: &Stage<'_>) {
    for (name, window) in &stage.windows {
        let mut group = criterion.benchmark_group(format!("bandwidth/{name}"));
        for (label, ty) in [("f64", BasicType::F64), ("i64", BasicType::I64)] {
            for size in [4 << 10, 64 << 10, 1 << 20] {
                group.throughput(Throughput::Bytes(size as u64));
                let label = format!("accumulate_{label}/{}K", size >> 10);
                let (buffer, count, target, at) = black_box((stage.buffer, size / 8, TARGET, 0));
                stage.flushed(&mut group, label, window, || {
                    // SAFETY: the buffer has that many elements, and nobody writes to it before
                    // the flush.
                    unsafe { window.accumulate(buffer, count, ty, target, at, Op::Sum) }
                });
            }
        }
        group.finish();
    }
}
