//! Origin buffers that are longer than a device copies, in memory of the program.

use std::io;
use std::ptr::NonNull;
use std::thread;

use transom::raw::{Assert, Committed, Datatype, Window};
use transom::{BasicType, Job, Op};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::datatypes::registered::requests;
use crate::datatypes::transfer::{get_layout, put_layout};
use crate::exposed::{Exposed, MEMORIES, Memory, patterned};
use crate::ops::{fetch_and_op, get, put_from as put};

pub(crate) const CASES: &[Case] = cases!["long_origins":
    of_every_length @ [1, 2],
    many_operations_on_one_buffer @ [2],
    other_pages_at_the_same_address @ [2],
    long_rows @ [2],
    threads_share_a_connection @ [2],
    registered_by_the_program @ [2],
];

const MIB: usize = 1 << 20;

fn other(window: &Window) -> u32 {
    (window.rank() + 1) % window.ranks()
}

/// New pages, at a new address or in place of this process's mapping at `at`, to which there is no reference.
fn map(at: *mut libc::c_void, len: usize) -> Result<*mut libc::c_void, Failure> {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new place, or in place of our own mapping, to which there is no reference.
    let base = unsafe { libc::mmap(at, len, rights, flags, -1, 0) };
    match base == libc::MAP_FAILED {
        true => Err(Failure::new(io::Error::last_os_error())),
        false => Ok(base),
    }
}

/// Around the lengths up to which data is copied and registered at once, from odd addresses.
fn of_every_length(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 9 * MIB + 100, 1)?;
        let (me, target) = (window.rank(), other(&window));
        window.lock_all(Assert::NONE)?;
        for (round, len) in [MIB, MIB + 1, 4 * MIB - 7, 5 * MIB, 9 * MIB + 1]
            .into_iter()
            .enumerate()
        {
            let bytes = patterned(me, len + round, round);
            put(&window, &bytes[round..], target, 5)?;
            window.flush(target)?;
            let mut back = vec![0; len + 1];
            get(&window, &mut back[1..], target, 5)?;
            window.flush(target)?;
            check!(back[1..] == bytes[round..], "{memory:?}: {len} bytes");
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

/// All of it, all of it again, and parts, before any operation is known to be complete.
fn many_operations_on_one_buffer(job: &Job) -> Outcome {
    const LEN: usize = 5 * MIB + 3;
    let window = Exposed::open(job, Memory::Heap, 3 * LEN, 1)?;
    let (me, target) = (window.rank(), other(&window));
    window.lock_all(Assert::NONE)?;
    for round in 0..4 {
        let bytes = patterned(me, LEN, round);
        put(&window, &bytes, target, 0)?;
        put(&window, &bytes, target, LEN as u64)?;
        put(
            &window,
            &bytes[MIB + 7..3 * MIB + 9],
            target,
            2 * LEN as u64,
        )?;
        put(&window, &bytes[..1000], target, (2 * LEN + 4 * MIB) as u64)?;
        window.flush(target)?;
        let mut back = [
            vec![0; LEN],
            vec![0; LEN],
            vec![0; 2 * MIB + 2],
            vec![0; 1000],
        ];
        let places = [0, LEN, 2 * LEN, 2 * LEN + 4 * MIB];
        for (back, place) in back.iter_mut().zip(places) {
            get(&window, back, target, place as u64)?;
        }
        window.flush(target)?;
        let [first, second, part, short] = back;
        check!(first == bytes && second == bytes, "round {round}");
        check!(part == bytes[MIB + 7..3 * MIB + 9], "round {round}");
        check!(short == bytes[..1000], "round {round}");
    }
    window.unlock_all()?;
    window.close()
}

/// What was registered there before is not what is transferred.
fn other_pages_at_the_same_address(job: &Job) -> Outcome {
    const LEN: usize = 5 * MIB;
    let window = Exposed::open(job, Memory::Heap, LEN, 1)?;
    let (me, target) = (window.rank(), other(&window));
    let base = map(std::ptr::null_mut(), LEN)?;
    window.lock_all(Assert::NONE)?;
    for round in 0..4 {
        map(base, LEN)?;
        // SAFETY: the mapping, to which there is no other reference in this round.
        let bytes = unsafe { std::slice::from_raw_parts_mut(base.cast::<u8>(), LEN) };
        let wanted = patterned(me, LEN, round);
        if round % 2 == 0 {
            bytes.copy_from_slice(&wanted);
            put(&window, bytes, target, 0)?;
            window.flush(target)?;
        } else {
            get(&window, bytes, target, 0)?;
            window.flush(target)?;
            check!(
                *bytes == patterned(me, LEN, round - 1),
                "got in round {round}"
            );
        }
        let mut back = vec![0; LEN];
        get(&window, &mut back, target, 0)?;
        window.flush(target)?;
        check!(
            back == patterned(me, LEN, round - round % 2),
            "round {round}"
        );
    }
    window.unlock_all()?;
    // SAFETY: our own mapping, which nothing uses any more.
    unsafe { libc::munmap(base, LEN) };
    window.close()
}

/// Rows in memory of the program: some are registered, some are copied in several pieces.
fn long_rows(job: &Job) -> Outcome {
    const ROWS: usize = 3;
    for len in [100_000, 300_007, MIB + 70_001] {
        let window = Exposed::open(job, Memory::Heap, ROWS * len, 1)?;
        let (me, target) = (window.rank(), other(&window));
        let stride = len + 4999;
        let old = BasicType::U8.into();
        let rows = Datatype::hvector(ROWS as i64, len as i64, stride as i64, &old)?.commit();
        let dense = Committed::of(BasicType::U8).times((ROWS * len) as u64);
        let bytes = patterned(me, ROWS * stride, 1);
        let mut back = vec![0xee_u8; ROWS * stride];
        window.lock_all(Assert::NONE)?;
        put_layout(&window, bytes.as_ptr(), rows.times(1), target, 0, dense)?;
        window.flush(target)?;
        get_layout(&window, back.as_mut_ptr(), rows.times(1), target, 0, dense)?;
        window.flush(target)?;
        window.unlock_all()?;
        for (row, (back, bytes)) in back.chunks(stride).zip(bytes.chunks(stride)).enumerate() {
            check!(back[..len] == bytes[..len], "row {row} of {len} bytes");
            check!(
                back[len..].iter().all(|&byte| byte == 0xee),
                "behind row {row}"
            );
        }
        window.close()?;
    }
    Ok(())
}

/// Long puts and gets of some threads, some of the same buffer, and words of others.
fn threads_share_a_connection(job: &Job) -> Outcome {
    const LEN: usize = 5 * MIB + 5;
    const ROUNDS: usize = 6;
    let exposed = Exposed::open(job, Memory::Heap, 4 * LEN + 64, 1)?;
    let window: &Window = &exposed;
    let (me, target) = (window.rank(), other(window));
    let shared = patterned(me, LEN, 99);
    let counter = (4 * LEN).next_multiple_of(8);
    window.lock_all(Assert::NONE)?;
    let long = |number: usize| -> Outcome {
        let place = (number * LEN) as u64;
        for round in 0..ROUNDS {
            let own = patterned(me, LEN, round * 4 + number);
            let bytes = if number < 2 { &shared } else { &own };
            put(window, bytes, target, place)?;
            window.flush(target)?;
            let mut back = vec![0; LEN];
            get(window, &mut back, target, place)?;
            window.flush(target)?;
            check!(back == *bytes, "thread {number}, round {round}");
        }
        Ok(())
    };
    let short = || -> Outcome {
        for round in 0..200 {
            let before = fetch_and_op(window, 1_u64, target, counter as u64, Op::Sum)?;
            check_eq!(before, round, "the counter");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let mut threads: Vec<_> = (0..4)
            .map(|number| scope.spawn(move || long(number)))
            .collect();
        threads.push(scope.spawn(short));
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::new("a thread panicked")),
        });
        ended.fold(Ok(()), Outcome::and)
    })?;
    window.unlock_all()?;
    exposed.close()
}

/// Requests of a put and of a get from and to memory that is registered, and to other pages there afterwards.
fn registered_by_the_program(job: &Job) -> Outcome {
    const LEN: usize = 600_000;
    let window = Exposed::open(job, Memory::Heap, LEN, 1)?;
    let (me, target) = (window.rank(), other(&window));
    let base = NonNull::new(map(std::ptr::null_mut(), LEN)?.cast::<u8>()).expect("an address");
    // SAFETY: our mapping, to which no other reference exists while this one does.
    let bytes = || unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), LEN) };
    window.lock_all(Assert::NONE)?;
    put(&window, &[0], target, 0)?;
    window.flush(target)?;
    for round in 0..2 {
        bytes().copy_from_slice(&patterned(me, LEN, round));
        // SAFETY: the mapping is replaced only after the registration.
        let registration = unsafe { job.register_mem(base, LEN, true)? };
        let before = requests(job);
        put(&window, bytes(), target, 0)?;
        window.flush(target)?;
        get(&window, bytes(), target, 0)?;
        window.flush(target)?;
        let taken = requests(job).zip(before).map(|(now, then)| now - then);
        check!(*bytes() == patterned(me, LEN, round), "round {round}");
        // Each, and perhaps one to ask how far it is. Copies would take ten.
        if let Some(taken) = taken {
            check!((2..=4).contains(&taken), "{taken} requests");
        }
        drop(registration);
        map(base.as_ptr().cast(), LEN)?;
    }
    window.unlock_all()?;
    // SAFETY: our own mapping, which nothing uses any more.
    unsafe { libc::munmap(base.as_ptr().cast(), LEN) };
    window.close()
}
