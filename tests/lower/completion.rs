//! What is complete when a call says so, on devices that are not done when an operation was posted.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transom::lower::{self, Aim, Row};
use transom::raw::{Assert, Window};
use transom::{Communicator, Info, Job};
use transom_testing::devices::{is_adversarial, is_soft};
use transom_testing::environment::{own_device, slowness};

use crate::cases;
use crate::started::{Case, Outcome, Rank, check};

pub(crate) const CASES: &[Case] = cases!["completion":
    2: flush_waits_until_others_see_it,
    2: complete_waits_until_it_is_there,
    2: release_waits_until_buffers_may_be_used_again,
    2: quiesce_waits_until_buffers_are_done_with,
    2: quiesce_says_that_it_takes_too_long,
];

const OPERATION: &str = "words";
const WORDS: usize = 512;
const ROUNDS: u64 = 40;

/// All words, one after the other.
const ALL: Row = Row {
    at: 0,
    len: 8 * WORDS as u64,
    count: 1,
    stride: 0,
};

/// A window, all of which every rank has locked, and how many waits of this rank were long.
struct Watched {
    job: Job,
    /// Its barriers are the host's: no operation of the device is part of them.
    comm: Communicator,
    window: Window,
    /// The window's: what a device has not allocated itself, no neighbour maps.
    _memory: Vec<u64>,
    waits: Cell<u32>,
}

impl Watched {
    fn open(rank: &Rank) -> transom::Result<Self> {
        let job = rank.job()?;
        let comm = job.communicator(job.world().group(), rank.files("host"))?;
        let mut memory = vec![0; WORDS];
        let base = memory.as_mut_ptr().cast();
        // SAFETY: the vector is kept until the window is freed, and nobody looks into it meanwhile.
        let window = unsafe { Window::create(&comm, base, 8 * WORDS, 1, &Info::new())? };
        window.lock_all(Assert::NONE)?;
        Ok(Self {
            job,
            comm,
            window,
            _memory: memory,
            waits: Cell::new(0),
        })
    }

    fn put(&self, target: u32, words: &[u64; WORDS]) -> transom::Result<()> {
        let aim = Aim::new(OPERATION, target);
        // SAFETY: the row is the array, which the callers keep until the device has done with it.
        unsafe { lower::put_row(&self.window, aim, words.as_ptr().cast(), ALL, ALL) }
    }

    fn flush(&self, target: u32) -> transom::Result<()> {
        self.watch(|| lower::flush(&self.window, Aim::new(OPERATION, target)))
    }

    fn complete(&self, target: u32) -> transom::Result<()> {
        self.watch(|| lower::complete(&self.window, Aim::new(OPERATION, target)))
    }

    fn release(&self, target: u32) -> transom::Result<()> {
        self.watch(|| lower::release(&self.window, Aim::new(OPERATION, target)))
    }

    fn quiesce(&self) -> Outcome {
        let limit = Duration::from_secs(30) * slowness();
        let is_quiet = self.watch(|| lower::quiesce(&self.window, limit));
        check(is_quiet, "the device never had done")
    }

    /// Counts a wait that is long enough for the host to be called.
    fn watch<R>(&self, wait: impl FnOnce() -> R) -> R {
        let called = Arc::new(AtomicBool::new(false));
        let told = called.clone();
        self.job
            .on_wait(move || told.store(true, Ordering::Relaxed));
        let result = wait();
        self.job.on_wait(|| {});
        let was_long = called.load(Ordering::Relaxed);
        self.waits.set(self.waits.get() + u32::from(was_long));
        result
    }

    /// Checks that these words are there.
    fn find(&self, target: u32, words: [u64; WORDS]) -> Outcome {
        let mut found = [0; WORDS];
        let aim = Aim::new(OPERATION, target);
        // SAFETY: the row is the array, which is alive until all is complete.
        unsafe { lower::get_row(&self.window, aim, found.as_mut_ptr().cast(), ALL, ALL)? };
        self.complete(target)?;
        check(found == words, format!("{found:?} instead of {}", words[0]))
    }

    /// Fails if no wait was long where some have to be, without which the case shows nothing.
    fn has_waited(&self) -> Outcome {
        let is_late = is_adversarial(&own_device());
        check(self.waits.get() > 0 || !is_late, "nothing was waited for")
    }

    fn close(self) -> Outcome {
        self.window.unlock_all()?;
        self.window.free()?;
        drop(self.comm);
        Ok(self.job.finish()?)
    }
}

/// What rank 1 finds in its own part is what rank 0 sent there just before.
fn rank_1_finds(rank: &Rank, send: fn(&Watched, [u64; WORDS]) -> Outcome) -> Outcome {
    let watched = Watched::open(rank)?;
    for round in 1..=ROUNDS {
        if rank.rank == 0 {
            send(&watched, [round; WORDS])?;
        }
        watched.comm.barrier()?;
        if rank.rank == 1 {
            watched.find(1, [round; WORDS])?;
        }
        watched.comm.barrier()?;
    }
    watched.has_waited()?;
    watched.close()
}

fn flush_waits_until_others_see_it(rank: &Rank) -> Outcome {
    rank_1_finds(rank, |watched, words| {
        watched.put(1, &words)?;
        Ok(watched.flush(1)?)
    })
}

/// Each rank gets what it put to the other one just before.
fn complete_waits_until_it_is_there(rank: &Rank) -> Outcome {
    let watched = Watched::open(rank)?;
    let next = 1 - rank.rank;
    for round in 1..=ROUNDS {
        let words = [round + 100 * u64::from(rank.rank); WORDS];
        watched.put(next, &words)?;
        watched.complete(next)?;
        watched.find(next, words)?;
    }
    watched.has_waited()?;
    watched.close()
}

/// Origin buffers are spoilt as soon as they may be, which changes nothing at the target.
fn release_waits_until_buffers_may_be_used_again(rank: &Rank) -> Outcome {
    rank_1_finds(rank, |watched, mut words| {
        watched.put(1, &words)?;
        watched.release(1)?;
        black_box(&mut words).fill(u64::MAX);
        black_box(&words);
        Ok(watched.flush(1)?)
    })
}

/// Origin buffers are spoilt as soon as the device has done with them, which changes nothing at the
/// target.
fn quiesce_waits_until_buffers_are_done_with(rank: &Rank) -> Outcome {
    rank_1_finds(rank, |watched, mut words| {
        watched.put(1, &words)?;
        watched.quiesce()?;
        black_box(&mut words).fill(u64::MAX);
        black_box(&words);
        Ok(watched.flush(1)?)
    })
}

/// On a device that sometimes takes far longer than the wait's limit; others have done at once.
fn quiesce_says_that_it_takes_too_long(rank: &Rank) -> Outcome {
    let is_late = is_adversarial(&own_device());
    if is_late {
        let slow = format!("{},delay=200000", own_device());
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var("TRANSOM_DEVICE", slow) };
    }
    let watched = Watched::open(rank)?;
    if rank.rank == 0 {
        let words = [7; WORDS];
        let mut was_late = false;
        for _ in 0..200 {
            watched.put(1, &words)?;
            was_late = !lower::quiesce(&watched.window, Duration::ZERO);
            watched.quiesce()?;
            if was_late {
                break;
            }
        }
        let soft = is_soft(&own_device());
        check(was_late == is_late || !soft, "it was late, or it was not")?;
        watched.flush(1)?;
    }
    watched.comm.barrier()?;
    watched.close()
}
