//! Why a benchmark ended early.

use std::io;
use std::path::{Path, PathBuf};

use transom::launcher::LaunchError;

use super::results::{PlotError, SavedError};
use crate::USAGE;

pub(super) type Result<T> = std::result::Result<T, BenchError>;

#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    #[error(
        "bench measures between an origin and a target: it needs at least 2 ranks (found {ranks})"
    )]
    TooFewRanks { ranks: u32 },
    #[error(
        "-n {asked} was asked for in a job of {found} ranks; leave -n out, or start the job with \
         {asked}"
    )]
    JobSize { asked: u32, found: u32 },
    #[error(
        "--bind-to is for ranks that bench starts itself; these were started by another launcher, \
         which can bind them (as `transom run --bind-to` does)"
    )]
    BindTo,
    #[error("{operation} cannot work on {size} bytes (legal: {legal})")]
    Size {
        operation: String,
        size: usize,
        legal: &'static str,
    },
    #[error("{}", .0.kind())]
    Hint(transom::Error),
    #[error(
        "windows of {size} bytes need {needed} bytes of memory on {ranks} ranks, but {available} \
         are available; use smaller --sizes"
    )]
    Memory {
        size: usize,
        ranks: u32,
        needed: u128,
        available: u64,
    },
    #[error("a transfer through the kernel failed: {0}")]
    Attach(io::Error),
    #[error("a buffer of {size} bytes: out of memory")]
    Buffer { size: usize },
    #[error("cannot write {path:?}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{} and {} have no line in common", .a.display(), .b.display())]
    NothingInCommon { a: PathBuf, b: PathBuf },
    #[error("--plot would overwrite {path:?}, which is read or written as JSON")]
    SameFile { path: PathBuf },
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    #[error("cannot find the program to start as ranks: {0}")]
    Executable(io::Error),
    #[error(transparent)]
    Saved(#[from] SavedError),
    #[error(transparent)]
    Plot(#[from] PlotError),
    #[error(transparent)]
    Device(#[from] rdma_sys_shim::Error),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Library(#[from] transom::Error),
}

impl BenchError {
    /// The error of writing to a file, or to standard output if the path is `-`.
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        if path == Path::new("-") {
            return Self::Output(source);
        }
        let path = path.to_owned();
        Self::File { path, source }
    }

    /// Whether the command line is at fault. If so, every rank has found the same error.
    pub(super) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::TooFewRanks { .. }
                | Self::JobSize { .. }
                | Self::BindTo
                | Self::Size { .. }
                | Self::Hint(_)
                | Self::SameFile { .. }
        )
    }

    /// Whether the reader of the results has closed the pipe.
    pub(super) fn is_broken_pipe(&self) -> bool {
        let (Self::Output(error)
        | Self::File { source: error, .. }
        | Self::Plot(PlotError::File { source: error, .. })) = self
        else {
            return false;
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Launch(error) => error.exit_code(),
            Self::Attach(_)
            | Self::Buffer { .. }
            | Self::Plot(PlotError::Draw(_))
            | Self::Output(_)
            | Self::Executable(_)
            | Self::Library(_) => 1,
            _ => USAGE,
        }
    }
}
