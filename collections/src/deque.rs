//! Tasks that ranks work on until none is left anywhere.
//!
//! Each rank's part has a ring of tasks under a lock word. Its own rank takes the newest; others, which have none, the
//! oldest half. A rank that steals holds its own lock, so that it knows of room for what it takes, and only tries the
//! other one: nobody waits for a lock while holding one.
//!
//! Each part counts the tasks that its rank has put there, and those that its rank has finished. No task is left if the sum
//! of the latter, read first, is that of the former: both only grow, so they were equal in between.

use std::any::type_name;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use transom::{Communicator, Element, Session, Window};

use crate::agreement;
use crate::error::{Error, Result};
use crate::waiting::Waiting;
use crate::words;

/// The words in front of a part's ring: who holds the lock (a rank and 1), the numbers of the oldest task and of the next one,
/// how many tasks were put here, and how many its rank finished.
const LOCK: usize = 0;
const HEAD: usize = 1;
const TAIL: usize = 2;
const CREATED: usize = 3;
const FINISHED: usize = 4;
const HEADER: usize = 5;

/// More are not stolen at a time.
const MOST: u64 = 256;

/// So often a lock is found held before a look at who holds it.
const LOOKS: u32 = 64;

/// For how long a rank without a task waits before it looks for one again, at most.
const IDLE: Duration = Duration::from_millis(1);

/// Tasks of all ranks: each puts its own there, and takes from others' when it has none. Values of `T` are
/// [`Element`]s: `Copy`, and without padding.
///
/// First tasks are there before any rank asks for one: put a barrier behind them, as below. From then on
/// [`Deque::next`] waits where all tasks are in others' hands, and returns `None` when none is left on any rank.
///
/// Threads of a rank share it, in jobs with [`ThreadLevel::Multiple`](transom::ThreadLevel).
///
/// ```
/// use transom::Job;
/// use transom_collections::Deque;
///
/// # fn main() -> transom_collections::Result<()> {
/// let job = Job::init()?;
/// let world = job.world();
/// let tasks = Deque::<u64>::new(world, 1000)?;
/// if world.rank() == 0 {
///     tasks.push(&10)?;
/// }
/// world.barrier()?;
/// let mut done = 0;
/// while let Some(task) = tasks.next()? {
///     if *task > 0 {
///         tasks.push(&(*task - 1))?;
///     }
///     done += 1;
/// }
/// # assert_eq!(world.allreduce(&[done], transom::Op::Sum)?, [11]);
/// tasks.free()
/// # }
/// ```
///
/// # When a rank dies
/// Its tasks are lost. [`Deque::next`] fails with an error that names it, on every other rank in time.
pub struct Deque<T: Element> {
    session: Session<'static, u64>,
    /// Of each part.
    capacity: u64,
    /// Tasks that this rank has finished where it could not count them: on a thread that may not.
    uncounted: AtomicU64,
    marker: PhantomData<T>,
}

/// A task that [`Deque::next`] gave to this rank: it is finished when this is dropped.
#[must_use = "a task that is dropped is finished"]
pub struct Task<'d, T> {
    value: T,
    session: &'d Session<'static, u64>,
    uncounted: &'d AtomicU64,
}

impl<T> Deref for Task<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Task<'_, T> {
    fn drop(&mut self) {
        if (self.session)
            .fetch_add(self.session.rank(), FINISHED, 1)
            .is_err()
        {
            self.uncounted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<T: Element> Deque<T> {
    const TASK: usize = words::count::<T>();

    /// Collective. A deque without tasks, with room for `capacity` on each rank. A rank takes its newest task first: where
    /// each task makes up to `b` others, to a depth of `d`, no more than `2 * b * d` wait on one rank, stolen ones included.
    ///
    /// # Errors
    /// On every rank if one rank fails: `capacity` is 0 or another one elsewhere, sizes of tasks differ, out of memory, a
    /// rank that died or left.
    pub fn new(comm: &Communicator, capacity: usize) -> Result<Self> {
        const OPERATION: &str = "Deque::new";
        const { assert!(size_of::<T>() > 0, "tasks of more than no bytes") };
        let ours = format!(
            "room for {capacity} tasks of {} ({} bytes)",
            type_name::<T>(),
            size_of::<T>()
        );
        agreement::alike(comm, OPERATION, &ours)?;
        if capacity == 0 {
            return Err(Error::BadArgument {
                operation: OPERATION,
                what: "a capacity of 0 tasks".to_owned(),
            });
        }
        let len = capacity.saturating_mul(Self::TASK).saturating_add(HEADER);
        let window = Window::allocate(comm, len)?.into_owned();
        Ok(Self {
            session: window.into_session()?,
            capacity: capacity as u64,
            uncounted: AtomicU64::new(0),
            marker: PhantomData,
        })
    }

    /// One-sided. Puts a task into this rank's part.
    ///
    /// # Errors
    /// [`Error::Full`]: tasks that are taken make room, so do this one at once; a rank that was stealing from this one died.
    pub fn push(&self, task: &T) -> Result<()> {
        let rank = self.session.rank();
        let mut entry = vec![0; Self::TASK];
        words::write(task, &mut entry);
        let lock = self.lock(rank)?;
        let (head, tail) = self.ends(rank)?;
        if tail - head == self.capacity {
            return Err(Error::Full {
                operation: "Deque::push",
                rank,
                capacity: self.capacity as usize,
            });
        }
        // Before anybody can finish it.
        self.session.fetch_add(rank, CREATED, 1)?;
        self.append(tail, &entry)?;
        drop(lock);
        Ok(())
    }

    /// One-sided. A task for this rank: the newest of its own, or else the oldest of another rank's. Waits where the only
    /// ones left are in somebody's hands, who may yet push more; `None` when no rank has one any more. So drop a task before
    /// you ask for the next one: a rank does not get past tasks that it keeps.
    ///
    /// # Errors
    /// A rank died or left; a device failed.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator could not return its errors"
    )]
    pub fn next(&self) -> Result<Option<Task<'_, T>>> {
        let mut wait = Duration::from_micros(1);
        let mut waiting = Waiting::default();
        loop {
            if let Some(task) = self.try_next()? {
                return Ok(Some(task));
            }
            if self.is_finished()? {
                return Ok(None);
            }
            if wait < Duration::from_micros(16) {
                thread::yield_now();
            } else {
                let me = self.session.rank();
                waiting.look(|| {
                    format!("rank {me} waits in Deque::next: ranks, this one perhaps, hold all tasks that are left")
                });
                thread::sleep(wait);
            }
            wait = (wait * 2).min(IDLE);
        }
    }

    /// One-sided. As [`Deque::next`], without waiting: `None` if no task was found now.
    ///
    /// # Errors
    /// As for [`Deque::next`].
    pub fn try_next(&self) -> Result<Option<Task<'_, T>>> {
        let (me, ranks) = (self.session.rank(), self.session.ranks());
        let uncounted = self.uncounted.swap(0, Ordering::Relaxed);
        if uncounted > 0 {
            self.session.fetch_add(me, FINISHED, uncounted)?;
        }
        if let Some(value) = self.take_own()? {
            return Ok(Some(self.task(value)));
        }
        // Each rank begins with its neighbour, so that not all try the same one.
        for rank in (me + 1..ranks).chain(0..me) {
            if let Some(value) = self.steal(rank)? {
                return Ok(Some(self.task(value)));
            }
        }
        Ok(None)
    }

    /// One-sided. How many tasks wait in the part of `rank`: while others push and take, a number from in between.
    ///
    /// # Errors
    /// `rank` is not one of the ranks, or died.
    pub fn len_of(&self, rank: u32) -> Result<usize> {
        let (head, tail) = self.ends(rank)?;
        Ok(tail.saturating_sub(head) as usize)
    }

    /// Collective. Frees the deque and its window. Tasks that are left are lost.
    ///
    /// # Errors
    /// A rank died or left: then the memory is leaked.
    pub fn free(self) -> Result<()> {
        Ok(self.session.free()?)
    }

    fn task(&self, value: T) -> Task<'_, T> {
        Task {
            value,
            session: &self.session,
            uncounted: &self.uncounted,
        }
    }

    fn take_own(&self) -> Result<Option<T>> {
        let rank = self.session.rank();
        if self.len_of(rank)? == 0 {
            return Ok(None);
        }
        let _lock = self.lock(rank)?;
        let (head, tail) = self.ends(rank)?;
        if head == tail {
            return Ok(None);
        }
        let mut entry = vec![0; Self::TASK];
        let at = self.place(tail - 1);
        self.session.get_blocking(rank, at, &mut entry)?;
        self.session.store(rank, TAIL, tail - 1)?;
        Ok(Some(words::read(&entry)))
    }

    /// The oldest half of another rank's tasks: one is returned, and this rank's part gets the others.
    fn steal(&self, victim: u32) -> Result<Option<T>> {
        if self.len_of(victim)? == 0 {
            return Ok(None);
        }
        let me = self.session.rank();
        let _own = self.lock(me)?;
        let Some(_lock) = self.try_lock(victim)? else {
            return Ok(None);
        };
        let (own_head, own_tail) = self.ends(me)?;
        let room = self.capacity - (own_tail - own_head);
        let (head, tail) = self.ends(victim)?;
        let count = (tail - head).div_ceil(2).min(room + 1).min(MOST);
        if count == 0 {
            return Ok(None);
        }
        let mut stolen = vec![0; count as usize * Self::TASK];
        self.session.batch(|batch| {
            let victim = batch.target(victim)?;
            let mut rest = &mut stolen[..];
            for (at, len) in self.runs(head, count) {
                let (run, behind) = rest.split_at_mut(len);
                victim.get(at, run)?;
                rest = behind;
            }
            Ok(())
        })?;
        let (first, others) = stolen.split_at(Self::TASK);
        self.append(own_tail, others)?;
        // They are here: now they are there no longer.
        self.session.store(victim, HEAD, head + count)?;
        Ok(Some(words::read(first)))
    }

    /// Writes entries behind the last one of this rank's part, which is locked and has room.
    fn append(&self, tail: u64, entries: &[u64]) -> Result<()> {
        let me = self.session.rank();
        let count = (entries.len() / Self::TASK) as u64;
        let mut rest = entries;
        for (at, len) in self.runs(tail, count) {
            let (run, behind) = rest.split_at(len);
            self.session.put_blocking(me, at, run)?;
            rest = behind;
        }
        Ok(self.session.store(me, TAIL, tail + count)?)
    }

    /// Where so many tasks from `number` on are: a run of words, or two around the end of the ring.
    fn runs(&self, number: u64, count: u64) -> impl Iterator<Item = (usize, usize)> {
        let first = count.min(self.capacity - number % self.capacity);
        let words = |tasks: u64| tasks as usize * Self::TASK;
        let both = [
            (self.place(number), words(first)),
            (HEADER, words(count - first)),
        ];
        both.into_iter().filter(|&(_, len)| len > 0)
    }

    fn place(&self, number: u64) -> usize {
        HEADER + (number % self.capacity) as usize * Self::TASK
    }

    /// The numbers of the oldest task of a part, and of the next one.
    fn ends(&self, rank: u32) -> Result<(u64, u64)> {
        // The head first: tasks that are taken meanwhile are not missed.
        let head = self.session.load(rank, HEAD)?;
        Ok((head, self.session.load(rank, TAIL)?))
    }

    /// Whether no task is left on any rank.
    fn is_finished(&self) -> Result<bool> {
        let finished = words::sum(&self.session, FINISHED)?;
        Ok(finished == words::sum(&self.session, CREATED)?)
    }

    fn lock(&self, rank: u32) -> Result<Locked<'_>> {
        let (mut looks, mut waiting) = (0, Waiting::default());
        loop {
            if let Some(lock) = self.try_lock(rank)? {
                return Ok(lock);
            }
            looks += 1;
            if looks % LOOKS == 0
                && let Some(holder) = self.session.load(rank, LOCK)?.checked_sub(1)
            {
                // It fails once that rank is found dead.
                self.session.load(holder as u32, LOCK)?;
                let me = self.session.rank();
                waiting.look(|| {
                    format!("rank {me} waits for the tasks of rank {rank}, which rank {holder} is moving")
                });
            }
            thread::yield_now();
        }
    }

    fn try_lock(&self, rank: u32) -> Result<Option<Locked<'_>>> {
        let session = &self.session;
        let mine = u64::from(session.rank()) + 1;
        let old = session.compare_swap(rank, LOCK, 0, mine)?;
        Ok((old == 0).then(|| Locked { session, rank }))
    }
}

/// The lock of a part.
struct Locked<'d> {
    session: &'d Session<'static, u64>,
    rank: u32,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Where that rank died, nobody waits for its lock any more.
        let _ = self.session.store(self.rank, LOCK, 0);
    }
}
