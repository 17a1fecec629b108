//! What can go wrong apart from the library.

use std::io;
use std::path::PathBuf;

use crate::picture::PictureError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {cause}", path.display())]
    Picture { path: PathBuf, cause: PictureError },
    #[error(transparent)]
    Made(PictureError),
    #[error("{}: {cause}", path.display())]
    Output { path: PathBuf, cause: io::Error },
    #[error(
        "cell {x}, {y} is {ours:e} after {steps} steps, but {serial:e} where one rank computes alone"
    )]
    Differs {
        x: usize,
        y: usize,
        steps: u64,
        ours: f64,
        serial: f64,
    },
    #[error(transparent)]
    Collections(#[from] transom_collections::Error),
}
