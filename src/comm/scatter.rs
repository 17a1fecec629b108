//! Collectives that give each rank something of its own.

use super::blocks::{RankBlock, RankBlocks};
use super::call::Call;
use super::carrier::Carrier;
use super::{Communicator, IntoRank, bytes, to_elements};
use crate::datatype::Element;
use crate::error::{Error, Misuse, Result};

impl Communicator {
    /// Collective. Cuts `root`'s `data` into one equal part for each rank, and returns on each rank its part, in the
    /// order of ranks. The other ranks' `data` is ignored (MPI-4.1, section 6.6).
    ///
    /// # Errors
    /// On every rank: `root` is not a rank, `root`'s elements cannot be cut into equal parts, roots or sizes of elements
    /// differ, a rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn scatter<T: Element>(&self, data: &[T], root: impl IntoRank) -> Result<Vec<T>> {
        const OPERATION: &str = "scatter";
        let (root, fit) = self.root(OPERATION, root);
        let fit = fit.and_then(|()| match self.rank() == root {
            true => self.cuts_evenly(OPERATION, data),
            false => Ok(()),
        });
        self.scatter_from(OPERATION, root, fit, || self.even_parts(data))
    }

    /// Collective. As [`Communicator::scatter`], but lengths may differ: `root` passes one vector for each rank. The
    /// other ranks' `parts` are ignored (MPI-4.1, section 6.6, `MPI_Scatterv`).
    ///
    /// # Errors
    /// On every rank: `root` is not a rank or passes a wrong number of vectors, roots or sizes of elements differ, a
    /// rank died or left.
    #[must_use = "the result is returned; `parts` is not changed"]
    pub fn scatterv<T: Element>(&self, parts: &[Vec<T>], root: impl IntoRank) -> Result<Vec<T>> {
        const OPERATION: &str = "scatterv";
        let (root, fit) = self.root(OPERATION, root);
        let fit = fit.and_then(|()| match self.rank() == root {
            true => self.one_for_each(OPERATION, parts.len()),
            false => Ok(()),
        });
        self.scatter_from(OPERATION, root, fit, || self.blocks(parts))
    }

    /// Collective. As [`Communicator::scatter`] with one element for each rank: returns this rank's element.
    ///
    /// # Errors
    /// As for [`Communicator::scatter`]; the number of `root`'s elements is not the number of ranks.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn scatter_value<T: Element>(&self, data: &[T], root: impl IntoRank) -> Result<T> {
        const OPERATION: &str = "scatter";
        let (root, fit) = self.root(OPERATION, root);
        let fit = fit.and_then(|()| match self.rank() == root {
            true => self.one_for_each(OPERATION, data.len()),
            false => Ok(()),
        });
        let mine = self.scatter_from(OPERATION, root, fit, || self.even_parts(data))?;
        match mine[..] {
            [value] => Ok(value),
            _ => Err(self.garbled(OPERATION, root, "its part for this rank")),
        }
    }

    /// Collective. Cuts each rank's `data` into one equal part for each rank, and gives each rank its part: returns the
    /// parts of all ranks for this rank, in the order of ranks. Lengths are equal on all ranks (MPI-4.1, section 6.8).
    ///
    /// # Errors
    /// On every rank: the elements cannot be cut into equal parts, lengths differ, a rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn alltoall<T: Element>(&self, data: &[T]) -> Result<Vec<T>> {
        const OPERATION: &str = "alltoall";
        let fit = self.cuts_evenly(OPERATION, data);
        let mut carrier = self.begin(OPERATION, Call::new(OPERATION).of(data), fit)?;
        let parts = self.parts_of_all(OPERATION, &mut **carrier, self.even_parts(data))?;
        let part = data.len() / self.size() as usize;
        match (0..).zip(&parts).find(|(_, other)| other.len() != part) {
            Some((rank, _)) => Err(self.garbled(OPERATION, rank, "its part for this rank")),
            None => Ok(parts.concat()),
        }
    }

    /// Collective. As [`Communicator::alltoall`], but lengths may differ: each rank passes one vector for each rank,
    /// and gets one from each (MPI-4.1, section 6.8, `MPI_Alltoallv`).
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// // Each number goes to the rank that is its remainder.
    /// let mut parts = vec![Vec::new(); world.size() as usize];
    /// for number in 0..100_u64 {
    ///     parts[number as usize % world.size() as usize].push(number);
    /// }
    /// let mine = world.alltoallv(&parts)?.concat();
    /// assert!(mine.iter().all(|number| number % u64::from(world.size()) == u64::from(world.rank())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// On every rank: a rank passes a wrong number of vectors, sizes of elements differ, a rank died or left.
    #[must_use = "the result is returned; `parts` is not changed"]
    pub fn alltoallv<T: Element>(&self, parts: &[Vec<T>]) -> Result<Vec<Vec<T>>> {
        const OPERATION: &str = "alltoallv";
        let fit = self.one_for_each(OPERATION, parts.len());
        let call = Call::new(OPERATION).of_any::<T>();
        let mut carrier = self.begin(OPERATION, call, fit)?;
        self.parts_of_all(OPERATION, &mut **carrier, self.blocks(parts))
    }

    /// Collective. Returns this rank's part of `parts` at `root`.
    fn scatter_from<T: Element>(
        &self,
        operation: &'static str,
        root: u32,
        fit: Result<()>,
        parts: impl FnOnce() -> RankBlocks,
    ) -> Result<Vec<T>> {
        let call = Call::new(operation).of_any::<T>().rooted(root);
        let mut carrier = self.begin(operation, call, fit)?;
        let parts = match self.rank() == root {
            true => parts(),
            false => RankBlocks::default(),
        };
        let mine = carrier.alltoall(parts)?;
        let ours = |&(from, to, _): &RankBlock<'_>| (from, to) == (root, self.rank());
        match mine.iter().find(ours) {
            Some((_, _, part)) if part.len() % size_of::<T>() == 0 => Ok(to_elements(part)),
            _ => Err(self.garbled(operation, root, "its part for this rank")),
        }
    }

    /// Collective. Returns the part of each rank for this rank.
    fn parts_of_all<T: Element>(
        &self,
        operation: &'static str,
        carrier: &mut dyn Carrier,
        parts: RankBlocks,
    ) -> Result<Vec<Vec<T>>> {
        let arrived = carrier.alltoall(parts)?;
        let mut all = vec![None; self.size() as usize];
        for (from, _, part) in arrived.iter().filter(|&(_, to, _)| to == self.rank()) {
            let whole = part.len() % size_of::<T>() == 0;
            all[from as usize] = whole.then(|| to_elements(part));
        }
        let one_each = (0..).zip(all).map(|(rank, part)| {
            part.ok_or_else(|| self.garbled(operation, rank, "its part for this rank"))
        });
        one_each.collect()
    }

    fn blocks<T: Element>(&self, parts: &[Vec<T>]) -> RankBlocks {
        let mut blocks = RankBlocks::default();
        for (to, part) in (0..).zip(parts) {
            blocks.add(self.rank(), to, bytes(part));
        }
        blocks
    }

    /// Cuts the elements into equal parts; their number must be divisible.
    fn even_parts<T: Element>(&self, data: &[T]) -> RankBlocks {
        let part = data.len() / self.size() as usize;
        let mut blocks = RankBlocks::default();
        for to in 0..self.size() {
            let part = &data[to as usize * part..][..part];
            blocks.add(self.rank(), to, bytes(part));
        }
        blocks
    }

    fn cuts_evenly<T>(&self, operation: &'static str, data: &[T]) -> Result<()> {
        let (count, ranks) = (data.len() as u64, self.size());
        match count.is_multiple_of(ranks.into()) {
            true => Ok(()),
            false => Err(Error::new(operation, Misuse::UnequalParts { count, ranks })),
        }
    }

    fn one_for_each(&self, operation: &'static str, found: usize) -> Result<()> {
        let (found, ranks) = (found as u64, self.size());
        match found == u64::from(ranks) {
            true => Ok(()),
            false => Err(Error::new(operation, Misuse::PartCount { found, ranks })),
        }
    }
}
