//! What can go wrong, and how the ranks agree on it.

use std::io;
use std::path::PathBuf;

use transom::Communicator;

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
    /// All ranks have this error, and it is the same.
    #[error("rank {rank}: {message}")]
    Agreed { rank: u32, message: String },
}

/// Collective. An error of one rank becomes everyone's; of several, that of the lowest rank.
pub(crate) fn agree<T>(comm: &Communicator, mine: Result<T, Error>) -> Result<T, Error> {
    let message = mine.as_ref().err().map(ToString::to_string);
    let messages = comm.allgatherv(message.unwrap_or_default().as_bytes())?;
    let failed = (0..).zip(messages).find(|(_, message)| !message.is_empty());
    match failed {
        Some((rank, message)) => Err(Error::Agreed {
            rank,
            message: String::from_utf8_lossy(&message).into_owned(),
        }),
        None => mine,
    }
}
