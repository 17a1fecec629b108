//! The collectives of one value on each rank.

use std::slice;

use super::{Communicator, IntoRank};
use crate::datatype::{Element, Op, Reduce};
use crate::error::Result;

impl Communicator {
    /// Collective. As [`Communicator::bcast`] of one element: returns `root`'s `value`; the others' are ignored.
    ///
    /// # Errors
    /// As for [`Communicator::bcast`].
    pub fn bcast_value<T: Element>(&self, mut value: T, root: impl IntoRank) -> Result<T> {
        self.bcast(slice::from_mut(&mut value), root)?;
        Ok(value)
    }

    /// Collective. As [`Communicator::gather`] of one element on each rank: `root` gets all of them, the others
    /// nothing.
    ///
    /// # Errors
    /// As for [`Communicator::gather`].
    pub fn gather_value<T: Element>(&self, value: T, root: impl IntoRank) -> Result<Vec<T>> {
        self.gather(slice::from_ref(&value), root)
    }

    /// Collective. As [`Communicator::allgather`] of one element on each rank.
    ///
    /// # Errors
    /// As for [`Communicator::allgather`].
    pub fn allgather_value<T: Element>(&self, value: T) -> Result<Vec<T>> {
        self.allgather(slice::from_ref(&value))
    }

    /// Collective. As [`Communicator::reduce`] of one element on each rank: `None` except at `root`.
    ///
    /// # Errors
    /// As for [`Communicator::reduce`].
    pub fn reduce_value<T: Reduce>(
        &self,
        value: T,
        op: Op,
        root: impl IntoRank,
    ) -> Result<Option<T>> {
        Ok(self.reduce(slice::from_ref(&value), op, root)?.pop())
    }

    /// Collective. As [`Communicator::allreduce`] of one element on each rank.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// use transom::Op;
    ///
    /// let ranks = world.allreduce_value(1_u32, Op::Sum)?;
    /// assert_eq!(ranks, world.size());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Communicator::allreduce`].
    pub fn allreduce_value<T: Reduce>(&self, mut value: T, op: Op) -> Result<T> {
        let result = self.allreduce(slice::from_ref(&value), op)?;
        slice::from_mut(&mut value).copy_from_slice(&result);
        Ok(value)
    }

    /// Collective. As [`Communicator::scan`] of one element on each rank.
    ///
    /// # Errors
    /// As for [`Communicator::scan`].
    pub fn scan_value<T: Reduce>(&self, mut value: T, op: Op) -> Result<T> {
        let result = self.scan(slice::from_ref(&value), op)?;
        slice::from_mut(&mut value).copy_from_slice(&result);
        Ok(value)
    }

    /// Collective. As [`Communicator::exscan`] of one element on each rank: `None` on rank 0. With [`Op::Sum`] of the
    /// lengths, it gives the index of a rank's first element if all elements are stored in the order of ranks.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// let mine = [0; 3];
    /// let start = world.exscan_value(mine.len(), transom::Op::Sum)?.unwrap_or(0);
    /// assert_eq!(start, 3 * world.rank() as usize);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Communicator::exscan`].
    pub fn exscan_value<T: Reduce>(&self, value: T, op: Op) -> Result<Option<T>> {
        Ok(self.exscan(slice::from_ref(&value), op)?.pop())
    }

    /// Collective. Whether `mine` is true on all ranks.
    ///
    /// # Errors
    /// A rank makes another call, died or left.
    pub fn all(&self, mine: bool) -> Result<bool> {
        Ok(self.allreduce_value(u8::from(mine), Op::Land)? != 0)
    }

    /// Collective. Whether `mine` is true on any rank.
    ///
    /// # Errors
    /// As for [`Communicator::all`].
    pub fn any(&self, mine: bool) -> Result<bool> {
        Ok(self.allreduce_value(u8::from(mine), Op::Lor)? != 0)
    }
}
