//! Combinations of what a rank and those before it have.

use super::call::Call;
use super::{Communicator, bytes, bytes_mut, fold, is_defined, to_elements};
use crate::datatype::{Op, Reduce};
use crate::error::Result;

/// The number of bytes of all ranks together that are held at a time.
const PIECE: usize = 1 << 20;

impl Communicator {
    /// Collective. Combines the `data` of this rank and of the ranks before it element by element, in the order of
    /// ranks, and returns the result; `data` is not changed. Lengths are equal on all ranks (MPI-4.1, section 6.11.1,
    /// `MPI_Scan`).
    ///
    /// Each rank receives the data of all ranks, in pieces. For long data, a dedicated algorithm is faster.
    ///
    /// # Errors
    /// The operation is not defined for the type; lengths, types or operations differ; a rank died or left.
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn scan<T: Reduce>(&self, data: &[T], op: Op) -> Result<Vec<T>> {
        self.prefix("scan", data, op, self.rank() as usize + 1)
    }

    /// Collective. As [`Communicator::scan`], without this rank's own data; rank 0 gets nothing (MPI-4.1, section
    /// 6.11.2, `MPI_Exscan`).
    ///
    /// # Errors
    /// As for [`Communicator::scan`].
    #[must_use = "the result is returned; `data` is not changed"]
    pub fn exscan<T: Reduce>(&self, data: &[T], op: Op) -> Result<Vec<T>> {
        self.prefix("exscan", data, op, self.rank() as usize)
    }

    /// Collective. Combines the data of the first `count` ranks.
    fn prefix<T: Reduce>(
        &self,
        operation: &'static str,
        data: &[T],
        op: Op,
        count: usize,
    ) -> Result<Vec<T>> {
        let call = Call::new(operation).of(data).combining::<T>(op);
        let mut carrier = self.begin(operation, call, is_defined::<T>(operation, op))?;
        let ranks = self.size() as usize;
        let most = PIECE / size_of::<T>() / ranks;
        let mut result = Vec::new();
        for piece in data.chunks(most.max(1)) {
            let len = size_of_val(piece);
            let all = carrier.allgather(bytes(piece), &vec![len; ranks])?;
            let mut parts = all.chunks_exact(len).take(count);
            let Some(first) = parts.next() else {
                continue;
            };
            let mut sums: Vec<T> = to_elements(first);
            parts.for_each(|part| fold::<T>(op, bytes_mut(&mut sums), part));
            result.extend(sums);
        }
        Ok(result)
    }
}
