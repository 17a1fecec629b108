//! Tasks that ranks process until no rank has any left.
//!
//! Each rank's part has a ring of tasks under a lock word. The rank itself takes the newest task. A rank without tasks
//! takes the oldest half of another rank's. A rank that steals holds its own lock, so that its own part has room for
//! the stolen tasks. It only tries the other rank's lock: no rank waits for a lock while it holds one.
//!
//! Each part counts the tasks that its rank has pushed, and those that its rank has finished. If the sum of the
//! finished tasks, read first, equals the sum of the pushed ones, no task is left: both only grow, so they were equal
//! in between.

use std::any::type_name;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use transom::lower::wait_on;
use transom::{Communicator, Element, Session, Window};

use crate::agreement;
use crate::error::{Error, Result};
use crate::words;

/// The words before a part's ring: the lock (the holder's rank plus 1), the numbers of the oldest task and of the next
/// one, how many tasks its rank has pushed, and how many its rank has finished.
const LOCK: usize = 0;
const HEAD: usize = 1;
const TAIL: usize = 2;
const CREATED: usize = 3;
const FINISHED: usize = 4;
const HEADER: usize = 5;

/// The most tasks that are stolen at a time.
const MOST: u64 = 256;

/// Tasks of all ranks. Each rank pushes tasks to its own part, and takes tasks of others when its part is empty. Values
/// of `T` are [`Element`]s: `Copy`, and without padding.
///
/// Push the first tasks before any rank asks for one: put a barrier in between, as below. After that [`Deque::next`]
/// waits while other ranks hold all remaining tasks, and returns `None` when no rank has any left.
///
/// Threads of a rank can share it in jobs with [`ThreadLevel::Multiple`](transom::ThreadLevel).
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
/// Its tasks are lost. On every other rank, [`Deque::next`] fails after some time with an error that names it. A deque
/// cannot be carried over to the survivors: make one anew, with the tasks whose results are missing.
pub struct Deque<T: Element> {
    session: Session<'static, u64>,
    /// The room for tasks in each part.
    capacity: u64,
    /// Tasks that this rank has finished on a thread that must not access the window, and so has not counted there.
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

    /// Collective. A deque without tasks, with room for `capacity` tasks on each rank. A rank takes its newest task
    /// first. So if each task makes up to `b` others, to a depth of `d`, at most `2 * b * d` wait on one rank, stolen
    /// ones included.
    ///
    /// # Errors
    /// On every rank if one rank fails: `capacity` is 0 or differs between ranks, sizes of tasks differ, out of memory,
    /// a rank died or left.
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
    /// [`Error::Full`]: process this task at once, since only taken tasks make room; a rank that was stealing from this
    /// one died.
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
        // Count it before any rank can finish it.
        self.session.fetch_add(rank, CREATED, 1)?;
        self.append(tail, &entry)?;
        drop(lock);
        Ok(())
    }

    /// One-sided. A task for this rank: the newest of its own, or else the oldest of another rank's. If other ranks
    /// hold all remaining tasks, this waits, because they may push more. `None` when no rank has any left. So drop a
    /// task before you ask for the next one: this waits for tasks that the rank keeps.
    ///
    /// # Errors
    /// A rank died or left; a device failed.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator could not return its errors"
    )]
    pub fn next(&self) -> Result<Option<Task<'_, T>>> {
        let mut next = Ok(None);
        let place = "(ranks, this one perhaps, hold the tasks that are left)";
        let done = || {
            next = self.try_next();
            if let Ok(None) = next {
                match self.is_finished() {
                    Ok(is_finished) => return Ok(is_finished),
                    Err(error) => next = Err(error),
                }
            }
            Ok(true)
        };
        wait_on(self.session.comm(), "Deque::next", place, || None, done)?;
        next
    }

    /// One-sided. As [`Deque::next`], but without waiting: `None` if no task is available now.
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
        // Each rank begins with the next rank, so that not all try the same one.
        for rank in (me + 1..ranks).chain(0..me) {
            if let Some(value) = self.steal(rank)? {
                return Ok(Some(self.task(value)));
            }
        }
        Ok(None)
    }

    /// One-sided. How many tasks wait in the part of `rank`. While others push and take, the number is only
    /// approximate.
    ///
    /// # Errors
    /// `rank` is not one of the ranks, or died.
    pub fn len_of(&self, rank: u32) -> Result<usize> {
        let (head, tail) = self.ends(rank)?;
        Ok(tail.saturating_sub(head) as usize)
    }

    /// Collective. Frees the deque and its window. Remaining tasks are lost.
    ///
    /// # Errors
    /// A rank died or left. Then the memory is leaked.
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

    /// Steals the oldest half of another rank's tasks: returns one, and adds the others to this rank's part.
    fn steal(&self, victim: u32) -> Result<Option<T>> {
        if self.len_of(victim)? == 0 {
            return Ok(None);
        }
        let me = self.session.rank();
        let _own = self.lock(me)?;
        let Ok(_lock) = self.try_lock(victim)? else {
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
        // This part has the tasks now: remove them there.
        self.session.store(victim, HEAD, head + count)?;
        Ok(Some(words::read(first)))
    }

    /// Appends entries to this rank's part, which is locked and has room.
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

    /// The places of `count` tasks from `number` on: one run of words, or two if they wrap around the end of the ring.
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

    /// The number of the oldest task of a part, and that of the next task.
    fn ends(&self, rank: u32) -> Result<(u64, u64)> {
        // Load the head first, so that concurrent takes never make the part look too short.
        let head = self.session.load(rank, HEAD)?;
        Ok((head, self.session.load(rank, TAIL)?))
    }

    /// Whether no task is left on any rank.
    fn is_finished(&self) -> Result<bool> {
        let finished = words::sum(&self.session, FINISHED)?;
        Ok(finished == words::sum(&self.session, CREATED)?)
    }

    fn lock(&self, rank: u32) -> Result<Locked<'_>> {
        let (mut lock, holder) = (None, Cell::new(None));
        let place = format!("at the tasks of rank {rank}");
        let done = || {
            match self.try_lock(rank)? {
                Ok(locked) => lock = Some(locked),
                Err(other) => holder.set(Some(other)),
            }
            Ok(lock.is_some())
        };
        wait_on(self.session.comm(), "Deque", &place, || holder.get(), done)?;
        Ok(lock.expect("the wait ends with it"))
    }

    /// Takes the lock of a part, unless a rank has it.
    fn try_lock(&self, rank: u32) -> transom::Result<std::result::Result<Locked<'_>, u32>> {
        let session = &self.session;
        let mine = u64::from(session.rank()) + 1;
        match session.compare_swap(rank, LOCK, 0, mine)?.checked_sub(1) {
            None => Ok(Ok(Locked { session, rank })),
            Some(holder) => Ok(Err(holder as u32)),
        }
    }
}

/// A held lock of a part.
struct Locked<'d> {
    session: &'d Session<'static, u64>,
    rank: u32,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // This fails only if the part's rank died, and then nothing waits for its lock.
        let _ = self.session.store(self.rank, LOCK, 0);
    }
}
