//! A forked child is no rank: every call says so, and nothing that it tries reaches the job.

use std::time::Duration;

use transom::raw::{Assert, Committed, ErrorHandler, Window, get_address};
use transom::{BasicType, Group, Info, Job, LockKind, Op, Result};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::ops::{get, put};
use crate::refused::each_operation;

pub(crate) const CASES: &[Case] = cases!["forked":
    a_forked_child_is_no_rank @ [2],
    every_call_in_every_epoch @ [1, 2],
    shared_windows @ [2],
    dynamic_windows @ [2],
    windows_are_not_freed @ [2],
    requests_are_their_parents @ [2],
    a_child_ends_no_job @ [2],
    a_child_drops_what_it_inherited @ [2],
    what_others_say_of_their_parts @ [2],
];

type Call = (&'static str, Result<()>);

/// How a child ends that runs `body`.
fn status_of_child(body: impl FnOnce() -> i32) -> std::result::Result<i32, crate::case::Failure> {
    // SAFETY: this process has one thread, or those of the library besides, which hold no lock that
    // the child takes: the allocator's are taken by `fork` itself.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = body();
        // SAFETY: ends the child at once, without the rank's destructors.
        unsafe { libc::_exit(code) };
    }
    check!(child > 0, "fork");
    let mut status = 0;
    // SAFETY: waits for our own child.
    check!(unsafe { libc::waitpid(child, &raw mut status, 0) } == child);
    Ok(status)
}

/// Makes calls in a child, all of which have to fail because it is one.
#[track_caller]
fn refused_in_child(what: &str, calls: impl FnOnce() -> Vec<Call>) -> Outcome {
    let status = status_of_child(|| {
        let mut let_in = 0;
        for (name, result) in calls() {
            match result {
                Err(error) if error.to_string().contains("forked") => {}
                other => {
                    let_in += 1;
                    eprintln!("{what}: {name} in a child: {other:?}");
                }
            }
        }
        let_in
    })?;
    check_eq!(status, 0, "{what}: the child's status");
    Ok(())
}

/// Where it differs, it has to be asked for.
fn what_others_say_of_their_parts(job: &Job) -> Outcome {
    let rank = job.world().rank();
    let (size, unit) = (64 * (1 + rank as usize), 1 + u64::from(rank));
    let window = Window::allocate(job.world(), size, unit, &Info::new())?;
    let other = 1 - rank;
    refused_in_child("parts that differ", || {
        vec![
            ("size_of", window.size_of(other).map(drop)),
            ("disp_unit_of", window.disp_unit_of(other).map(drop)),
        ]
    })?;
    check_eq!(window.size_of(other)?, 64 * (1 + u64::from(other)));
    check_eq!(window.disp_unit_of(other)?, 1 + u64::from(other));
    Ok(window.free()?)
}

fn synchronisations(window: &Window, group: &Group) -> Vec<Call> {
    let last = window.ranks() - 1;
    vec![
        ("fence", window.fence(Assert::NONE)),
        ("fence at the end", window.fence(Assert::NO_SUCCEED)),
        ("lock", window.lock(LockKind::Shared, last, Assert::NONE)),
        ("unlock", window.unlock(last)),
        ("lock_all", window.lock_all(Assert::NONE)),
        ("unlock_all", window.unlock_all()),
        ("flush", window.flush(last)),
        ("flush_local", window.flush_local(last)),
        ("flush_all", window.flush_all()),
        ("flush_local_all", window.flush_local_all()),
        ("sync", window.sync()),
        ("post", window.post(group, Assert::NONE)),
        ("start", window.start(group, Assert::NONE)),
        ("complete", window.complete()),
        ("wait", window.wait()),
        ("test", window.test().map(drop)),
        ("notifications", window.notifications(0).map(drop)),
        ("wait_notify", window.wait_notify(0, 0)),
        ("test_notify", window.test_notify(0, 1).map(drop)),
    ]
}

fn operations(window: &Window, disp: impl Fn(u32) -> u64) -> Vec<Call> {
    let mut calls = Vec::new();
    let words = Vec::leak(vec![1_u64; 2]);
    let (from, to) = (words.as_ptr().cast::<u8>(), words[1..].as_mut_ptr().cast());
    let double = Committed::of(BasicType::F64);
    for rank in 0..window.ranks() {
        let at = disp(rank);
        calls.extend(each_operation(window, rank, at));
        // SAFETY: the words are never freed.
        let more = unsafe {
            [
                ("put_notify", window.put_notify(from, 8, rank, at, 0)),
                (
                    "accumulate of floats",
                    window.accumulate(from, 1, BasicType::F64, rank, at, Op::Sum),
                ),
                (
                    "get_accumulate",
                    window.get_accumulate(from, to, 1, BasicType::I64, rank, at, Op::Max),
                ),
                (
                    "put_layout",
                    window.put_layout(from, double.times(1), rank, at, double.times(1)),
                ),
                (
                    "accumulate_layout",
                    window.accumulate_layout(
                        from,
                        double.times(1),
                        rank,
                        at,
                        double.times(1),
                        Op::Prod,
                    ),
                ),
            ]
        };
        calls.extend(more);
    }
    calls
}

fn a_forked_child_is_no_rank(job: &Job) -> Outcome {
    // Before the first contact with the other rank.
    refused_in_child("collectives", || {
        vec![
            ("alone", job.alone().map(drop)),
            ("barrier", job.world().barrier()),
            (
                "allocate",
                Window::allocate(job.world(), 8, 1, &Info::new()).map(drop),
            ),
            ("alloc_mem", job.alloc_mem(8, &Info::new()).map(drop)),
            ("alloc", job.alloc::<u64>(8).map(drop)),
            ("register", job.register(vec![0_u64; 8]).map(drop)),
        ]
    })?;
    words_are_exchanged(job)
}

/// The job of the parents is as it was.
fn words_are_exchanged(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 8, 1)?;
        window.fence(Assert::NONE)?;
        put(&window, &[7; 8], 1 - window.rank(), 0)?;
        window.fence(Assert::NO_SUCCEED)?;
        check_eq!(window.read(0, 8), [7; 8], "{memory:?}");
        window.close()?;
    }
    Ok(())
}

fn a_child_drops_what_it_inherited(job: &Job) -> Outcome {
    let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
    let other = 1 - window.rank();
    window.fence(Assert::NONE)?;
    put(&window, &[3; 8], other, 0)?;
    window.fence(Assert::NO_SUCCEED)?;
    let mut inherited = Some((window, job.alloc::<u8>(100)?, job.world().dup()?));
    let status = status_of_child(|| {
        drop(inherited.take());
        // SAFETY: the child ends without using the original.
        drop(unsafe { std::ptr::read(job) });
        0
    })?;
    check_eq!(status, 0);
    let Some((window, buffer, world)) = inherited else {
        unreachable!("taken in the child only");
    };
    world.barrier()?;
    window.fence(Assert::NONE)?;
    put(&window, &buffer[..8], other, 0)?;
    window.fence(Assert::NO_SUCCEED)?;
    // SAFETY: nobody writes there now.
    check_eq!(unsafe { window.base().read_volatile() }, 0);
    window.free()?;
    drop(buffer);
    words_are_exchanged(job)
}

struct Epoch {
    name: &'static str,
    open: fn(&Window, &Group) -> Result<()>,
    close: fn(&Window) -> Result<()>,
    /// Whether what was put is there when the target has closed it.
    closes_together: bool,
}

const EPOCHS: [Epoch; 5] = [
    Epoch {
        name: "fence",
        open: |window, _| window.fence(Assert::NONE),
        close: |window| window.fence(Assert::NO_SUCCEED),
        closes_together: true,
    },
    Epoch {
        name: "lock",
        open: |window, _| window.lock(LockKind::Shared, window.ranks() - 1, Assert::NONE),
        close: |window| window.unlock(window.ranks() - 1),
        closes_together: false,
    },
    Epoch {
        name: "lock_all",
        open: |window, _| window.lock_all(Assert::NONE),
        close: Window::unlock_all,
        closes_together: false,
    },
    Epoch {
        name: "unchecked lock_all",
        open: |window, _| window.lock_all(Assert::NO_CHECK),
        close: Window::unlock_all,
        closes_together: false,
    },
    Epoch {
        name: "post and start",
        open: |window, group| {
            window.post(group, Assert::NONE)?;
            window.start(group, Assert::NONE)
        },
        close: |window| {
            window.complete()?;
            window.wait()
        },
        closes_together: true,
    },
];

fn every_call_in_every_epoch(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 8)?;
        in_every_epoch(job, &window, &format!("{memory:?}"))?;
        window.close()?;
    }
    Ok(())
}

fn shared_windows(job: &Job) -> Outcome {
    let host = job.world().split_shared(0)?;
    let window = Window::allocate_shared(&host, 64, 8, &Info::new())?;
    in_every_epoch(job, &window, "shared")?;
    refused_in_child("shared", || {
        let other = 1 - window.rank();
        vec![("shared_query", window.shared_query(Some(other)).map(drop))]
    })?;
    window.free()?;
    Ok(())
}

/// Nothing that a child does is seen, or ends an epoch before its parent does.
fn in_every_epoch(job: &Job, window: &Window, what: &str) -> Outcome {
    let (me, last) = (window.rank(), window.ranks() - 1);
    let word = |at: usize| {
        let word = window.base().cast::<u64>().wrapping_add(at);
        // SAFETY: in this rank's part, where nobody writes now.
        unsafe { word.read_unaligned() }
    };
    let all = job.world().group();
    refused_in_child("no epoch", || {
        let mut calls = synchronisations(window, all);
        calls.extend(operations(window, |_| 0));
        calls
    })?;
    for (round, epoch) in (1_u64..).zip(&EPOCHS) {
        (epoch.open)(window, all)?;
        // The operations of the child find targets that are entered.
        get(window, Vec::leak(vec![0; 8]), last, 0)?;
        if epoch.name != "lock" {
            get(window, Vec::leak(vec![0; 8]), me, 0)?;
        }
        refused_in_child(&format!("{what}, {}", epoch.name), || {
            let mut calls = operations(window, |_| 0);
            calls.extend(synchronisations(window, all));
            calls
        })?;
        if me == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        put(window, &round.to_ne_bytes(), last, 1 + u64::from(me))?;
        (epoch.close)(window)?;
        if !epoch.closes_together {
            job.world().barrier()?;
        }
        if me == last {
            for rank in 0..=last as usize {
                check_eq!(word(1 + rank), round, "{what}, {}", epoch.name);
            }
        }
        check_eq!(word(0), 0, "{what}, {}", epoch.name);
        check_eq!(window.notifications(0)?, 0, "{what}, {}", epoch.name);
        job.world().barrier()?;
    }
    Ok(())
}

fn dynamic_windows(job: &Job) -> Outcome {
    let world = job.world();
    let window = Window::create_dynamic(world, &Info::new())?;
    let words = Vec::leak(vec![0_u64; 16]);
    let base = words.as_mut_ptr().cast::<u8>();
    // SAFETY: never freed, and only used by atomics and transfers until the window is freed.
    unsafe { window.attach(base, 64)? };
    let bases = world.allgather(&[get_address(base)])?;
    window.lock_all(Assert::NONE)?;
    for (rank, &at) in (0..).zip(&bases) {
        get(&window, Vec::leak(vec![0; 8]), rank, at)?;
    }
    refused_in_child("dynamic", || {
        let mut calls = operations(&window, |rank| bases[rank as usize]);
        // SAFETY: refused.
        let attached = unsafe { window.attach(base.wrapping_add(64), 64) };
        calls.push(("attach", attached));
        calls.push(("detach", window.detach(base)));
        calls
    })?;
    world.barrier()?;
    let other = 1 - world.rank();
    put(&window, &[7; 8], other, bases[other as usize])?;
    window.unlock_all()?;
    world.barrier()?;
    // SAFETY: nobody writes there now.
    let found = unsafe { [0, 1].map(|at| base.cast::<u64>().add(at).read_volatile()) };
    check_eq!(found, [0x0707_0707_0707_0707, 0]);
    window.detach(base)?;
    window.free()?;
    Ok(())
}

fn windows_are_not_freed(job: &Job) -> Outcome {
    for leaked in [false, true] {
        let window = Window::allocate(job.world(), 64, 8, &Info::new())?;
        let mut window = Some(window);
        refused_in_child("free", || {
            let freed = window.take().map_or(Ok(()), |window| match leaked {
                true => window.free(),
                false => window.try_free().map_err(|(window, error)| {
                    std::mem::forget(window);
                    error
                }),
            });
            vec![("free", freed)]
        })?;
        let Some(window) = window else {
            unreachable!("taken in the child only");
        };
        window.fence(Assert::NONE)?;
        put(&window, &[7; 8], 1 - window.rank(), 0)?;
        window.fence(Assert::NO_SUCCEED)?;
        // SAFETY: nobody writes there now.
        check_eq!(unsafe { window.base().read_volatile() }, 7);
        window.free()?;
    }
    Ok(())
}

/// One that is complete is so in the child, too.
fn requests_are_their_parents(job: &Job) -> Outcome {
    const LEN: usize = 1 << 20;
    let window = Exposed::open(job, Memory::Heap, LEN, 1)?;
    let mut found = vec![9; LEN];
    window.lock_all(Assert::NONE)?;
    // SAFETY: `found` outlives the request, which is waited for.
    let request = unsafe { window.rget(found.as_mut_ptr(), LEN, 1 - window.rank(), 0)? };
    let is_posted = format!("{request:?}").contains("posted");
    let mut request = Some(request);
    if is_posted {
        refused_in_child("request", || {
            let mut calls = Vec::new();
            if let Some(mut request) = request.take() {
                calls.push(("test", request.test().map(drop)));
                calls.push(("wait", request.wait()));
            }
            calls
        })?;
    }
    if let Some(request) = request {
        request.wait()?;
    }
    window.unlock_all()?;
    check!(found.iter().all(|&byte| byte == 0));
    job.world().barrier()?;
    window.close()
}

fn a_child_ends_no_job(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 8)?;
    window.fence(Assert::NONE)?;
    get(&window, Vec::leak(vec![0; 8]), 1 - window.rank(), 0)?;
    let status = status_of_child(|| {
        job.abort(3, "from a child");
        window.set_error_handler(ErrorHandler::Fatal);
        let fenced = window.handled(|window| window.fence(Assert::NONE));
        eprintln!("the child was to end, and got {fenced:?}");
        0
    })?;
    check!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0);
    window.fence(Assert::NO_SUCCEED)?;
    job.world().barrier()?;
    window.close()
}
