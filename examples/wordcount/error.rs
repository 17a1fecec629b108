//! What can go wrong.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {cause}", path.display())]
    Input { path: PathBuf, cause: io::Error },
    #[error("no files are given, and the documents of the project are not here: name some files")]
    NoDocuments,
    #[error("room for {capacity} words on each rank (--capacity): {cause}")]
    Capacity {
        capacity: usize,
        cause: transom_collections::Error,
    },
    #[error(
        "more words belong to rank {rank} than the {capacity} that it has room for: raise --capacity"
    )]
    Full { rank: u32, capacity: usize },
    #[error("standard output: {0}")]
    Output(io::Error),
    #[error(transparent)]
    Transom(#[from] transom::Error),
    #[error(transparent)]
    Collections(transom_collections::Error),
}

impl From<transom_collections::Error> for Error {
    fn from(error: transom_collections::Error) -> Self {
        match error {
            transom_collections::Error::Full { rank, capacity, .. } => {
                Self::Full { rank, capacity }
            }
            error => Self::Collections(error),
        }
    }
}
