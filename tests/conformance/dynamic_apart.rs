//! Accesses that lie in several regions of a dynamic window.

use transom::raw::{Assert, Committed, Datatype, Window};
use transom::{BasicType, ErrorClass, Info, Job, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::dynamic::{addresses, attach, memory, read};
use crate::exposed::patterned;
use crate::ops::{accumulate, fetch_and_op, get, put};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["dynamic_apart":
    regions_that_touch @ [1, 2, 3],
    accumulates_over_regions @ [2, 3],
    elements_that_no_region_holds @ [2],
    padding_that_is_not_attached @ [2],
    layouts_in_regions_far_apart @ [2],
    requests_and_notifications @ [2],
    gaps_and_regions_that_go @ [2],
];

const LEN: usize = 3 * 4096;

/// Where regions begin and end: inside pages and between them, two of a few bytes.
const ENDS: [usize; 7] = [0, 100, 104, 2000, 4096, 8199, LEN];

/// Collective. A window and this rank's memory, attached from the last region to the first.
fn touching(job: &Job) -> transom::Result<(Window, *mut u8, Vec<u64>)> {
    let window = Window::create_dynamic(job.world(), &Info::new())?;
    let base = memory(LEN);
    for ends in ENDS.windows(2).rev() {
        attach(&window, base.wrapping_add(ends[0]), ends[1] - ends[0])?;
    }
    let all = addresses(job, base)?;
    Ok((window, base, all))
}

fn regions_that_touch(job: &Job) -> Outcome {
    let (me, ranks) = (job.world().rank(), job.world().size());
    let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let (window, base, all) = touching(job)?;
    let there = all[ahead as usize];
    let mut wanted = vec![0; LEN];
    for (round, (at, len)) in [(0, LEN), (99, 2), (90, 30), (1999, 6201), (4095, 2)]
        .into_iter()
        .enumerate()
    {
        window.fence(Assert::NONE)?;
        put(
            &window,
            &patterned(me, len, round),
            ahead,
            there + at as u64,
        )?;
        window.fence(Assert::NONE)?;
        wanted[at..at + len].copy_from_slice(&patterned(behind, len, round));
        check!(read(base, LEN) == wanted, "{len} bytes at {at}");
        let mut found = vec![0; len];
        get(&window, &mut found, ahead, there + at as u64)?;
        window.fence(Assert::NO_SUCCEED)?;
        check!(found == patterned(me, len, round), "{len} bytes from {at}");
    }
    window.free()?;
    Ok(())
}

fn accumulates_over_regions(job: &Job) -> Outcome {
    let ranks = u64::from(job.world().size());
    let (window, base, all) = touching(job)?;
    let ones = vec![1_u64; (LEN - 2400) / 8];
    window.lock_all(Assert::NONE)?;
    for (target, &there) in (0..).zip(&all) {
        // One of the ends that are in there is inside a word.
        let cut = accumulate(&window, &ones, target, there + 2400, Op::Sum);
        refused(cut, ErrorClass::RmaRange, &["accumulate", "attached"])?;
        // All of these end between elements.
        accumulate(&window, &ones[..500], target, there + 2400, Op::Sum)?;
        accumulate(&window, &[0.5_f64; 20], target, there + 1920, Op::Sum)?;
        accumulate(&window, &[7_u32; 30], target, there + 40, Op::Sum)?;
    }
    window.unlock_all()?;
    job.world().barrier()?;
    let words: Vec<u64> = bytemuck::pod_collect_to_vec(&read(base, LEN));
    for (index, &word) in words.iter().enumerate() {
        let wanted = match 8 * index {
            40..160 => 7 * (ranks << 32 | ranks),
            1920..2080 => (0.5 * ranks as f64).to_bits(),
            2400..6400 => ranks,
            _ => 0,
        };
        check_eq!(word, wanted, "byte {}", 8 * index);
    }
    window.free()?;
    Ok(())
}

fn elements_that_no_region_holds(job: &Job) -> Outcome {
    let me = job.world().rank();
    let ahead = 1 - me;
    let (window, base, all) = touching(job)?;
    let there = all[ahead as usize];
    window.lock_all(Assert::NONE)?;
    // A word over the end of the first region; and bytes, of which none is.
    for result in [
        accumulate(&window, &[1_u64; 3], ahead, there + 88, Op::Sum),
        fetch_and_op(&window, 1_u64, ahead, there + 96, Op::Sum).map(drop),
        accumulate(&window, &[1_u64], ahead, there + 101, Op::Replace),
    ] {
        refused(result, ErrorClass::RmaRange, &["attached"])?;
    }
    accumulate(&window, &[1_u8; 30], ahead, there + 90, Op::Sum)?;
    window.unlock_all()?;
    job.world().barrier()?;
    let mut wanted = vec![0; 200];
    wanted[90..120].fill(1);
    check_eq!(read(base, 200), wanted);
    window.free()?;
    Ok(())
}

/// Pairs of 12 bytes, 16 apart.
fn padding_that_is_not_attached(job: &Job) -> Outcome {
    let ahead = 1 - job.world().rank();
    let window = Window::create_dynamic(job.world(), &Info::new())?;
    let base = memory(4096);
    attach(&window, base, 16 + 12)?;
    attach(&window, base.wrapping_add(32), 12)?;
    let there = addresses(job, base)?[ahead as usize];
    let mut pairs = [0_u8; 48];
    for (index, pair) in pairs.chunks_mut(16).enumerate() {
        pair[..8].copy_from_slice(&(index as f64 + 1.5).to_ne_bytes());
        pair[8..12].copy_from_slice(&(index as i32 + 4).to_ne_bytes());
    }
    let from = pairs.as_ptr();
    let mut old = [0x5a_u8; 48];
    let to = old.as_mut_ptr();
    let ty = BasicType::DoubleInt;
    window.lock_all(Assert::NONE)?;
    // SAFETY: the flushes complete the operations.
    unsafe {
        window.accumulate(from, 3, ty, ahead, there, Op::Maxloc)?;
        window.flush(ahead)?;
        window.get_accumulate(from, to, 3, ty, ahead, there, Op::NoOp)?;
        window.flush(ahead)?;
    }
    window.unlock_all()?;
    job.world().barrier()?;
    let held = read(base, 48);
    for (index, pair) in pairs.chunks(16).enumerate() {
        check_eq!(held[16 * index..][..12], pair[..12], "pair {index}");
        check_eq!(old[16 * index..][..12], pair[..12], "old pair {index}");
        check_eq!(held[16 * index..][12..16], [0; 4], "padding {index}");
    }
    window.free()?;
    Ok(())
}

fn layouts_in_regions_far_apart(job: &Job) -> Outcome {
    let ahead = 1 - job.world().rank();
    let window = Window::create_dynamic(job.world(), &Info::new())?;
    let parts = [memory(4096), memory(4096), memory(8)];
    attach(&window, parts[0], 4096)?;
    attach(&window, parts[1].wrapping_add(8), 800)?;
    attach(&window, parts[2], 8)?;
    let mut theirs = [0; 3];
    for (address, &part) in theirs.iter_mut().zip(&parts) {
        *address = addresses(job, part)?[ahead as usize];
    }
    // Rows of two words, over the regions and back.
    let places: Vec<i64> = (0..30)
        .map(|row| match row % 3 {
            0 => theirs[0] as i64 + 128 * row,
            1 => theirs[1] as i64 + 8 + 24 * row,
            _ => theirs[0] as i64 + 4000 - 16 * row,
        })
        .collect();
    let ty = Datatype::from(BasicType::U64);
    let rows = Datatype::hindexed_block(2, &places, &ty)?;
    let word = Datatype::hindexed(&[1], &[theirs[2] as i64], &ty)?;
    let layout = Datatype::structure(&[1, 1], &[0, 0], &[rows, word])?.commit();
    let dense = Committed::of(BasicType::U64);
    let values: Vec<u64> = (1..=61).collect();
    let mut found = vec![0_u64; 61];
    let mut old = vec![0_u64; 61];
    window.fence(Assert::NONE)?;
    let (from, far) = (values.as_ptr().cast(), layout.times(1));
    let (to, to_old) = (found.as_mut_ptr().cast(), old.as_mut_ptr().cast());
    // SAFETY: the fences complete the operations before the buffers go.
    unsafe {
        window.put_layout(from, dense.times(61), ahead, 0, far)?;
        window.fence(Assert::NONE)?;
        window.accumulate_layout(from, dense.times(61), ahead, 0, far, Op::Sum)?;
        window.fence(Assert::NONE)?;
        let (near, all) = (dense.times(60), dense.times(61));
        window.get_accumulate_layout(from, near, to_old, all, ahead, 0, far, Op::Sum)?;
        window.fence(Assert::NONE)?;
        window.get_layout(to, dense.times(61), ahead, 0, far)?;
    }
    window.fence(Assert::NONE)?;
    for index in 0..61 {
        let value = values[index];
        check_eq!(old[index], 2 * value, "element {index}");
        let wanted = if index < 60 { 3 * value } else { 2 * value };
        check_eq!(found[index], wanted, "element {index}");
    }
    // With a part that is not attached, nothing is put.
    let beyond = Datatype::hindexed(&[1, 1], &[0, theirs[2] as i64 - theirs[0] as i64 + 8], &ty)?;
    let beyond = beyond.commit();
    // SAFETY: refused.
    let outside =
        unsafe { window.put_layout(from, dense.times(2), ahead, theirs[0], beyond.times(1)) };
    refused(outside, ErrorClass::RmaRange, &["put", "attached"])?;
    window.fence(Assert::NO_SUCCEED)?;
    check_eq!(read(parts[0], 8), 3_u64.to_ne_bytes());
    window.free()?;
    Ok(())
}

fn requests_and_notifications(job: &Job) -> Outcome {
    let me = job.world().rank();
    let ahead = 1 - me;
    let (window, base, all) = touching(job)?;
    let there = all[ahead as usize];
    let mut bytes = patterned(me, LEN, 1);
    let mut back = vec![0; LEN];
    window.lock_all(Assert::NONE)?;
    // SAFETY: the buffers are untouched until the requests are complete.
    unsafe {
        window.rput(bytes.as_ptr(), LEN, ahead, there)?.wait()?;
        bytes.fill(0);
        window.flush(ahead)?;
        window.rget(back.as_mut_ptr(), LEN, ahead, there)?.wait()?;
    }
    check!(back == patterned(me, LEN, 1));
    // The first element of each rank's memory may only now be overwritten.
    job.world().barrier()?;
    let bytes = patterned(me, LEN, 2);
    // SAFETY: unlock_all completes it.
    unsafe { window.put_notify(bytes.as_ptr(), LEN, ahead, there, 0)? };
    window.wait_notify(0, 1)?;
    check!(read(base, LEN) == patterned(ahead, LEN, 2));
    window.unlock_all()?;
    window.free()?;
    Ok(())
}

fn gaps_and_regions_that_go(job: &Job) -> Outcome {
    let me = job.world().rank();
    let ahead = 1 - me;
    let (window, base, all) = touching(job)?;
    let there = all[ahead as usize];
    window.lock_all(Assert::NONE)?;
    put(&window, &[1; LEN], ahead, there)?;
    for (at, len) in [(0, LEN + 1), (LEN - 1, 2)] {
        let past = put(&window, &vec![9; len], ahead, there + at as u64);
        refused(
            past,
            ErrorClass::RmaRange,
            &["put", &format!("{len} bytes")],
        )?;
    }
    window.flush(ahead)?;
    job.world().barrier()?;
    window.detach(base.wrapping_add(ENDS[2]))?;
    job.world().barrier()?;
    for (at, len) in [(0, LEN), (100, 5), (1999, 2), (103, 2)] {
        let gap = put(&window, &vec![9; len], ahead, there + at as u64);
        refused(gap, ErrorClass::RmaRange, &["put", &format!("{len} bytes")])?;
    }
    put(&window, &[2; 104], ahead, there)?;
    put(&window, &[3; 5000], ahead, there + 2000)?;
    window.flush(ahead)?;
    job.world().barrier()?;
    attach(&window, base.wrapping_add(ENDS[2]), ENDS[3] - ENDS[2])?;
    job.world().barrier()?;
    put(&window, &[4; 30], ahead, there + 90)?;
    window.unlock_all()?;
    job.world().barrier()?;
    let mut wanted = vec![1; LEN];
    wanted[..104].fill(2);
    wanted[2000..7000].fill(3);
    wanted[90..120].fill(4);
    check!(read(base, LEN) == wanted);
    window.free()?;
    Ok(())
}
