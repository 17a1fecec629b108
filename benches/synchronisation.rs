//! Epochs, and what all ranks do together.
#![allow(missing_docs, reason = "a program, not a library")]

mod ranks;

use std::hint::black_box;

use criterion::Criterion;
use ranks::{Stage, Step, TARGET};
use transom::LockKind;
use transom::raw::Assert;

fn main() {
    ranks::main(|criterion, stage| {
        locks(criterion, stage);
        together(criterion, stage);
    });
}

fn locks(criterion: &mut Criterion, stage: &Stage<'_>) {
    for (name, window) in &stage.windows {
        let mut group = criterion.benchmark_group(format!("locks/{name}"));
        let kinds = [
            ("exclusive", LockKind::Exclusive),
            ("shared", LockKind::Shared),
        ];
        for (label, kind) in kinds {
            let (kind, buffer, len, target, at) = black_box((kind, stage.buffer, 8, TARGET, 0));
            group.bench_function(format!("{label}_put_unlock"), |bencher| {
                bencher.iter(|| {
                    window.lock(kind, target, Assert::NONE).unwrap();
                    // SAFETY: the buffer is longer, and nobody writes to it before the unlock.
                    unsafe { window.put(buffer, len, target, at).unwrap() };
                    window.unlock(target).unwrap();
                });
            });
        }
        group.bench_function("lock_all_unlock_all", |bencher| {
            bencher.iter(|| {
                window.lock_all(Assert::NONE).unwrap();
                window.unlock_all().unwrap();
            });
        });
        group.finish();
    }
}

fn together(criterion: &mut Criterion, stage: &Stage<'_>) {
    let mut group = criterion.benchmark_group("together");
    for (name, step) in [
        ("put_fence", Step::PutFence),
        ("barrier", Step::Barrier),
        ("bcast", Step::Bcast),
        ("allreduce", Step::Allreduce),
        ("allgather", Step::Allgather),
        ("allocate_free", Step::AllocateFree),
    ] {
        stage.together(&mut group, name, step);
    }
    group.finish();
}
