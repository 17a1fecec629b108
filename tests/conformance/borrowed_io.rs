//! Memory that the kernel, other windows or other processes use while it becomes a window, is one, and
//! is one no more.

use std::cell::UnsafeCell;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind, Op};

use crate::borrowed::Words;
use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::io_uring::{Ring, Unavailable};
use crate::ops::{fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["borrowed_io":
    direct_reads_into_memory_that_comes_and_goes @ [2],
    fixed_buffers_of_io_uring @ [2],
    a_mutex_that_processes_may_share @ [2],
    operations_of_a_third_rank @ [3],
];

const PAGE: usize = 4096;

/// A file of `pages`, each filled with its number plus one; opened for direct I/O.
fn numbered_file(pages: usize) -> Result<std::fs::File, Failure> {
    let mut file = tempfile::NamedTempFile::new().map_err(Failure::new)?;
    for page in 0..pages {
        file.write_all(&[page as u8 + 1; PAGE])
            .map_err(Failure::new)?;
    }
    file.as_file().sync_all().map_err(Failure::new)?;
    use std::os::unix::fs::OpenOptionsExt as _;
    let open = |flags| {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(flags).open(file.path())
    };
    // A file system in memory may have no direct I/O: then it is read as it can be.
    open(libc::O_DIRECT)
        .or_else(|_| open(0))
        .map_err(Failure::new)
}

/// Makes a window over all the memory and frees it; meanwhile `other` puts `byte` to the last page.
fn one_life(job: &Job, words: &Words, byte: u8) -> Outcome {
    let world = job.world();
    // SAFETY: mapped until the end of the case.
    let window = unsafe { Window::create(world, words.base(), words.len(), 1, &Info::new())? };
    let other = (world.rank() + 1) % world.size();
    window.lock(LockKind::Exclusive, other, Assert::NONE)?;
    put(&window, &[byte; PAGE], other, (words.len() - PAGE) as u64)?;
    window.unlock(other)?;
    window.free()?;
    Ok(())
}

fn direct_reads_into_memory_that_comes_and_goes(job: &Job) -> Outcome {
    const PAGES: usize = 8;
    let file = numbered_file(PAGES)?;
    let words = Words::new(PAGES + 1);
    let base = words.base().addr();
    let (reads, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut wrong = None;
    thread::scope(|scope| -> Outcome {
        let reader = scope.spawn(|| {
            let mut wrong = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                for page in 0..PAGES {
                    let to = ptr::with_exposed_provenance_mut::<u8>(base + page * PAGE);
                    // SAFETY: a page of the memory, which this thread alone uses.
                    let right = unsafe {
                        to.write_bytes(0xee, PAGE);
                        let at = (page * PAGE) as libc::off_t;
                        let got = libc::pread(file.as_raw_fd(), to.cast(), PAGE, at);
                        let page_now = std::slice::from_raw_parts(to, PAGE);
                        got == PAGE as isize && page_now.iter().all(|&byte| byte == page as u8 + 1)
                    };
                    reads.fetch_add(1, Ordering::Relaxed);
                    wrong += u64::from(!right);
                }
            }
            wrong
        });
        words.base().expose_provenance();
        while reads.load(Ordering::Relaxed) == 0 && !reader.is_finished() {
            thread::yield_now();
        }
        let outcome = (0..60).try_for_each(|round| one_life(job, &words, round));
        stop.store(true, Ordering::Relaxed);
        wrong = reader.join().ok();
        outcome
    })?;
    check_eq!(wrong, Some(0), "of {reads:?} reads");
    Ok(())
}

fn fixed_buffers_of_io_uring(job: &Job) -> Outcome {
    const PAGES: usize = 4;
    let world = job.world();
    let file = numbered_file(PAGES)?;
    let words = Words::new(PAGES + 1);
    // SAFETY: mapped until the end of the case, after the ring.
    let ring = unsafe { Ring::with_buffer(words.base(), words.len()) };
    let here = world.allgather(&[u8::from(ring.is_ok())])?;
    let ring = match ring {
        Ok(ring) if !here.contains(&0) => ring,
        Ok(_) => return Ok(()),
        Err(Unavailable(error)) => {
            eprintln!("io_uring is not to be had here: {error}");
            return Ok(());
        }
    };
    let mine = world.rank() as usize;
    let read = |page: usize| {
        let to = words.base().wrapping_add(page * PAGE);
        ring.read(file.as_raw_fd(), page * PAGE, to, PAGE)
    };
    let holds = |page: usize| {
        // SAFETY: a page that nobody writes to now.
        let bytes =
            unsafe { std::slice::from_raw_parts(words.base().wrapping_add(page * PAGE), PAGE) };
        bytes.iter().all(|&byte| byte == page as u8 + 1)
    };
    check_eq!(read(0), PAGE as i32, "before the window");
    // SAFETY: as above.
    let window = unsafe { Window::create(world, words.base(), words.len(), 1, &Info::new())? };
    check!(holds(0), "what was read before the window");
    check_eq!(read(1 + mine), PAGE as i32, "in the window");
    check!(holds(1 + mine), "what was read in the window");
    world.barrier()?;
    let other = (world.rank() + 1) % world.size();
    let mut seen = vec![0; PAGE];
    let page = 1 + other as usize;
    window.lock(LockKind::Shared, other, Assert::NONE)?;
    get(&window, &mut seen, other, (page * PAGE) as u64)?;
    window.unlock(other)?;
    check!(seen.iter().all(|&byte| byte == page as u8 + 1), "by a peer");
    window.free()?;
    check_eq!(read(3), PAGE as i32, "after the window");
    check!(holds(0) && holds(1 + mine) && holds(3), "at the end");
    Ok(())
}

/// A mutex whose waiters the kernel finds by the page that it is on.
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

impl Mutex {
    /// # Safety
    /// `at` is aligned and mapped for the mutex, and nobody uses it otherwise.
    unsafe fn shared<'a>(at: *mut u8) -> &'a Self {
        // SAFETY: the attributes are local and initialised before use; `at` is the caller's promise.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutex_init(at.cast(), &raw const attributes);
            &*at.cast()
        }
    }

    /// False if that takes more than twenty seconds.
    fn hold(&self, pause: Duration) -> bool {
        let mut until = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: an initialised mutex, and a local.
        unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until);
            until.tv_sec += 20;
            if libc::pthread_mutex_timedlock(self.0.get(), &raw const until) != 0 {
                return false;
            }
            thread::sleep(pause);
            libc::pthread_mutex_unlock(self.0.get()) == 0
        }
    }
}

// SAFETY: a mutex is for several threads.
unsafe impl Sync for Mutex {}

fn a_mutex_that_processes_may_share(job: &Job) -> Outcome {
    let words = Words::new(2);
    // SAFETY: the first page is the mutex's alone; the windows' puts go to the second.
    let mutex = unsafe { Mutex::shared(words.base()) };
    let over = AtomicBool::new(false);
    thread::scope(|scope| -> Outcome {
        let threads = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut held = 0;
                while !over.load(Ordering::Relaxed) {
                    if !mutex.hold(Duration::from_micros(300)) {
                        return None;
                    }
                    held += 1;
                }
                Some(held)
            })
        });
        let outcome = (0..60).try_for_each(|round| one_life(job, &words, round));
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            let held = thread.join().ok().flatten();
            check!(held.is_some(), "a waiter was not woken");
        }
        outcome
    })
}

/// The third rank works on memory of the first through one window, while that becomes and ceases to be
/// another one.
fn operations_of_a_third_rank(job: &Job) -> Outcome {
    const LIVES: u64 = 60;
    let world = job.world();
    let words = Words::new(3);
    // SAFETY: mapped until the end of the case.
    let window = unsafe { Window::create(world, words.base(), words.len(), 8, &Info::new())? };
    let third = world.rank() == 2;
    let pair = world.split(Some(u32::from(third)), 0)?;
    window.lock_all(Assert::NONE)?;
    let mut rounds = 0_u64;
    match pair {
        Some(pair) if !third => {
            for _ in 0..LIVES {
                // SAFETY: as above.
                let inner = unsafe {
                    let (base, len) = (words.base().wrapping_add(64), words.len() - 128);
                    Window::create(&pair, base, len, 8, &Info::new())?
                };
                inner.free()?;
            }
            if world.rank() == 0 {
                fetch_and_op(&window, 1_u64, 2, 0, Op::Replace)?;
            }
        }
        _ => {
            let mut over = false;
            while !over {
                rounds += 1;
                for disp in [1, 500, 1200] {
                    put(&window, &rounds.to_ne_bytes(), 0, disp)?;
                    fetch_and_op(&window, 1_u64, 0, disp + 1, Op::Sum)?;
                    let mut back = [0; 8];
                    get(&window, &mut back, 0, disp)?;
                    window.flush(0)?;
                    check_eq!(u64::from_ne_bytes(back), rounds, "at {disp}");
                }
                over = fetch_and_op(&window, 0_u64, 2, 0, Op::NoOp)? == 1;
            }
        }
    }
    window.unlock_all()?;
    let rounds = world.allgather(&[rounds])?[2];
    if world.rank() == 0 {
        for disp in [1, 500, 1200] {
            let all = words.all();
            let now = [disp, disp + 1].map(|at: usize| all[at].load(Ordering::Relaxed));
            check_eq!(now, [rounds; 2], "at {disp}");
        }
    }
    window.free()?;
    Ok(())
}
