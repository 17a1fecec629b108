//! Why memory is not adopted.

use super::sys::Refusal;

/// Why memory is left as it is. None of these is an error: the region works, more slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Declined {
    #[error("the region has no bytes, or wraps around the address space")]
    Empty,
    #[error("the memory is not mapped")]
    NotMapped,
    #[error("the memory is a stack")]
    Stack,
    #[error("the memory is not private and anonymous")]
    NotPrivateAnonymous,
    #[error("the memory is not readable, writable and free of code")]
    Protection,
    #[error("the memory is locked")]
    Locked,
    #[error("the memory is marked MADV_DONTFORK")]
    DontFork,
    #[error("the memory is marked MADV_WIPEONFORK")]
    WipeOnFork,
    #[error("the memory is registered with a userfaultfd")]
    Userfaultfd,
    #[error("the memory has a protection key")]
    ProtectionKey,
    #[error("the mapping carries a flag that is not known to be harmless")]
    UnknownFlag,
    #[error("the memory has a NUMA policy, or its policy cannot be read")]
    Policy,
    #[error("another region that is not adopted lies on the same pages")]
    InUse,
    #[error("the process has several threads and no whole page lies within the region")]
    NoWholePage,
    #[error("only the edge pages are left, and they hold thread-local or allocator state")]
    EdgeHoldsRuntimeState,
    #[error("only the edge pages are left, and the kernel may write there (io_uring, devices)")]
    EdgeMayBeWrittenByKernel,
    #[error("the process has several threads and no userfaultfd can hold their writes ({0})")]
    NoUserfaultfd(Refusal),
    #[error("{moved} other pieces of memory are adopted, and this one is too small for one more")]
    TooMany { moved: usize },
    #[error("the limit of file sizes (`ulimit -f`) is below the size of the memory")]
    FileSizeLimit,
    #[error("the kernel refused ({0})")]
    Kernel(Refusal),
}

impl From<Refusal> for Declined {
    fn from(refusal: Refusal) -> Self {
        Self::Kernel(refusal)
    }
}
