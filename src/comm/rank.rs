//! The numbers by which programs name ranks.

use crate::error::{Error, Misuse, Result};

mod sealed {
    /// Other implementations would have to say what becomes of a number that is not a rank.
    pub trait Sealed {}
}

/// A number that names a rank: `u32`, as ranks are, and `usize` and `i32`, as indices and literals are. If the number
/// is not a rank, for example negative, the call that takes it returns an error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a rank",
    label = "this is no rank",
    note = "a rank is a `u32`, a `usize` or an `i32`"
)]
pub trait IntoRank: IntoTarget {
    /// Local. This number as one of `size` ranks, for the call `operation`.
    ///
    /// # Errors
    /// The number is not one of these ranks.
    fn into_rank(self, operation: &'static str, size: u32) -> Result<u32>;
}

/// The target of an operation: a rank, by a number as in [`IntoRank`], or an `Option<u32>`, where `None` is no rank
/// (MPI-4.1, section 12.3, `MPI_PROC_NULL`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a target",
    label = "this is no target",
    note = "a target is a rank, which is a `u32`, a `usize` or an `i32`; or an `Option<u32>`, of which `None` is nobody"
)]
pub trait IntoTarget: Copy + sealed::Sealed {
    /// Local. This number as one of `size` ranks, or `None` for `MPI_PROC_NULL`, for the call `operation`.
    ///
    /// # Errors
    /// The number is not one of these ranks.
    fn into_target(self, operation: &'static str, size: u32) -> Result<Option<u32>>;
}

#[cold]
fn no_rank(operation: &'static str, number: i128, size: u32) -> Error {
    let misuse = match u32::try_from(number) {
        Ok(rank) => Misuse::RankOutOfRange { rank, size },
        Err(_) => Misuse::NoRank { number, size },
    };
    Error::new(operation, misuse)
}

impl sealed::Sealed for u32 {}
impl sealed::Sealed for usize {}
impl sealed::Sealed for i32 {}

impl IntoRank for u32 {
    #[inline]
    fn into_rank(self, operation: &'static str, size: u32) -> Result<u32> {
        match self < size {
            true => Ok(self),
            false => Err(no_rank(operation, self.into(), size)),
        }
    }
}

impl IntoRank for usize {
    #[inline]
    fn into_rank(self, operation: &'static str, size: u32) -> Result<u32> {
        match u32::try_from(self) {
            Ok(rank) if rank < size => Ok(rank),
            _ => Err(no_rank(operation, self as i128, size)),
        }
    }
}

impl IntoRank for i32 {
    #[inline]
    fn into_rank(self, operation: &'static str, size: u32) -> Result<u32> {
        match u32::try_from(self) {
            Ok(rank) if rank < size => Ok(rank),
            _ => Err(no_rank(operation, self.into(), size)),
        }
    }
}

impl IntoTarget for u32 {
    #[inline]
    fn into_target(self, operation: &'static str, size: u32) -> Result<Option<u32>> {
        self.into_rank(operation, size).map(Some)
    }
}

impl IntoTarget for usize {
    #[inline]
    fn into_target(self, operation: &'static str, size: u32) -> Result<Option<u32>> {
        self.into_rank(operation, size).map(Some)
    }
}

impl IntoTarget for i32 {
    #[inline]
    fn into_target(self, operation: &'static str, size: u32) -> Result<Option<u32>> {
        self.into_rank(operation, size).map(Some)
    }
}

impl sealed::Sealed for Option<u32> {}

impl IntoTarget for Option<u32> {
    #[inline]
    fn into_target(self, operation: &'static str, size: u32) -> Result<Self> {
        match self {
            Some(rank) => rank.into_target(operation, size),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn numbers_of_each_type_name_the_same_ranks() {
        for rank in 0..3_u32 {
            let named = [
                rank.into_rank("lock", 3),
                (rank as usize).into_rank("lock", 3),
                (rank as i32).into_rank("lock", 3),
            ];
            assert!(named.into_iter().all(|named| named.unwrap() == rank));
            assert_eq!(Some(rank).into_target("target", 3).unwrap(), Some(rank));
            assert_eq!(rank.into_target("target", 3).unwrap(), Some(rank));
        }
        assert_eq!(None.into_target("target", 3).unwrap(), None);
    }

    #[test]
    fn numbers_of_no_rank_are_said_as_they_are() {
        let refused = [
            (3_u32.into_rank("lock", 3), "lock: rank 3 is not one"),
            (u32::MAX.into_rank("lock", 3), "rank 4294967295 is"),
            (3_i32.into_rank("lock", 3), "rank 3 is not one"),
            ((-1).into_rank("lock", 3), "-1 is not one of these 3 ranks"),
            (i32::MIN.into_rank("lock", 3), "-2147483648 is"),
            // Each would be rank 1 if its upper half were lost.
            ((1_usize << 32 | 1).into_rank("lock", 3), "4294967297 is"),
            (usize::MAX.into_rank("lock", 3), "18446744073709551615 is"),
        ];
        for (result, words) in refused {
            let error = result.unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(
                (error.class(), error.operation()),
                (ErrorClass::Rank, "lock")
            );
        }
        let error = Some(7).into_target("target", 3).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Rank);
    }
}
