//! Windows whose creation an allgather carries that is not the library's.

use std::cell::Cell;

use transom::lower::{self, Aim, Purpose, Row, at_once};
use transom::raw::{Assert, PROC_NULL, Window};
use transom::{BasicType, Communicator, Info, Job, LockKind, Op};

use crate::cases;
use crate::files::Files;
use crate::started::{Case, Outcome, Rank, check};

pub(crate) const CASES: &[Case] = cases!["windows":
    3: put_and_accumulate,
    3: memory_of_the_caller,
    4: windows_of_some_ranks,
    3: collectives_of_the_host,
    3: epochs_of_another_shape,
    3: calls_at_once,
    3: the_typed_interface_outside,
];

/// Of all ranks, over files of that name.
fn comm(job: &Job, rank: &Rank, name: &str) -> transom::Result<Communicator> {
    job.communicator(job.world().group(), rank.files(name))
}

/// The words of this rank's part, between epochs.
fn words(window: &Window) -> Vec<u64> {
    words_at(window.base(), window.size())
}

/// Of a window's own memory.
fn words_at(base: *const u8, size: u64) -> Vec<u64> {
    // SAFETY: the window's own memory, in which nobody writes between epochs.
    unsafe { std::slice::from_raw_parts(base.cast::<u64>(), size as usize / 8) }.to_vec()
}

/// Each rank puts to its neighbour, and all add to one element of rank 0.
fn ring(window: &Window, me: u64) -> Outcome {
    let ranks = u64::from(window.ranks());
    let (next, sum) = (((me + 1) % ranks) as u32, me + 1);
    window.fence(Assert::NONE)?;
    let (mine, sum) = ((&raw const me).cast(), (&raw const sum).cast());
    // SAFETY: both are alive until the fence.
    unsafe {
        window.put(mine, 8, next, 1)?;
        window.accumulate(sum, 1, BasicType::U64, 0, 2, Op::Sum)?;
    }
    window.fence(Assert::NO_SUCCEED)?;
    let words = words(window);
    check(
        words[1] == (me + ranks - 1) % ranks,
        "what the neighbour put",
    )?;
    let sum = if me == 0 { (1..=ranks).sum() } else { 0 };
    check(words[2] == sum, format!("{words:?}: what all added"))
}

fn put_and_accumulate(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    // The communicator goes before its windows.
    let windows = {
        let comm = comm(&job, rank, "windows")?;
        let window = || Window::allocate(&comm, 64, 8, &Info::new());
        [window()?, window()?]
    };
    for window in windows {
        ring(&window, rank.rank.into())?;
        window.free()?;
    }
    Ok(job.finish()?)
}

fn memory_of_the_caller(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let comm = comm(&job, rank, "windows")?;
    let mut memory = vec![0_u64; 3];
    let base = memory.as_mut_ptr().cast();
    // SAFETY: the vector outlives the window, and is looked at through it only.
    let window = unsafe { Window::create(&comm, base, 24, 8, &Info::new())? };
    ring(&window, rank.rank.into())?;
    window.free()?;
    let window = Window::create_dynamic(&comm, &Info::new())?;
    window.free()?;
    let copied = lower::create_copied(&comm, &[rank.rank as u8; 24], 8, &Info::new())?;
    let word = u64::from_ne_bytes([rank.rank as u8; 8]);
    check(words(&copied) == [word; 3], "the copy")?;
    copied.free()?;
    Ok(job.finish()?)
}

/// Odd and even ranks, the last first.
fn windows_of_some_ranks(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let odd = rank.rank % 2;
    let group = job.world().group().include(&[2 + odd, odd])?;
    let me = group
        .rank_of_world(rank.rank)
        .ok_or("not in its own group")?;
    let files = Files::new(&rank.folder, &format!("some-{odd}"), me, 2);
    let comm = job.communicator(&group, files)?;
    let window = Window::allocate(&comm, 24, 8, &Info::new())?;
    check(window.rank() == me, "the rank in the window")?;
    ring(&window, me.into())?;
    window.free()?;
    // What is made of it is as other communicators are.
    let dup = comm.dup()?;
    drop(comm);
    let window = Window::allocate(&dup, 24, 8, &Info::new())?;
    ring(&window, me.into())?;
    window.free()?;
    drop(dup);
    Ok(job.finish()?)
}

fn collectives_of_the_host(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let comm = comm(&job, rank, "host")?;
    let me = rank.rank;
    comm.barrier()?;
    let mut told = [me, me * 10];
    comm.bcast(&mut told, 2)?;
    check(told == [2, 20], "bcast")?;
    let lens: Vec<u32> = vec![me; me as usize];
    let all = [vec![], vec![1], vec![2, 2]];
    check(comm.allgatherv(&lens)? == all, "allgatherv")?;
    let wanted = if me == 1 { all.to_vec() } else { Vec::new() };
    check(comm.gatherv(&lens, 1)? == wanted, "gatherv")?;
    let wanted = if me == 2 { vec![0, 1, 2] } else { Vec::new() };
    check(comm.gather(&[me], 2)? == wanted, "gather")?;
    check(
        comm.allreduce(&[me + 1, 4], Op::Prod)? == [6, 64],
        "allreduce",
    )?;
    // Of equals the first: in the order of ranks from the root on.
    let wanted = if me == 1 { vec![3.0] } else { Vec::new() };
    check(
        comm.reduce(&[f64::from(me + 1)], Op::Max, 1)? == wanted,
        "reduce",
    )?;
    check(comm.allgather::<u64>(&[])?.is_empty(), "nothing")?;
    let half = comm.split((me > 0).then_some(7), -(me as i32))?;
    check(
        half.map(|half| (half.rank(), half.size()))
            == [None, Some((1, 2)), Some((0, 2))][me as usize],
        "split",
    )?;
    check(comm.split_shared(0)?.size() == 3, "split_shared")?;
    Ok(job.finish()?)
}

/// Barriers, operations between rows, and a last look.
fn epochs_of_another_shape(rank: &Rank) -> Outcome {
    const OPERATION: &str = "columns";
    let job = rank.job()?;
    let comm = comm(&job, rank, "host")?;
    let window = Window::allocate(&comm, 4 * 4 * 8, 1, &Info::new())?;
    let next = (rank.rank + 1) % rank.size;
    lower::synchronise(&window, OPERATION, Purpose::Passive)?;
    // A row becomes the third column.
    let row = [1_u64, 2, 3, 4].map(|i| i + 10 * u64::from(rank.rank));
    let dense = Row {
        at: 0,
        len: 32,
        count: 1,
        stride: 0,
    };
    let column = Row {
        at: 16,
        len: 8,
        count: 4,
        stride: 32,
    };
    let mut back = [0_u64; 4];
    let aim = Aim::new(OPERATION, next);
    window.lock(LockKind::Shared, next, Assert::NONE)?;
    // SAFETY: the rows are inside the arrays, which are alive until all is complete.
    unsafe {
        let (row, back) = (row.as_ptr().cast(), back.as_mut_ptr().cast());
        lower::put_row(&window, aim, row, dense, column)?;
        lower::flush(&window, aim)?;
        lower::accumulate_row(&window, aim, row, dense, column, BasicType::U64, Op::Sum)?;
        lower::complete(&window, aim)?;
        lower::get_row(&window, aim, back, dense, column)?;
        lower::complete(&window, aim)?;
        let far = Row {
            at: i64::MAX - 7,
            len: 8,
            ..column
        };
        let refused = lower::put_row(&window, aim, row, dense, far);
        check(
            refused.is_err_and(|error| error.operation() == OPERATION),
            "a row beyond 63 bits",
        )?;
        let below = Row { at: -8, ..column };
        let refused = lower::put_row(&window, aim, row, dense, below);
        check(refused.is_err(), "a row below the window")?;
    }
    check(
        back == row.map(|value| 2 * value),
        format!("{back:?}: what came back"),
    )?;
    check(
        lower::flush(&window, Aim::new(OPERATION, 99)).is_err(),
        "a flush of no rank",
    )?;
    // The lock was forgotten.
    lower::unlock_everything(&window, OPERATION)?;
    lower::synchronise(&window, OPERATION, Purpose::Passive)?;
    let memory = lower::free_with(window, words_at)?;
    let before = u64::from((rank.rank + rank.size - 1) % rank.size);
    let column: Vec<u64> = memory.iter().copied().skip(2).step_by(4).collect();
    let wanted: Vec<u64> = (1..=4).map(|i| 2 * (i + 10 * before)).collect();
    check(column == wanted, format!("{memory:?}: the last look"))?;
    Ok(job.finish()?)
}

fn the_typed_interface_outside(rank: &Rank) -> Outcome {
    use crate::typed::{Block2d, Buffer, Window};
    let job = rank.job()?;
    let comm = comm(&job, rank, "host")?;
    let next = (rank.rank + 1) % rank.size;
    let mut window = Window::create(&comm, vec![0_u32; 16])?;
    let mut mine = Buffer::new(&comm, 4)?;
    mine.fill(rank.rank + 1);
    let column = Block2d {
        width: 4,
        row: 0,
        column: 1,
        rows: 4,
        columns: 1,
    };
    window.fence(|epoch| epoch.target(next)?.put_strided(column, &mine, 0..4))?;
    window.passive(|epoch| {
        let lock = epoch.lock(next, LockKind::Shared)?;
        lock.fetch_add(0, 5)?;
        lock.put_blocking(15, &[9])?;
        lock.unlock()
    })?;
    let before = (rank.rank + rank.size - 1) % rank.size + 1;
    let wanted = [
        5, before, 0, 0, 0, before, 0, 0, 0, before, 0, 0, 0, before, 0, 9,
    ];
    check(window.into_vec()? == wanted, "what others put")?;
    Ok(job.finish()?)
}

/// Which of the calls that need an epoch or a lock of rank 0 go ahead at once.
fn without_epoch(window: &Window) -> [bool; 6] {
    let one = (&raw const ONE).cast();
    [
        at_once::to_put(window, 8, 0, 0).is_some(),
        at_once::to_get(window, 8, 0, 0).is_some(),
        // SAFETY: of a static.
        unsafe { at_once::add(window, one, BasicType::U64, 0, 0) },
        at_once::flush(window, 0),
        at_once::flush_local(window, 0),
        at_once::unlock(window, 0),
    ]
}

static ONE: u64 = 1;

/// Each does all of its call or nothing, so that the call itself may follow; and what is amiss, the call tells.
fn calls_at_once(rank: &Rank) -> Outcome {
    const ROUNDS: u64 = 300;
    let job = rank.job()?;
    let comm = comm(&job, rank, "windows")?;
    let window = Window::allocate(&comm, 64, 8, &Info::new())?;
    let (ranks, me) = (u64::from(window.ranks()), rank.rank);
    let one = (&raw const ONE).cast::<u8>();
    check(without_epoch(&window) == [false; 6], "before any epoch")?;
    check(!at_once::unlock_all(&window), "before lock_all")?;

    // The count is right only if none that says no has locked or added.
    for _ in 0..ROUNDS {
        if !at_once::lock(&window, LockKind::Exclusive, 0) {
            window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
        }
        check(!at_once::lock(&window, LockKind::Shared, 0), "it is locked")?;
        check(!at_once::lock_all(&window), "a target is locked")?;
        let count = Cell::new(0_u64);
        let at = count.as_ptr().cast::<u8>();
        // SAFETY: locals that outlive the unlock.
        unsafe {
            match at_once::to_get(&window, 8, 0, 1) {
                Some(there) => there.get(at, 8),
                None => window.get(at, 8, 0, 1)?,
            }
            if !at_once::flush(&window, 0) {
                window.flush(0)?;
            }
            count.set(count.get() + 1);
            match at_once::to_put(&window, 8, 0, 1) {
                Some(there) => there.put(at, 8),
                None => window.put(at, 8, 0, 1)?,
            }
            if !at_once::flush_local(&window, 0) {
                window.flush_local(0)?;
            }
        }
        if !at_once::unlock(&window, 0) {
            window.unlock(0)?;
        }
        check(without_epoch(&window) == [false; 6], "behind an unlock")?;
    }

    for round in 0..ROUNDS {
        if !at_once::lock_all(&window) {
            window.lock_all(Assert::NONE)?;
        }
        check(
            !at_once::lock(&window, LockKind::Shared, 0),
            "lock_all is in force",
        )?;
        check(!at_once::unlock(&window, 0), "it was not locked by lock")?;
        let (mut old, mut seen) = (0_u64, u64::MAX);
        let (old_at, seen_at) = ((&raw mut old).cast(), (&raw mut seen).cast());
        // SAFETY: locals that outlive the flush.
        unsafe {
            if !at_once::add(&window, one, BasicType::U64, 0, 2) {
                window.accumulate(one, 1, BasicType::U64, 0, 2, Op::Sum)?;
            }
            if !at_once::fetch_and_op(&window, one, old_at, BasicType::U64, 0, 3, Op::Sum) {
                window.fetch_and_op(one, old_at, BasicType::U64, 0, 3, Op::Sum)?;
            }
            let mine = (&raw const round).cast::<u8>();
            let (ty, disp) = (BasicType::U64, u64::from(4 + me));
            let next = round + 1;
            let next = (&raw const next).cast::<u8>();
            if !at_once::compare_and_swap(&window, next, mine, seen_at, ty, 0, disp) {
                window.compare_and_swap(next, mine, seen_at, ty, 0, disp)?;
            }
            check(
                !at_once::add(&window, one, BasicType::U64, 0, 8),
                "past the end",
            )?;
            check(
                !at_once::add(&window, one, BasicType::U64, PROC_NULL, 0),
                "nobody",
            )?;
        }
        for (target, disp) in [(0, 8), (0, u64::MAX), (window.ranks(), 0), (PROC_NULL, 0)] {
            let put = at_once::to_put(&window, 8, target, disp).is_some();
            let get = at_once::to_get(&window, 8, target, disp).is_some();
            check(
                !put && !get,
                format!("displacement {disp} of rank {target}"),
            )?;
        }
        if !at_once::flush(&window, 0) {
            window.flush(0)?;
        }
        check(
            seen == round && old < ranks * ROUNDS,
            format!("{seen} and {old}"),
        )?;
        if !at_once::unlock_all(&window) {
            window.unlock_all()?;
        }
        check(!at_once::unlock_all(&window), "lock_all is over")?;
    }
    lower::synchronise(&window, "the end of the rounds", Purpose::Passive)?;
    if me == 0 {
        let words = words(&window);
        check(words[1..4] == [ranks * ROUNDS; 3], format!("{words:?}"))?;
    }
    window.free()?;
    Ok(job.finish()?)
}
