//! What can go wrong.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {cause}", path.display())]
    Input { path: PathBuf, cause: io::Error },
    #[error("no files are given, and the documents of the project are not here: name some files")]
    NoDocuments,
    #[error(
        "the {slots} slots for words that rank {rank} hosts are full: raise --slots, the number of \
         slots of each rank"
    )]
    TableFull { rank: u32, slots: usize },
    #[error(
        "the heap, {heap} bytes on each of {ranks} ranks, has no room for another word of {word} \
         bytes: raise --heap, the bytes of each rank"
    )]
    HeapFull {
        ranks: u32,
        heap: usize,
        word: usize,
    },
    #[error("a heap of {heap} bytes on each rank is too large (legal: up to {most}): lower --heap")]
    HeapTooLarge { heap: usize, most: u64 },
    #[error("standard output: {0}")]
    Output(io::Error),
    #[error(transparent)]
    Transom(#[from] transom::Error),
}
