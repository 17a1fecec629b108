//! Runs of elements that are replaced by some and fetched by others: nobody sees a part of an aligned word, nor the
//! first words of a short run without the others.

use std::ops::Range;
use std::time::{Duration, Instant};

use transom::raw::{Assert, AtomicDomain, Committed, Datatype, Layout, Window};
use transom::{BasicType, Info, Job, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::dynamic::{addresses, attach, memory};
use crate::exposed::{Exposed, Memory};

pub(crate) const CASES: &[Case] = cases!["hammer":
    aligned_words_of_narrow_elements @ [2, 3],
    aligned_words_of_narrow_elements_in_a_dynamic_window @ [2, 3],
    aligned_words_of_elements_below_the_granularity @ [2, 3],
    the_first_word_of_a_short_run_is_seen_last @ [3],
];

/// Where the device maps other ranks' memory.
pub(crate) const MAPPED: &[Case] = cases!["shared":
    aligned_words_of_narrow_elements_in_shared_memory @ [2, 3],
];

const WHILE: Duration = Duration::from_millis(15);

/// A run begins and ends within words. From a multiple of eight bytes on:
const RUN: Range<usize> = 2..30;
/// What of it lies aligned: nobody may see parts of these.
const WORDS: [Range<usize>; 6] = [2..4, 4..8, 8..16, 16..24, 24..28, 28..30];
/// From one run to the next.
const STRIDE: usize = 40;
/// Two runs, with room before and after.
const ROOM: usize = 128;
/// Where the single words are that all swap.
const SWAPPED: u64 = 96;

fn aligned_words_of_narrow_elements(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::AllocMem, Memory::Heap] {
        let window = Exposed::open(job, memory, ROOM, 1)?;
        hammer(job, &window, &vec![0; job.world().size() as usize])?;
        window.close()?;
    }
    Ok(())
}

fn aligned_words_of_narrow_elements_in_a_dynamic_window(job: &Job) -> Outcome {
    let window = Window::create_dynamic(job.world(), &Info::new())?;
    for base in [job.alloc_mem(ROOM, &Info::new())?.as_ptr(), memory(ROOM)] {
        attach(&window, base, ROOM)?;
        hammer(job, &window, &addresses(job, base)?)?;
    }
    window.free()?;
    Ok(())
}

/// The accumulate lock protects all narrow elements.
fn aligned_words_of_elements_below_the_granularity(job: &Job) -> Outcome {
    let info = Info::new().with("mpi_accumulate_granularity", "8");
    let window = Window::allocate(job.world(), ROOM, 1, &info)?;
    hammer_runs(job, &window, &vec![0; job.world().size() as usize])?;
    window.free()?;
    Ok(())
}

fn aligned_words_of_narrow_elements_in_shared_memory(job: &Job) -> Outcome {
    let window = Window::allocate_shared(job.world(), ROOM, 1, &Info::new())?;
    hammer(job, &window, &vec![0; job.world().size() as usize])?;
    window.free()?;
    Ok(())
}

/// `places`: the displacement of each rank's memory, of [`ROOM`] bytes, aligned to eight.
fn hammer(job: &Job, window: &Window, places: &[u64]) -> Outcome {
    hammer_runs(job, window, places)?;
    window.lock_all(Assert::NONE)?;
    for target in [0, window.ranks() - 1] {
        swap(job, window, (target, places[target as usize] + SWAPPED))?;
    }
    window.unlock_all()?;
    job.world().barrier()?;
    Ok(())
}

fn hammer_runs(job: &Job, window: &Window, places: &[u64]) -> Outcome {
    let last = window.ranks() - 1;
    window.lock_all(Assert::NONE)?;
    for ty in [BasicType::Byte, BasicType::I16] {
        let old = Datatype::from(ty);
        let count = (RUN.len() / ty.size()) as i64;
        let stride = STRIDE as i64;
        let dense = Committed::of(ty);
        let rows = Datatype::hvector(2, count, stride, &old)?.commit();
        let spread = Datatype::vector(2 * count, 1, 2, &old)?.commit();
        let (one_run, both) = (dense.times(count as u64), dense.times(2 * count as u64));
        let near = |layout, runs: usize, step: usize| {
            let elements = (0..runs * RUN.len()).step_by(ty.size());
            let offsets = elements.flat_map(|at| at * step..at * step + ty.size());
            let offsets = offsets.collect();
            Near { layout, offsets }
        };
        for (near, far) in [
            (near(one_run, 1, 1), one_run),
            (near(both, 2, 1), rows.times(1)),
            (near(spread.times(1), 2, 2), rows.times(1)),
        ] {
            // A target that only waits may serve requests meanwhile.
            let waiting = (last > 1).then_some((last, true));
            for (target, waits) in [(0, false), (last, false)].into_iter().chain(waiting) {
                let base = places[target as usize];
                zero(job, window, target, base)?;
                if !waits || window.rank() != target {
                    replace_and_fetch(window, (target, base), &near, far)?;
                }
                job.world().barrier()?;
            }
        }
    }
    window.unlock_all()?;
    job.world().barrier()?;
    Ok(())
}

/// A layout of origin buffers, and the offset of each of its bytes.
struct Near<'t> {
    layout: Layout<'t>,
    offsets: Vec<usize>,
}

/// Ranks of odd numbers replace runs by bytes of one value; the others fetch them, without a change or in exchange.
fn replace_and_fetch(
    window: &Window,
    (target, base): (u32, u64),
    near: &Near<'_>,
    far: Layout<'_>,
) -> Outcome {
    let (near, offsets) = (near.layout, &near.offsets);
    let me = window.rank();
    let disp = base + RUN.start as u64;
    let mut fetched = [0_u8; ROOM];
    let what = format!("{near} and {far} of rank {target}");
    let begun = Instant::now();
    for round in (0..).take_while(|round| *round < 8 || begun.elapsed() < WHILE) {
        let value = [(2 * round + me) as u8; ROOM];
        let (from, to) = (value.as_ptr(), fetched.as_mut_ptr());
        let op = if round % 2 == 0 {
            Op::NoOp
        } else {
            Op::Replace
        };
        // SAFETY: locals; the flush completes the operation.
        unsafe {
            match me % 2 {
                1 => window.accumulate_layout(from, near, target, disp, far, Op::Replace)?,
                _ => window.get_accumulate_layout(from, near, to, near, target, disp, far, op)?,
            }
        }
        window.flush(target)?;
        if me % 2 == 1 {
            continue;
        }
        let found: Vec<u8> = offsets.iter().map(|&at| fetched[at]).collect();
        for run in found.chunks(RUN.len()) {
            for word in &WORDS {
                let bytes = &run[word.start - RUN.start..word.end - RUN.start];
                check!(
                    bytes.iter().all(|byte| *byte == bytes[0]),
                    "{what}, round {round}: {bytes:?} at {word:?}"
                );
            }
        }
    }
    Ok(())
}

/// A rank publishes runs of words with one ever larger value; the others fetch them. Not where an adapter carries out
/// the atomics.
fn the_first_word_of_a_short_run_is_seen_last(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::AllocMem, Memory::Heap] {
        let window = Exposed::open(job, memory, ROOM, 1)?;
        if window.atomic_domain() == AtomicDomain::Cpu {
            publish(job, &window, &vec![0; job.world().size() as usize])?;
        }
        window.close()?;
    }
    let window = Window::create_dynamic(job.world(), &Info::new())?;
    let base = memory(ROOM);
    attach(&window, base, ROOM)?;
    let places = addresses(job, base)?;
    if window.atomic_domain() == AtomicDomain::Cpu {
        publish(job, &window, &places)?;
    }
    window.free()?;
    Ok(())
}

fn publish(job: &Job, window: &Window, places: &[u64]) -> Outcome {
    window.lock_all(Assert::NONE)?;
    for (target, bytes, ty) in [
        (0, 16, BasicType::Byte),
        (0, 64, BasicType::I64),
        (1, 16, BasicType::I64),
        (2, 64, BasicType::I32),
    ] {
        let place = places[target as usize];
        zero(job, window, target, place)?;
        let count = bytes / ty.size();
        let mut last = 0;
        let begun = Instant::now();
        for round in (1_u64..).take_while(|round| *round < 8 || begun.elapsed() < WHILE) {
            let value = [round; 8];
            let mut fetched = [0_u64; 8];
            let (from, to) = (value.as_ptr().cast(), fetched.as_mut_ptr().cast());
            // SAFETY: locals; the flush completes the operation.
            unsafe {
                match window.rank() {
                    1 => window.accumulate(from, count, ty, target, place, Op::Replace)?,
                    _ => window.get_accumulate(from, to, count, ty, target, place, Op::NoOp)?,
                }
            }
            window.flush(target)?;
            if window.rank() == 1 {
                continue;
            }
            let words = &fetched[..bytes / 8];
            check!(
                words.is_sorted() && words[0] >= last,
                "{count} of {ty:?} of rank {target}: {words:?} after {last}"
            );
            last = words[0];
        }
        job.world().barrier()?;
    }
    window.unlock_all()?;
    Ok(())
}

/// All ranks exchange one word, by eight bytes, by four shorts, and as one integer where the processor's atomics are used: each
/// value that went in comes out once, or is there at the end.
fn swap(job: &Job, window: &Window, (target, disp): (u32, u64)) -> Outcome {
    zero(job, window, target, disp - SWAPPED)?;
    let (mut sent, mut received) = (0_u64, 0_u64);
    let mut old = [0_u8; 8];
    let ways: &[(usize, BasicType)] = match window.atomic_domain() {
        AtomicDomain::Cpu => &[
            (8, BasicType::Byte),
            (1, BasicType::U64),
            (4, BasicType::I16),
        ],
        _ => &[(8, BasicType::Byte)],
    };
    let begun = Instant::now();
    for round in (0_u32..).take_while(|round| *round < 8 || begun.elapsed() < WHILE) {
        let new = [(round * 7 + window.rank() + 1) as u8; 8];
        let (from, to) = (new.as_ptr(), old.as_mut_ptr());
        let (count, ty) = ways[round as usize % ways.len()];
        // SAFETY: locals; the flush completes the operation.
        unsafe { window.get_accumulate(from, to, count, ty, target, disp, Op::Replace)? };
        window.flush(target)?;
        check!(old.iter().all(|byte| *byte == old[0]), "{old:?}");
        sent += u64::from(new[0]);
        received += u64::from(old[0]);
    }
    job.world().barrier()?;
    // SAFETY: as above.
    unsafe { window.get(old.as_mut_ptr(), 8, target, disp)? };
    window.flush(target)?;
    let sums = job.world().allreduce(&[sent, received], Op::Sum)?;
    check_eq!(sums[0], sums[1] + u64::from(old[0]), "rank {target}");
    Ok(())
}

/// Collective. Nobody goes on before the memory of `target` is zeroed.
fn zero(job: &Job, window: &Window, target: u32, base: u64) -> Outcome {
    job.world().barrier()?;
    if window.rank() == target {
        let zeroes = [0_u8; ROOM];
        // SAFETY: a local; the flush completes the operation.
        unsafe { window.put(zeroes.as_ptr(), ROOM, target, base)? };
        window.flush(target)?;
    }
    job.world().barrier()?;
    Ok(())
}
