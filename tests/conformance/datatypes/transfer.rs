//! Put and get: every byte arrives where a literal list says, and no other changes.

use std::time::{Duration, Instant};

use transom::raw::{Assert, Committed, Datatype, Layout, Window, get_address};
use transom::{BasicType, ErrorClass, Job, LockKind, Op, Result};

use super::maps::{ELEMENTS, Map, maps};
use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{ALIGNED, Exposed, MEMORIES, Memory, patterned};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["datatypes":
    every_layout_put_and_got @ [2],
    elements_of_every_size @ [2],
    more_pieces_than_a_batch_has @ [2],
    columns_beside_a_target_that_waits @ [2, 3],
    requests_of_layouts @ [2],
    an_origin_that_moves_on_after_its_request @ [2],
    halos_between_neighbours @ [1, 4],
    columns_become_rows @ [2, 3],
    layouts_of_nothing @ [1, 2],
    absolute_addresses_at_the_origin @ [2],
    layouts_in_a_dynamic_window @ [1, 2],
];

/// Memory that is never touched costs nothing, where the device does not pin it.
pub(crate) const SPARSE: &[Case] = cases!["datatypes":
    blocks_that_are_gigabytes_apart @ [2],
];

/// Memory of this rank in which a layout is placed, with guards round it.
pub(super) struct Near {
    pub(super) bytes: Vec<u8>,
    /// Where the layout is placed.
    pub(super) at: usize,
}

const GUARD: usize = 64;

impl Near {
    pub(super) fn new(map: &Map, size: usize, round: usize) -> Self {
        let (lo, hi) = map.span(size);
        let at = GUARD + (-lo).max(0) as usize;
        Self {
            bytes: patterned(7, (at as i64 + hi.max(0)) as usize + GUARD, round),
            at,
        }
    }

    pub(super) fn place(&mut self) -> *mut u8 {
        self.bytes[self.at..].as_mut_ptr()
    }
}

/// Moves elements of `size` bytes from one list of places to another.
pub(super) fn moved(
    (from, from_at, from_map): (&[u8], usize, &Map),
    (to, to_at, to_map): (&mut [u8], usize, &Map),
    ty: BasicType,
) {
    let at = |base: usize, place: i64| (base as i64 + place) as usize;
    for (&source, &destination) in from_map.places.iter().zip(&to_map.places) {
        // All that is no padding.
        let parts: &[(usize, usize)] = match ty {
            BasicType::ShortInt => &[(0, 2), (4, 4)],
            _ => &[(0, ty.size())],
        };
        for &(part, len) in parts {
            let (source, destination) = (at(from_at, source) + part, at(to_at, destination) + part);
            to[destination..destination + len].copy_from_slice(&from[source..source + len]);
        }
    }
}

pub(crate) fn put_layout(
    window: &Window,
    from: *const u8,
    near: Layout<'_>,
    target: u32,
    disp: u64,
    far: Layout<'_>,
) -> Result<()> {
    // SAFETY: every case completes the operation before its buffers go.
    unsafe { window.put_layout(from, near, target, disp, far) }
}

pub(crate) fn get_layout(
    window: &Window,
    to: *mut u8,
    near: Layout<'_>,
    target: u32,
    disp: u64,
    far: Layout<'_>,
) -> Result<()> {
    // SAFETY: every case completes the operation before its buffers go.
    unsafe { window.get_layout(to, near, target, disp, far) }
}

fn bytes_at(window: &Window, target: u32, len: usize) -> Result<Vec<u8>> {
    let mut all = vec![0; len];
    // SAFETY: a window of units of any size begins at displacement 0; the flush completes it.
    unsafe { window.get(all.as_mut_ptr(), len, target, 0)? };
    window.flush(target)?;
    Ok(all)
}

/// Rank 1 moves elements of a type between its own memory and that of both ranks.
fn moves(job: &Job, memory: Memory, ty: BasicType, step: usize) -> Outcome {
    let maps = maps(ty)?;
    let (extent, size) = (ty.extent(), ty.extent());
    let unit = extent as u64;
    // Everything fits in there, both ways from the middle.
    let (before, len) = (140 * extent, 640 * extent);
    let window = Exposed::open(job, memory, len, unit)?;
    window.write(0, &patterned(window.rank(), len, 3));
    job.world().barrier()?;
    let disp = (before / extent) as u64;
    if window.rank() == 1 {
        window.lock_all(Assert::NONE)?;
        let mut models = [0, 1].map(|rank| patterned(rank, len, 3));
        for (index, near) in maps.iter().enumerate() {
            for far in maps
                .iter()
                .cycle()
                .skip(index)
                .step_by(step)
                .take(maps.len() / step)
            {
                for target in [0, 1] {
                    let what = format!(
                        "{ty:?} {memory:?} {} to {} of {target}",
                        near.name, far.name
                    );
                    let model = &mut models[target as usize];
                    let mut here = Near::new(near, size, index + target as usize);
                    let untouched = here.bytes.clone();
                    let from = here.place();
                    put_layout(&window, from, near.layout(), target, disp, far.layout())?;
                    window.flush(target)?;
                    moved((&here.bytes, here.at, near), (model, before, far), ty);
                    check!(bytes_at(&window, target, len)? == *model, "put {what}");
                    check!(here.bytes == untouched, "the origin of put {what}");
                    let mut back = Near::new(near, size, index + 50);
                    let mut wanted = back.bytes.clone();
                    moved((model, before, far), (&mut wanted, back.at, near), ty);
                    let to = back.place();
                    get_layout(&window, to, near.layout(), target, disp, far.layout())?;
                    window.flush(target)?;
                    check!(back.bytes == wanted, "get {what}");
                }
            }
        }
        window.unlock_all()?;
    }
    window.close()
}

fn every_layout_put_and_got(job: &Job) -> Outcome {
    for memory in MEMORIES {
        moves(job, memory, BasicType::F64, 2)?;
    }
    Ok(())
}

fn elements_of_every_size(job: &Job) -> Outcome {
    for ty in [
        BasicType::U8,
        BasicType::I16,
        BasicType::F32,
        BasicType::ComplexF64,
        BasicType::ShortInt,
        BasicType::DoubleInt,
    ] {
        moves(job, Memory::Allocate, ty, 5)?;
    }
    moves(job, Memory::Odd, BasicType::I16, 5)
}

fn more_pieces_than_a_batch_has(job: &Job) -> Outcome {
    const BLOCKS: usize = 5000;
    for memory in [Memory::Allocate, Memory::Odd] {
        let window = Exposed::open(job, memory, BLOCKS * 8, 1)?;
        let column = Datatype::hvector(BLOCKS as i64, 3, 8, &BasicType::U8.into())?.commit();
        let bytes = Committed::of(BasicType::U8).times(3 * BLOCKS as u64);
        let target = (window.rank() + 1) % window.ranks();
        let data = patterned(window.rank(), 3 * BLOCKS, 1);
        window.fence(Assert::NONE)?;
        put_layout(&window, data.as_ptr(), bytes, target, 5, column.times(1))?;
        window.fence(Assert::NONE)?;
        let mut wanted = vec![0; BLOCKS * 8];
        let from = patterned(target, 3 * BLOCKS, 1);
        for (block, triple) in from.chunks(3).enumerate() {
            wanted[block * 8 + 5..][..3].copy_from_slice(triple);
        }
        check!(window.bytes() == wanted, "{memory:?}");
        // From strided to strided, and all in one go to the other end.
        let mut back = vec![0xee_u8; BLOCKS * 8 + 5];
        let to = back[5..].as_mut_ptr();
        get_layout(&window, to, column.times(1), target, 5, column.times(1))?;
        window.fence(Assert::NONE)?;
        for (block, triple) in data.chunks(3).enumerate() {
            let found = &back[block * 8 + 5..];
            check_eq!(found[..3], *triple, "block {block}");
            check!(
                block + 1 == BLOCKS || found[3..8] == [0xee; 5],
                "after {block}"
            );
        }
        window.close()?;
    }
    Ok(())
}

/// Origins write columns, which no second-level cache holds, for longer than anybody waits before he helps them.
fn columns_beside_a_target_that_waits(job: &Job) -> Outcome {
    const ROWS: usize = 1100;
    const WIDTH: usize = 512;
    let number = BasicType::U64;
    let column = Datatype::vector(ROWS as i64, 1, WIDTH as i64, &number.into())?.commit();
    let spaced = Datatype::vector(ROWS as i64, 1, 3, &number.into())?.commit();
    for memory in ALIGNED {
        let window = Exposed::open(job, memory, 8 * ROWS * WIDTH, 8)?;
        let (rank, ranks) = (window.rank(), window.ranks());
        job.world().barrier()?;
        let mut rounds = 0_u64;
        if rank != 0 {
            window.lock_all(Assert::NONE)?;
            let begun = Instant::now();
            while rounds < 60 || begun.elapsed() < Duration::from_millis(20) {
                let sent = patterned(rank, 3 * 8 * ROWS, rounds as usize);
                let (from, disp) = (sent.as_ptr(), rank.into());
                put_layout(&window, from, spaced.times(1), 0, disp, column.times(1))?;
                window.flush(0)?;
                rounds += 1;
            }
            window.unlock_all()?;
        }
        let rounds = job.world().allgather(&[rounds])?;
        if rank == 0 {
            let mut model = vec![0; 8 * ROWS * WIDTH];
            for origin in 1..ranks {
                let round = rounds[origin as usize] as usize - 1;
                let sent = patterned(origin, 3 * 8 * ROWS, round);
                for row in 0..ROWS {
                    let there = 8 * (row * WIDTH + origin as usize);
                    model[there..there + 8].copy_from_slice(&sent[3 * 8 * row..][..8]);
                }
            }
            check!(window.bytes() == model, "{memory:?}");
        }
        window.close()?;
    }
    Ok(())
}

fn requests_of_layouts(job: &Job) -> Outcome {
    let maps = maps(BasicType::I32)?;
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 3000, 4)?;
        let target = (window.rank() + 1) % window.ranks();
        window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        for (near, far) in [
            (&maps[1], &maps[6]),
            (&maps[7], &maps[0]),
            (&maps[0], &maps[9]),
        ] {
            let mut here = Near::new(near, 4, 9);
            let wanted = here.bytes.clone();
            let from = here.place();
            // SAFETY: the buffers are untouched until the requests are complete.
            unsafe {
                window
                    .rput_layout(from, near.layout(), target, 100, far.layout())?
                    .wait()?;
            }
            window.flush(target)?;
            let mut back = Near::new(near, 4, 10);
            let mut expected = back.bytes.clone();
            moved(
                (&wanted, here.at, near),
                (&mut expected, back.at, near),
                BasicType::I32,
            );
            let to = back.place();
            // SAFETY: as above.
            let mut request =
                unsafe { window.rget_layout(to, near.layout(), target, 100, far.layout())? };
            while !request.test()? {
                std::thread::yield_now();
            }
            check!(
                back.bytes == expected,
                "{memory:?}: {} and {}",
                near.name,
                far.name
            );
        }
        window.unlock(target)?;
        job.world().barrier()?;
        window.close()?;
    }
    Ok(())
}

fn an_origin_that_moves_on_after_its_request(job: &Job) -> Outcome {
    const BLOCKS: i64 = 300;
    let window = Exposed::open(job, Memory::Allocate, 16 * BLOCKS as usize * 20, 16)?;
    let target = (window.rank() + 1) % window.ranks();
    let column = Datatype::vector(BLOCKS, 1, 20, &BasicType::LongDouble.into())?.commit();
    let dense = Committed::of(BasicType::LongDouble).times(BLOCKS as u64);
    let mut buffer = vec![0; 16 * BLOCKS as usize];
    window.lock_all(Assert::NONE)?;
    for round in 0..20 {
        buffer = patterned(window.rank(), 16 * BLOCKS as usize, round);
        let (from, disp) = (buffer.as_ptr(), round as u64);
        // SAFETY: the buffer is untouched until the request is complete.
        unsafe { window.rput_layout(from, dense, target, disp, column.times(1))? }.wait()?;
        buffer.fill(0xff);
    }
    window.unlock_all()?;
    job.world().barrier()?;
    for round in 0..20 {
        let wanted = patterned(target, 16 * BLOCKS as usize, round);
        for (block, element) in wanted.chunks(16).enumerate() {
            let found = window.read((block * 20 + round) * 16, 16);
            check_eq!(found, element, "round {round}, block {block}");
        }
    }
    window.close()
}

/// A grid of ranks in a ring of both directions; rows are contiguous, columns are strided.
fn halos_between_neighbours(job: &Job) -> Outcome {
    const SIDE: usize = 12;
    const WIDE: usize = SIDE + 2;
    let (me, ranks) = (job.world().rank(), job.world().size());
    let across = if ranks == 4 { 2 } else { 1 };
    let down = ranks / across;
    let (x, y) = (me % across, me / across);
    let rank_at = |x: u32, y: u32| y % down * across + x % across;
    let value =
        |rank: u32, row: usize, column: usize| f64::from(rank) * 1e6 + (row * 1000 + column) as f64;
    let old = BasicType::F64.into();
    let row = Datatype::contiguous(SIDE as i64, &old)?.commit();
    let column = Datatype::vector(SIDE as i64, 1, WIDE as i64, &old)?.commit();
    for memory in ALIGNED {
        let window = Exposed::open(job, memory, 8 * WIDE * WIDE, 8)?;
        let place = |row: usize, column: usize| row * WIDE + column;
        for (r, c) in (1..=SIDE).flat_map(|r| (1..=SIDE).map(move |c| (r, c))) {
            window.write(8 * place(r, c), &value(me, r, c).to_ne_bytes());
        }
        window.fence(Assert::NONE)?;
        let own = |row: usize, column: usize| window.base().wrapping_add(8 * place(row, column));
        let up = rank_at(x, y + down - 1);
        let below = rank_at(x, y + 1);
        let left = rank_at(x + across - 1, y);
        let right = rank_at(x + 1, y);
        for (ty, from, target, to) in [
            (&row, own(1, 1), up, place(SIDE + 1, 1)),
            (&row, own(SIDE, 1), below, place(0, 1)),
            (&column, own(1, 1), left, place(1, SIDE + 1)),
            (&column, own(1, SIDE), right, place(1, 0)),
        ] {
            put_layout(&window, from, ty.times(1), target, to as u64, ty.times(1))?;
        }
        window.fence(Assert::NONE)?;
        let found = |row, column| f64::from_bits(window.read_u64(8 * place(row, column)));
        for i in 1..=SIDE {
            check_eq!(found(0, i), value(up, SIDE, i));
            check_eq!(found(SIDE + 1, i), value(below, 1, i));
            check_eq!(found(i, 0), value(left, i, SIDE));
            check_eq!(found(i, SIDE + 1), value(right, i, 1));
            for column in 1..=SIDE {
                check_eq!(found(i, column), value(me, i, column));
            }
        }
        for corner in [(0, 0), (0, SIDE + 1), (SIDE + 1, 0), (SIDE + 1, SIDE + 1)] {
            check_eq!(found(corner.0, corner.1), 0.0);
        }
        window.close()?;
    }
    Ok(())
}

/// Every rank puts the transpose of its matrix to the next: the target's type is a column inside
/// an hvector.
fn columns_become_rows(job: &Job) -> Outcome {
    const N: usize = 37;
    let column = Datatype::vector(N as i64, 1, N as i64, &BasicType::I32.into())?;
    let transposed = Datatype::hvector(N as i64, 1, 4, &column)?.commit();
    let dense = Committed::of(BasicType::I32).times((N * N) as u64);
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 4 * N * N, 4)?;
        let target = (window.rank() + 1) % window.ranks();
        let source = (window.rank() + window.ranks() - 1) % window.ranks();
        let matrix = |rank: u32| -> Vec<i32> {
            (0..N * N)
                .map(|i| i as i32 + 100_000 * rank as i32)
                .collect()
        };
        let mine = matrix(window.rank());
        window.fence(Assert::NONE)?;
        put_layout(
            &window,
            mine.as_ptr().cast(),
            dense,
            target,
            0,
            transposed.times(1),
        )?;
        window.fence(Assert::NONE)?;
        let theirs = matrix(source);
        let wanted: Vec<u8> = (0..N * N)
            .flat_map(|i| theirs[i % N * N + i / N].to_ne_bytes())
            .collect();
        check!(window.bytes() == wanted, "{memory:?}");
        // Transposed twice, it is what it was.
        let mut back = vec![0_i32; N * N];
        let to = back.as_mut_ptr().cast();
        get_layout(&window, to, dense, target, 0, transposed.times(1))?;
        window.fence(Assert::NONE)?;
        check!(back == mine, "{memory:?}");
        window.close()?;
    }
    Ok(())
}

fn layouts_of_nothing(job: &Job) -> Outcome {
    let old = BasicType::F64.into();
    let nothing = Datatype::contiguous(0, &old)?;
    let marked = Datatype::resized(&nothing, -8, 1 << 40)?.commit();
    let holes = Datatype::vector(1 << 40, 0, 1 << 20, &old)?.commit();
    let f64s = old.commit();
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 64, 8)?;
        let target = window.ranks() - 1;
        window.fence(Assert::NONE)?;
        let null = std::ptr::null_mut();
        for near in [
            f64s.times(0),
            marked.times(1),
            marked.times(1 << 50),
            holes.times(7),
        ] {
            for far in [holes.times(1 << 40), f64s.times(0), marked.times(9)] {
                for disp in [0, 8] {
                    put_layout(&window, null, near, target, disp, far)?;
                    get_layout(&window, null, near, target, disp, far)?;
                }
            }
        }
        window.fence(Assert::NONE)?;
        check_eq!(window.bytes(), vec![0; 64]);
        window.close()?;
    }
    Ok(())
}

fn absolute_addresses_at_the_origin(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 48, 8)?;
    let target = (window.rank() + 1) % window.ranks();
    let (a, b) = ([1_u64, 2], [3_u64, 4, 5, 6]);
    let places = [b.as_ptr().addr() as i64, a.as_ptr().addr() as i64];
    let both = Datatype::hindexed(&[4, 2], &places, &BasicType::U64.into())?.commit();
    let far = Committed::of(BasicType::U64).times(6);
    window.fence(Assert::NONE)?;
    put_layout(&window, std::ptr::null(), both.times(1), target, 0, far)?;
    window.fence(Assert::NONE)?;
    let found: Vec<u64> = (0..6).map(|i| window.read_u64(8 * i)).collect();
    check_eq!(found, [3, 4, 5, 6, 1, 2]);
    let (mut c, mut d) = ([0_u64; 2], [0_u64; 4]);
    let places = [&mut d[..], &mut c[..]].map(|old| old.as_mut_ptr().expose_provenance() as i64);
    let old = Datatype::hindexed(&[4, 2], &places, &BasicType::U64.into())?.commit();
    let (from, to) = (std::ptr::null(), std::ptr::null_mut());
    let (near, old) = (both.times(1), old.times(1));
    // The other rank has read its memory.
    window.fence(Assert::NONE)?;
    // SAFETY: the fence completes the operation.
    unsafe { window.get_accumulate_layout(from, near, to, old, target, 0, far, Op::Sum)? };
    window.fence(Assert::NONE)?;
    check_eq!((d, c), ([3, 4, 5, 6], [1, 2]));
    let found: Vec<u64> = (0..6).map(|i| window.read_u64(8 * i)).collect();
    check_eq!(found, [6, 8, 10, 12, 2, 4]);
    window.close()
}

fn layouts_in_a_dynamic_window(job: &Job) -> Outcome {
    const LEN: usize = 8 * 100;
    let window = Window::create_dynamic(job.world(), &transom::Info::new())?;
    let target = (window.rank() + 1) % window.ranks();
    // Two regions, side by side.
    let mut memory = vec![0_u64; 2 * LEN / 8];
    let base = memory.as_mut_ptr().cast::<u8>();
    for region in [base, base.wrapping_add(LEN)] {
        // SAFETY: detached before the memory goes, and touched through raw pointers till then.
        unsafe { window.attach(region, LEN)? };
    }
    let addresses = job.world().allgather(&[get_address(base)])?;
    let there = addresses[target as usize];
    let old = Datatype::from(BasicType::F64);
    let backwards = Datatype::hvector(30, 1, -24, &old)?.commit();
    let (near, far) = (Committed::of(BasicType::F64).times(30), backwards.times(1));
    let values: Vec<f64> = (1..=30).map(f64::from).collect();
    let mut fetched = [0_f64; 30];
    window.lock_all(Assert::NONE)?;
    // The last element begins the region, and the first ends it.
    let disp = there + 8 * 90;
    put_layout(&window, values.as_ptr().cast(), near, target, disp, far)?;
    window.flush(target)?;
    let (from, to) = (values.as_ptr().cast(), fetched.as_mut_ptr().cast());
    // SAFETY: the flush completes the operation.
    unsafe {
        window.get_accumulate_layout(from, near, to, near, target, disp, far, Op::Sum)?;
    }
    window.flush(target)?;
    check_eq!(fetched[..], values[..]);
    // One element is behind the second region, or some are before the first.
    for disp in [there + 2 * LEN as u64, there + 8 * 60, 8] {
        let from = values.as_ptr().cast();
        let put = put_layout(&window, from, near, target, disp, far);
        refused(put, ErrorClass::RmaRange, &["put", "attached"])?;
        // SAFETY: it is refused.
        let sum = unsafe { window.accumulate_layout(from, near, target, disp, far, Op::Sum) };
        refused(sum, ErrorClass::RmaRange, &["accumulate", "attached"])?;
    }
    window.unlock_all()?;
    job.world().barrier()?;
    for element in 0..2 * LEN / 8 {
        let sum = if element % 3 == 0 && (3..=90).contains(&element) {
            2 * (31 - element / 3)
        } else {
            0
        };
        // SAFETY: inside the memory, to which nobody writes now.
        let found = unsafe { base.cast::<f64>().add(element).read() };
        check_eq!(found, sum as f64, "element {element}");
    }
    job.world().barrier()?;
    window.detach(base)?;
    window.detach(base.wrapping_add(LEN))?;
    window.free()?;
    drop(memory);
    Ok(())
}

fn blocks_that_are_gigabytes_apart(job: &Job) -> Outcome {
    const APART: i64 = 5 << 30;
    let window = Window::allocate(job.world(), 3 * APART as usize, 1, &transom::Info::new())?;
    let target = (window.rank() + 1) % window.ranks();
    let sparse = Datatype::hvector(3, 100, APART, &BasicType::U8.into())?.commit();
    let bytes = Committed::of(BasicType::U8).times(300);
    let data = patterned(window.rank(), 300, 4);
    window.fence(Assert::NONE)?;
    let disp = (APART - 100) as u64;
    put_layout(&window, data.as_ptr(), bytes, target, disp, sparse.times(1))?;
    window.fence(Assert::NONE)?;
    let wanted = patterned(target, 300, 4);
    for (block, part) in wanted.chunks(100).enumerate() {
        let at = window
            .base()
            .wrapping_add((block + 1) * APART as usize - 100);
        // SAFETY: inside this rank's memory, to which nobody writes now.
        let found = unsafe { std::slice::from_raw_parts(at, 100) };
        check_eq!(*found, *part, "block {block}");
    }
    let mut back = vec![0; 300];
    get_layout(
        &window,
        back.as_mut_ptr(),
        bytes,
        target,
        disp,
        sparse.times(1),
    )?;
    window.fence(Assert::NONE)?;
    check!(back == data);
    window.free()?;
    Ok(())
}

const _: () = assert!(ELEMENTS == 60, "the literal lists have as many");
