//! What a job needs of whoever started its ranks.

use std::error::Error;

/// An allgather among some ranks, by whatever means they have: another communication library, files,
/// sockets.
///
/// # Safety
/// Ranks tell each other by it where their memory is, and access what they are told of. So the implementer promises, for
/// each call that returns blocks:
///
/// - There is one block for each rank, and block `r` is, byte for byte, what rank `r` passed to its own call. The calls
///   of a rank are told apart: the first of every rank go together, then the second, and so on.
/// - [`rank`](Self::rank) and [`size`](Self::size) are the same in every call. No two ranks have the same number, all
///   numbers are below the size, and all ranks name the same size.
/// - The ranks are processes of one job, or are about to become one.
///
/// A call that cannot keep this fails instead.
///
/// ```
/// use transom_launch::{Allgather, AllgatherError};
///
/// /// One rank needs nobody.
/// struct Alone;
///
/// // SAFETY: the one block is what the one rank passed.
/// unsafe impl Allgather for Alone {
///     fn rank(&self) -> u32 {
///         0
///     }
///     fn size(&self) -> u32 {
///         1
///     }
///     fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
///         Ok(vec![mine.to_vec()])
///     }
/// }
/// # assert_eq!(Alone.allgather(b"me").unwrap(), [b"me"]);
/// ```
pub unsafe trait Allgather {
    /// Local. Which of these ranks this is. Stays the same.
    fn rank(&self) -> u32;

    /// Local. How many these ranks are. Stays the same.
    fn size(&self) -> u32;

    /// Collective. Returns what each rank passed, in the order of ranks. In one call all ranks pass
    /// equally many bytes, and at least one; it returns only once all have come.
    ///
    /// # Errors
    /// The caller is told of them as they are, and makes no further call.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError>;
}

/// Why an [`Allgather`] failed.
pub type AllgatherError = Box<dyn Error + Send + Sync>;
