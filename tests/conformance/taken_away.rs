//! The owner of a created window takes rights to its memory away. Whoever accesses that gets an error, on each way there,
//! and nobody dies.

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use transom::raw::{Assert, Datatype, Window};
use transom::{BasicType, ErrorClass, Info, Job, Op, Result};

use crate::borrowed::Words;
use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::ops::{accumulate, compare_and_swap, fetch_and_op, get, put};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["taken_away":
    memory_without_rights @ [2],
    memory_that_may_only_be_read @ [2],
    memory_that_was_unmapped @ [2],
    a_file_that_is_shorter_now @ [2, 3],
    faults_of_the_program_are_its_own @ [2],
];

const PAGES: usize = 16;
const LEN: usize = PAGES * 4096;
const HALF: usize = LEN / 2;
/// Accesses to what is still there, so that a thread of the owner's looks for more of them.
const ROUNDS: u64 = 300;

const SAID: &str = "the memory is no longer mapped there with this right";

/// What is gone is an error, named alike on each way.
fn gone(result: Result<()>) -> Outcome {
    refused(result, ErrorClass::RmaRange, &[SAID])
}

fn flushed(window: &Window, result: Result<()>) -> Result<()> {
    result.and_then(|()| window.flush(0))
}

/// Every other word of a place, there and back.
fn columns(window: &Window, disp: u64, is_put: bool) -> Result<()> {
    let mut words = [5_u64; 40];
    let dense = Datatype::from(BasicType::U64).commit();
    let column = Datatype::vector(40, 1, 2, &Datatype::from(BasicType::U64))?.commit();
    let base = words.as_mut_ptr().cast::<u8>();
    // SAFETY: the words outlive the operation, which the flush completes, or which has failed.
    flushed(window, unsafe {
        match is_put {
            true => window.put_layout(base, dense.times(40), 0, disp, column.times(1)),
            false => window.get_layout(base, dense.times(40), 0, disp, column.times(1)),
        }
    })
}

/// Rank 0 takes away the second half of a window's memory and waits; the others access it.
fn tried(job: &Job, memory: &Words, readable: bool, take_away: impl Fn()) -> Outcome {
    let world = job.world();
    let other = Words::new(1);
    // SAFETY: rank 0 breaks this promise for one half, which is what the case is about.
    let window = unsafe { Window::create(world, memory.base(), LEN, 1, &Info::new())? };
    // SAFETY: mapped until the window is freed.
    let intact = unsafe { Window::create(world, other.base(), other.len(), 1, &Info::new())? };
    if world.rank() == 0 {
        take_away();
    }
    window.lock_all(Assert::NONE)?;
    intact.lock_all(Assert::NONE)?;
    world.barrier()?;
    if world.rank() == 1 {
        let half = HALF as u64;
        for round in 0..ROUNDS {
            let disp = round % 64 * 8;
            put(&window, &round.to_ne_bytes(), 0, disp)?;
            window.flush(0)?;
            let mut seen = [0; 8];
            get(&window, &mut seen, 0, disp)?;
            window.flush(0)?;
            check_eq!(u64::from_ne_bytes(seen), round);
            if round % 20 != 0 {
                continue;
            }
            for len in [8, 100, 5000, 20_000] {
                // All of it gone, and a part.
                for disp in [half, half - 4] {
                    gone(flushed(&window, put(&window, &vec![1; len], 0, disp)))?;
                }
                let mut bytes = vec![0; len];
                let got = flushed(&window, get(&window, &mut bytes, 0, half));
                match readable {
                    true => got?,
                    false => gone(got)?,
                }
                drop(bytes);
            }
            gone(columns(&window, half, true))?;
            match readable {
                true => columns(&window, half, false)?,
                false => gone(columns(&window, half, false))?,
            }
            let ones = [1_u64; 100];
            for count in [1, 100] {
                let added = accumulate(&window, &ones[..count], 0, half, Op::Sum);
                gone(flushed(&window, added))?;
            }
            let halves = [0.5_f64; 100];
            gone(flushed(
                &window,
                accumulate(&window, &halves, 0, half, Op::Sum),
            ))?;
            gone(fetch_and_op(&window, 1_u64, 0, half, Op::Sum).map(drop))?;
            gone(compare_and_swap(&window, 0_u64, 1, 0, half).map(drop))?;
            columns(&window, 0, true)?;
            accumulate(&window, &ones, 0, 0, Op::Sum)?;
            window.flush(0)?;
        }
        put(&intact, &[9; 8], 0, 8)?;
        fetch_and_op(&intact, 1_u64, 0, 16, Op::Sum)?;
        intact.flush(0)?;
    }
    world.barrier()?;
    window.unlock_all()?;
    intact.unlock_all()?;
    window.free()?;
    intact.free()?;
    if world.rank() == 0 {
        let words = other.all();
        let found = [1, 2].map(|at: usize| words[at].load(Ordering::Relaxed));
        check_eq!(found, [u64::from_ne_bytes([9; 8]), 1], "the other window");
    }
    Ok(())
}

fn second_half(memory: &Words) -> *mut libc::c_void {
    memory.base().wrapping_add(HALF).cast()
}

fn protected(job: &Job, rights: libc::c_int) -> Outcome {
    let memory = Words::new(PAGES);
    let take_away = || {
        // SAFETY: our own mapping, to which there is no reference.
        let rc = unsafe { libc::mprotect(second_half(&memory), HALF, rights) };
        assert_eq!(rc, 0);
    };
    tried(job, &memory, rights == libc::PROT_READ, take_away)
}

fn memory_without_rights(job: &Job) -> Outcome {
    protected(job, libc::PROT_NONE)
}

fn memory_that_may_only_be_read(job: &Job) -> Outcome {
    protected(job, libc::PROT_READ)
}

fn memory_that_was_unmapped(job: &Job) -> Outcome {
    // The hole is smaller than what the library and the allocator map meanwhile.
    let memory = Words::new(PAGES);
    let take_away = || {
        // SAFETY: our own mapping, to which there is no reference.
        let rc = unsafe { libc::munmap(second_half(&memory), HALF) };
        assert_eq!(rc, 0);
    };
    tried(job, &memory, false, take_away)
}

fn a_file_that_is_shorter_now(job: &Job) -> Outcome {
    // SAFETY: the name is a string, and the new descriptor has no other owner.
    let (raw, _file) = unsafe {
        let raw = libc::memfd_create(c"window".as_ptr(), libc::MFD_CLOEXEC);
        (raw, OwnedFd::from_raw_fd(raw))
    };
    let resize = |len: usize| {
        // SAFETY: our own descriptor.
        assert_eq!(unsafe { libc::ftruncate(raw, len as libc::off_t) }, 0);
    };
    resize(LEN);
    let memory = Words::new(PAGES);
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_FIXED,
    );
    // SAFETY: in place of our own mapping, to which there is no reference.
    let mapped = unsafe { libc::mmap(memory.base().cast(), LEN, rights, flags, raw, 0) };
    check!(mapped != libc::MAP_FAILED, "mapping the file");
    tried(job, &memory, false, || resize(HALF))
}

static WATCHED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static OPENED: AtomicU32 = AtomicU32::new(0);
/// The library's handler, where the device had an agent from the beginning.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// As programs do that note what is written: it opens the page, and the store happens again.
extern "C" fn open_page(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    let watched = WATCHED.load(Ordering::Relaxed);
    // SAFETY: the kernel passes a valid record of a fault; the calls are those that handlers may make, and the handler before
    // this one is of this type, as the library's and Rust's are.
    unsafe {
        if (*info).si_addr().addr().wrapping_sub(watched.addr()) >= 4096 {
            let Some(before) = BEFORE.get() else {
                libc::_exit(9);
            };
            let handler = std::mem::transmute::<usize, Handler>(before.sa_sigaction);
            return handler(signal, info, context);
        }
        libc::mprotect(watched.cast(), 4096, libc::PROT_READ | libc::PROT_WRITE);
    }
    OPENED.fetch_add(1, Ordering::Relaxed);
}

/// A handler that the program had before gets the faults of its own, and who has none dies of one as ever.
fn faults_of_the_program_are_its_own(job: &Job) -> Outcome {
    let watched = Words::new(1);
    WATCHED.store(watched.base(), Ordering::Relaxed);
    // SAFETY: zeroes are a valid sigaction; the handler keeps to what handlers may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut before);
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            check!(BEFORE.set(before).is_ok(), "set once");
        }
        action.sa_sigaction = open_page as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
    protected(job, libc::PROT_NONE)?;
    check_eq!(
        OPENED.load(Ordering::Relaxed),
        0,
        "faults of accesses by others"
    );
    // SAFETY: a page of our own, which the handler opens again.
    unsafe {
        libc::mprotect(watched.base().cast(), 4096, libc::PROT_NONE);
        watched.base().cast::<u64>().write_volatile(7);
    }
    check_eq!(
        OPENED.load(Ordering::Relaxed),
        1,
        "a fault of the program's"
    );
    check_eq!(watched.all()[0].load(Ordering::Relaxed), 7);

    for (signal, is_sent) in [(libc::SIGBUS, true), (libc::SIGBUS, false)] {
        check_eq!(end_of_child(is_sent)?, signal, "sent: {is_sent}");
    }
    job.world().barrier()?;
    Ok(())
}

/// The signal of which a child dies that another sends SIGBUS to, or that accesses what its file has not.
fn end_of_child(is_sent: bool) -> std::result::Result<libc::c_int, crate::case::Failure> {
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child's own descriptor and mapping; it ends by the signal, or here.
        unsafe {
            if is_sent {
                libc::kill(libc::getpid(), libc::SIGBUS);
            } else {
                let file = libc::memfd_create(c"empty".as_ptr(), 0);
                let rights = libc::PROT_READ | libc::PROT_WRITE;
                let page = libc::mmap(ptr::null_mut(), 4096, rights, libc::MAP_SHARED, file, 0);
                page.cast::<u8>().write_volatile(1);
            }
            libc::_exit(3)
        }
    }
    check!(child > 0, "fork");
    let mut status = 0;
    // SAFETY: the status is a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    check!(
        libc::WIFSIGNALED(status),
        "the child ended with {status:#x}"
    );
    Ok(libc::WTERMSIG(status))
}
