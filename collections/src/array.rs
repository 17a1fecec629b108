//! Arrays whose elements are distributed over all ranks.

use std::any::type_name;
use std::fmt;
use std::mem::take;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use transom::{Accumulate, Atomic, Communicator, Element, Op, Session, Window};

use crate::distribution::Layout;
use crate::{Distribution, Error, Result, agreement};

/// The number of places that are translated at a time: they stay in the cache, and are enough work for a network.
const LIST: usize = 1 << 14;

/// Runs of fewer bytes are transferred as a list of elements, longer runs one by one.
const SHORT_RUN: usize = 64;

/// An array of elements on all ranks of a communicator, which any rank reads and writes by their global index. All
/// indices and lengths count elements.
///
/// Operations are complete when they return, as those of a [`Session`]. If ranks use the same elements at the same
/// time, they need the atomic operations [`load`](Self::load), [`store`](Self::store), [`fetch_add`](Self::fetch_add),
/// [`compare_swap`](Self::compare_swap) and accumulates, or a [barrier](Communicator::barrier) of [`comm`](Self::comm)
/// in between. Threads can share an array if the job has [`ThreadLevel::Multiple`](transom::ThreadLevel).
///
/// ```
/// use transom::{Job, Op};
/// use transom_collections::{DistArray, Distribution, Result};
///
/// # fn main() -> Result<()> {
/// // A histogram of a million values, counted by all ranks.
/// let job = Job::init()?;
/// let counts = DistArray::<u64>::new(job.world(), 1000, Distribution::Cyclic)?;
/// let bins: Vec<usize> = (0..1_000_000).map(|number| number * number % 1000).collect();
/// counts.accumulate_indexed(Op::Sum, &bins, &vec![1; bins.len()])?;
/// job.world().barrier()?;
/// assert_eq!(counts.load(3)?, 0);
/// assert_eq!(counts.load(4)?, 4000 * u64::from(job.world().size()));
/// counts.free()
/// # }
/// ```
///
/// An array that is dropped without [`free`](Self::free) leaks its memory, and logs this.
///
/// # Errors
/// Every one-sided operation: an index that the array does not have (nothing is transferred then); the rank that owns
/// the element died, which a rank may detect some time later; a device failed; no memory for the result; a thread that
/// the job's level does not allow. The array stays usable.
///
/// Every collective call: a rank died or left. All ranks get this error. Ranks that make different collective calls may
/// wait for each other; the log reports this after 10 s. If [`with_own`](Self::with_own) or [`fill`](Self::fill) fails
/// in this way, the array is lost, and every later call on it fails.
///
/// # When a rank dies
/// Its elements are lost. [`carry_over`](Self::carry_over) makes an array of the others, on the communicator that
/// [`Communicator::survivors`] returned, and says which are missing. This works for a lost array too.
pub struct DistArray<T: Element> {
    comm: Communicator,
    layout: Layout,
    distribution: Distribution,
    /// None after a collective call has failed halfway.
    session: Option<Session<'static, T>>,
    /// What such a call has left, for [`DistArray::own_copy`].
    closed: Option<Window<'static, T>>,
}

impl<T: Element> DistArray<T> {
    /// Collective. An array of `len` elements in total, all bytes zero.
    ///
    /// # Errors
    /// On every rank: lengths, distributions or types differ between ranks; a distribution has blocks of no elements;
    /// no memory on a rank; a rank died or left.
    pub fn new(comm: &Communicator, len: usize, distribution: Distribution) -> Result<Self> {
        Self::make("DistArray::new", comm, len, distribution, |_, _| Ok(()))
    }

    /// Collective. An array in which each element is the result of `of` for its global index. Each rank calls `of` for
    /// its own elements. All elements are set when this returns.
    ///
    /// ```
    /// # use transom_collections::{DistArray, Distribution, Result};
    /// # fn main() -> Result<()> {
    /// # let job = transom::Job::init()?;
    /// let squares = DistArray::from_fn(job.world(), 10, Distribution::Block, |index| index * index)?;
    /// assert_eq!(squares.get(9)?, 81);
    /// squares.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`DistArray::new`].
    pub fn from_fn(
        comm: &Communicator,
        len: usize,
        distribution: Distribution,
        mut of: impl FnMut(usize) -> T,
    ) -> Result<Self> {
        Self::make(
            "DistArray::from_fn",
            comm,
            len,
            distribution,
            |layout, own| {
                let indices = layout.own_ranges(comm.rank()).flatten();
                for (element, index) in own.iter_mut().zip(indices) {
                    *element = of(index);
                }
                Ok(())
            },
        )
    }

    /// Collective. A new array. Each rank sets its own elements before any other rank can access them. If `set` fails
    /// on one rank, this fails on all.
    pub(crate) fn make(
        operation: &'static str,
        comm: &Communicator,
        len: usize,
        distribution: Distribution,
        set: impl FnOnce(Layout, &mut [T]) -> Result<()>,
    ) -> Result<Self> {
        let element = type_name::<T>();
        let ours = format!("{len} elements of {element}, distributed as {distribution:?}");
        agreement::alike(comm, operation, &ours)?;
        let layout = Layout::new(operation, len, distribution, comm.size())?;
        let mut window = Window::allocate(comm, layout.own_len(comm.rank()))?.into_owned();
        let done = catch_unwind(AssertUnwindSafe(|| set(layout, window.local_mut()?)));
        let ours = match &done {
            Ok(Ok(())) => Ok(&[][..]),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it panicked".to_owned()),
        };
        if let Err(failed) = agreement::gather(comm, ours)? {
            window.free()?;
            done.unwrap_or_else(|panic| resume_unwind(panic))?;
            return Err(failed.during(operation));
        }
        Ok(Self {
            comm: comm.clone(),
            layout,
            distribution,
            session: Some(window.into_session()?),
            closed: None,
        })
    }

    /// Local. How many elements there are on all ranks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Local. True if the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Local. How the elements are distributed over the ranks.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// Local. The communicator whose ranks share the array.
    #[must_use]
    pub fn comm(&self) -> &Communicator {
        &self.comm
    }

    /// Local. How many elements this rank has.
    #[must_use]
    pub fn own_len(&self) -> usize {
        self.layout.own_len(self.comm.rank())
    }

    /// Local. The global indices of this rank's elements, in ascending order, which is that of
    /// [`with_own`](Self::with_own).
    pub fn own_indices(&self) -> impl Iterator<Item = usize> + Clone + use<T> {
        self.layout.own_ranges(self.comm.rank()).flatten()
    }

    /// Local. The rank that has an element.
    ///
    /// # Errors
    /// The array has no such element.
    pub fn owner(&self, index: usize) -> Result<u32> {
        self.place("owner", index).map(|(rank, _)| rank)
    }

    #[inline]
    fn place(&self, operation: &'static str, index: usize) -> Result<(u32, usize)> {
        match index < self.len() {
            true => Ok(self.layout.place(index)),
            false => Err(self.out_of_range(operation, index)),
        }
    }

    #[cold]
    fn out_of_range(&self, operation: &'static str, index: usize) -> Error {
        Error::IndexOutOfRange {
            operation,
            index,
            len: self.len(),
        }
    }

    #[inline]
    fn session(&self, operation: &'static str) -> Result<&Session<'static, T>> {
        self.session.as_ref().ok_or_else(|| lost(operation))
    }

    /// One element: its rank, its place there, and the session.
    #[inline]
    fn at(
        &self,
        operation: &'static str,
        index: usize,
    ) -> Result<(&Session<'static, T>, u32, usize)> {
        let (rank, at) = self.place(operation, index)?;
        Ok((self.session(operation)?, rank, at))
    }

    /// One-sided. Reads an element, of any type; not atomic.
    ///
    /// # Errors
    /// See [`DistArray`].
    #[inline]
    pub fn get(&self, index: usize) -> Result<T> {
        let (session, rank, at) = self.at("get", index)?;
        Ok(session.get_value(rank, at)?)
    }

    /// One-sided. Sets an element, of any type; not atomic.
    ///
    /// # Errors
    /// See [`DistArray`].
    #[inline]
    pub fn put(&self, index: usize, value: T) -> Result<()> {
        let (session, rank, at) = self.at("put", index)?;
        Ok(session.put_blocking(rank, at, &[value])?)
    }

    /// One-sided. Reads an element atomically.
    ///
    /// # Errors
    /// See [`DistArray`].
    #[inline]
    pub fn load(&self, index: usize) -> Result<T>
    where
        T: Accumulate,
    {
        let (session, rank, at) = self.at("load", index)?;
        Ok(session.load(rank, at)?)
    }

    /// One-sided. Sets an element atomically.
    ///
    /// # Errors
    /// See [`DistArray`].
    #[inline]
    pub fn store(&self, index: usize, value: T) -> Result<()>
    where
        T: Accumulate,
    {
        let (session, rank, at) = self.at("store", index)?;
        Ok(session.store(rank, at, value)?)
    }

    /// One-sided. Adds to an element atomically, with wrapping. Returns the previous value.
    ///
    /// # Errors
    /// See [`DistArray`].
    #[inline]
    pub fn fetch_add(&self, index: usize, add: T) -> Result<T>
    where
        T: Atomic,
    {
        let (session, rank, at) = self.at("fetch_add", index)?;
        Ok(session.fetch_add(rank, at, add)?)
    }

    /// One-sided. Replaces an element by `new` if it equals `expect`, atomically. Returns the previous value: the swap
    /// took place if that is `expect`.
    ///
    /// # Errors
    /// See [`DistArray`].
    #[inline]
    pub fn compare_swap(&self, index: usize, expect: T, new: T) -> Result<T>
    where
        T: Atomic,
    {
        let (session, rank, at) = self.at("compare_swap", index)?;
        Ok(session.compare_swap(rank, at, expect, new)?)
    }

    /// One-sided. Combines `value` into an element, atomically.
    ///
    /// # Errors
    /// See [`DistArray`]; an operation that is not defined for the type.
    #[inline]
    pub fn accumulate(&self, op: Op, index: usize, value: T) -> Result<()>
    where
        T: Accumulate,
    {
        let (session, rank, at) = self.at("accumulate", index)?;
        Ok(session.accumulate_blocking(rank, op, at, &[value])?)
    }

    /// One-sided. The elements of a range, on whichever ranks they are.
    ///
    /// ```
    /// # use transom_collections::{DistArray, Distribution, Result};
    /// # fn main() -> Result<()> {
    /// # let job = transom::Job::init()?;
    /// let array = DistArray::<f64>::new(job.world(), 100, Distribution::Block)?;
    /// if array.comm().rank() == 0 {
    ///     array.put_range(40, &[0.5; 20])?;
    /// }
    /// array.comm().barrier()?;
    /// assert_eq!(array.get_range(38..42)?, [0.0, 0.0, 0.5, 0.5]);
    /// array.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`DistArray`]; a range that ends before it starts.
    pub fn get_range(&self, range: Range<usize>) -> Result<Vec<T>> {
        const OPERATION: &str = "get_range";
        if range.start > range.end {
            return Err(Error::BadArgument {
                operation: OPERATION,
                what: format!("a range from {} to {}", range.start, range.end),
            });
        }
        self.check_range(OPERATION, &range)?;
        let mut elements = zeroed(OPERATION, range.len())?;
        self.get_ranges(OPERATION, [range].into_iter(), &mut elements)?;
        Ok(elements)
    }

    /// One-sided. As [`DistArray::get_range`], but into `dst`: as many elements as `dst` has, beginning at `start`.
    ///
    /// # Errors
    /// See [`DistArray`].
    pub fn get_range_into(&self, start: usize, dst: &mut [T]) -> Result<()> {
        const OPERATION: &str = "get_range_into";
        let range = start..start.saturating_add(dst.len());
        self.check_range(OPERATION, &range)?;
        self.get_ranges(OPERATION, [range].into_iter(), dst)
    }

    /// One-sided. Copies `src` to the elements that begin at `start`, on whichever ranks they are.
    ///
    /// # Errors
    /// See [`DistArray`].
    pub fn put_range(&self, start: usize, src: &[T]) -> Result<()> {
        const OPERATION: &str = "put_range";
        let range = start..start.saturating_add(src.len());
        self.check_range(OPERATION, &range)?;
        self.put_ranges(OPERATION, [range].into_iter(), src)
    }

    /// Sets the elements of ranges, one range after the other, as many as `src` has. The array has all of them.
    pub(crate) fn put_ranges(
        &self,
        operation: &'static str,
        mut ranges: impl Iterator<Item = Range<usize>> + Clone,
        src: &[T],
    ) -> Result<()> {
        let session = self.session(operation)?;
        let mut rest = src;
        let put = if self.has_short_runs() {
            session.batch(|batch| {
                self.each_list(ranges.flatten(), |places| {
                    batch.put_indexed(places, split(&mut rest, places.len()))
                })
            })
        } else {
            session.batch(|batch| {
                (ranges.by_ref().flat_map(|range| self.layout.runs(range))).try_for_each(|run| {
                    batch
                        .target(run.rank)?
                        .put(run.at, split(&mut rest, run.len))
                })
            })
        };
        Ok(put?)
    }

    /// Reads the elements of ranges, one range after the other, as many as `dst` has. The array has all of them.
    fn get_ranges(
        &self,
        operation: &'static str,
        mut ranges: impl Iterator<Item = Range<usize>> + Clone,
        dst: &mut [T],
    ) -> Result<()> {
        let session = self.session(operation)?;
        let mut rest = dst;
        let got = if self.has_short_runs() {
            session.batch(|batch| {
                self.each_list(ranges.flatten(), |places| {
                    batch.get_indexed(places, split_mut(&mut rest, places.len()))
                })
            })
        } else {
            session.batch(|batch| {
                (ranges.by_ref().flat_map(|range| self.layout.runs(range))).try_for_each(|run| {
                    let dst = split_mut(&mut rest, run.len);
                    batch.target(run.rank)?.get(run.at, dst)
                })
            })
        };
        Ok(got?)
    }

    fn has_short_runs(&self) -> bool {
        self.layout.block().saturating_mul(size_of::<T>()) < SHORT_RUN
    }

    fn check_range(&self, operation: &'static str, range: &Range<usize>) -> Result<()> {
        match range.end <= self.len() {
            true => Ok(()),
            false => Err(self.out_of_range(operation, range.start.max(self.len()))),
        }
    }

    /// One-sided. The elements at `indices`, in their order. A list of many indices costs a fraction of as many gets:
    /// mapped elements are read in a loop, and over a network the elements of each rank are transferred together.
    ///
    /// ```
    /// # use transom_collections::{DistArray, Distribution, Result};
    /// # fn main() -> Result<()> {
    /// # let job = transom::Job::init()?;
    /// let array = DistArray::from_fn(job.world(), 100, Distribution::Cyclic, |index| index as u32)?;
    /// assert_eq!(array.get_indexed(&[70, 3, 70])?, [70, 3, 70]);
    /// array.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`DistArray`].
    pub fn get_indexed(&self, indices: &[usize]) -> Result<Vec<T>> {
        const OPERATION: &str = "get_indexed";
        let mut elements = zeroed(OPERATION, indices.len())?;
        self.get_list(OPERATION, indices, &mut elements)?;
        Ok(elements)
    }

    /// One-sided. As [`DistArray::get_indexed`], but into `dst`.
    ///
    /// # Errors
    /// See [`DistArray`]; the lengths of `dst` and `indices` differ.
    pub fn get_indexed_into(&self, indices: &[usize], dst: &mut [T]) -> Result<()> {
        const OPERATION: &str = "get_indexed_into";
        same_length(OPERATION, dst.len(), indices)?;
        self.get_list(OPERATION, indices, dst)
    }

    fn get_list(&self, operation: &'static str, indices: &[usize], dst: &mut [T]) -> Result<()> {
        let session = self.check_list(operation, indices)?;
        let mut rest = dst;
        Ok(session.batch(|batch| {
            self.each_list(indices.iter().copied(), |places| {
                batch.get_indexed(places, split_mut(&mut rest, places.len()))
            })
        })?)
    }

    /// One-sided. Copies `src` to the elements at `indices`, in their order. It is as cheap as
    /// [`DistArray::get_indexed`].
    ///
    /// # Errors
    /// See [`DistArray`]; the lengths of `src` and `indices` differ.
    pub fn put_indexed(&self, indices: &[usize], src: &[T]) -> Result<()> {
        const OPERATION: &str = "put_indexed";
        same_length(OPERATION, src.len(), indices)?;
        let session = self.check_list(OPERATION, indices)?;
        let mut rest = src;
        Ok(session.batch(|batch| {
            self.each_list(indices.iter().copied(), |places| {
                batch.put_indexed(places, split(&mut rest, places.len()))
            })
        })?)
    }

    /// One-sided. Combines `src` into the elements at `indices`, each atomically, in their order. An index may occur
    /// several times. It is as cheap as [`DistArray::get_indexed`].
    ///
    /// # Errors
    /// As for [`DistArray::put_indexed`]; an operation that is not defined for the type.
    pub fn accumulate_indexed(&self, op: Op, indices: &[usize], src: &[T]) -> Result<()>
    where
        T: Accumulate,
    {
        const OPERATION: &str = "accumulate_indexed";
        same_length(OPERATION, src.len(), indices)?;
        let session = self.check_list(OPERATION, indices)?;
        let mut rest = src;
        Ok(session.batch(|batch| {
            self.each_list(indices.iter().copied(), |places| {
                batch.accumulate_indexed(op, places, split(&mut rest, places.len()))
            })
        })?)
    }

    /// One-sided. As [`DistArray::accumulate_indexed`], and returns the previous value at each index. [`Op::NoOp`]
    /// reads all values atomically.
    ///
    /// # Errors
    /// As for [`DistArray::accumulate_indexed`].
    pub fn get_accumulate_indexed(&self, op: Op, indices: &[usize], src: &[T]) -> Result<Vec<T>>
    where
        T: Accumulate,
    {
        const OPERATION: &str = "get_accumulate_indexed";
        same_length(OPERATION, src.len(), indices)?;
        let session = self.check_list(OPERATION, indices)?;
        let mut before = zeroed(OPERATION, indices.len())?;
        let (mut from, mut to) = (src, &mut before[..]);
        session.batch(|batch| {
            self.each_list(indices.iter().copied(), |places| {
                let (from, to) = (
                    split(&mut from, places.len()),
                    split_mut(&mut to, places.len()),
                );
                batch.get_accumulate_indexed(op, places, from, to)
            })
        })?;
        Ok(before)
    }

    /// Checks that the array has all of these elements, and returns its session.
    fn check_list(
        &self,
        operation: &'static str,
        indices: &[usize],
    ) -> Result<&Session<'static, T>> {
        let len = self.len();
        // Check all of them: a loop that ends early takes several times as long.
        if indices
            .iter()
            .fold(false, |out, &index| out | (index >= len))
        {
            let out = indices.iter().find(|&&index| index >= len);
            return Err(self.out_of_range(operation, out.copied().unwrap_or(len)));
        }
        self.session(operation)
    }

    /// Calls `act` with the places of up to `LIST` elements at a time. The array has all of them.
    #[inline]
    fn each_list(
        &self,
        mut indices: impl Iterator<Item = usize>,
        mut act: impl FnMut(&[(u32, usize)]) -> transom::Result<()>,
    ) -> transom::Result<()> {
        let mut places = Vec::with_capacity(indices.size_hint().0.min(LIST));
        loop {
            let some = indices.by_ref().take(LIST);
            places.extend(some.map(|index| self.layout.place(index)));
            if places.is_empty() {
                return Ok(());
            }
            act(&places)?;
            places.clear();
        }
    }

    /// Collective. Lends this rank its own elements, in the order of [`own_indices`](Self::own_indices), once no other
    /// rank accesses them. The call ends when `body` has returned on all ranks. Returns what `body` returns; if that is
    /// an error, the array is still usable.
    ///
    /// ```
    /// # use transom_collections::{DistArray, Distribution, Result};
    /// # fn main() -> Result<()> {
    /// # let job = transom::Job::init()?;
    /// let mut array = DistArray::<u64>::new(job.world(), 100, Distribution::Block)?;
    /// let indices = array.own_indices();
    /// let sum = array.with_own(|own| {
    ///     for (element, index) in own.iter_mut().zip(indices) {
    ///         *element = 2 * index as u64;
    ///     }
    ///     own.iter().sum::<u64>()
    /// })?;
    /// println!("rank {}: {sum}", array.comm().rank());
    /// array.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`DistArray`], collective calls.
    pub fn with_own<R>(&mut self, body: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        const OPERATION: &str = "with_own";
        let session = self.session.take().ok_or_else(|| lost(OPERATION))?;
        let mut window = session.into_window();
        if let Err(error) = window.close() {
            self.closed = Some(window);
            return Err(error.into());
        }
        // The other ranks wait for this one, and this one may continue after the panic.
        let done = catch_unwind(AssertUnwindSafe(|| window.local_mut().map(body)));
        match window.try_into_session() {
            Ok(session) => self.session = Some(session),
            Err((error, window)) => {
                self.closed = Some(window);
                return Err(error.into());
            }
        }
        Ok(done.unwrap_or_else(|panic| resume_unwind(panic))?)
    }

    /// Local. A copy of this rank's own elements, also after a death.
    pub(crate) fn own_copy(&self) -> Result<Vec<T>> {
        let own = 0..self.own_len();
        match (&self.session, &self.closed) {
            (Some(session), _) => Ok(session.read_own(own)?),
            (None, Some(window)) => Ok(window.read_own(own)?),
            (None, None) => Err(lost("carry_over")),
        }
    }

    /// The places of the elements.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Collective. Sets every element to `value`, which may differ by rank.
    ///
    /// # Errors
    /// See [`DistArray`], collective calls.
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.with_own(|own| own.fill(value))
    }

    /// Collective. All elements on every rank, as they are once all ranks have called this.
    ///
    /// # Errors
    /// See [`DistArray`]. If one rank has no memory for all elements, only that rank gets this error.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.comm.barrier()?;
        let elements = self.get_range(0..self.len());
        self.comm.barrier()?;
        elements
    }

    /// Collective. Distributes the elements in another way. During the call there is memory for both distributions.
    ///
    /// ```
    /// # use transom_collections::{DistArray, Distribution, Result};
    /// # fn main() -> Result<()> {
    /// # let job = transom::Job::init()?;
    /// let mut array = DistArray::from_fn(job.world(), 10, Distribution::Block, |index| index)?;
    /// array.redistribute(Distribution::Cyclic)?;
    /// assert_eq!(array.get(7)?, 7);
    /// array.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// On every rank, and the array is unchanged: distributions differ between ranks; blocks of no elements; no memory
    /// on a rank; a rank died or left.
    pub fn redistribute(&mut self, distribution: Distribution) -> Result<()> {
        const OPERATION: &str = "redistribute";
        // The closure runs after all ranks have entered the call, and no rank returns before all have their elements.
        let (comm, len) = (&self.comm, self.len());
        let new = Self::make(OPERATION, comm, len, distribution, |layout, own| {
            self.get_ranges(OPERATION, layout.own_ranges(comm.rank()), own)
        })?;
        std::mem::replace(self, new).free()
    }

    /// Collective. Waits for all ranks, and frees the memory.
    ///
    /// # Errors
    /// A rank died, left or makes another call. Then the memory is leaked, because other ranks may still access it.
    pub fn free(mut self) -> Result<()> {
        let session = self.session.take().ok_or_else(|| lost("free"))?;
        Ok(session.free()?)
    }
}

#[cold]
fn lost(operation: &'static str) -> Error {
    Error::BadArgument {
        operation,
        what: "a collective call on this array failed half way, so it was lost".to_owned(),
    }
}

fn same_length(operation: &'static str, ours: usize, indices: &[usize]) -> Result<()> {
    match ours == indices.len() {
        true => Ok(()),
        false => Err(Error::LengthsDiffer {
            operation,
            ours,
            theirs: indices.len(),
            side: "indices",
        }),
    }
}

pub(crate) fn zeroed<T: Element>(operation: &'static str, len: usize) -> Result<Vec<T>> {
    bytemuck::try_zeroed_vec(len).map_err(|()| Error::NoMemory {
        operation,
        bytes: len.saturating_mul(size_of::<T>()),
    })
}

/// Splits the first `len` elements off `rest`.
fn split<'a, T>(rest: &mut &'a [T], len: usize) -> &'a [T] {
    let (first, left) = rest.split_at(len);
    *rest = left;
    first
}

/// The same, for mutable elements.
fn split_mut<'a, T>(rest: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (first, left) = take(rest).split_at_mut(len);
    *rest = left;
    first
}

impl<T: Element> fmt::Debug for DistArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistArray")
            .field("len", &self.len())
            .field("distribution", &self.distribution)
            .field("comm", &self.comm)
            .finish_non_exhaustive()
    }
}

/// Threads can share an array, and move it between them.
const _: () = {
    const fn travels<A: Send + Sync>() {}
    travels::<DistArray<u64>>()
};
