//! Pictures as temperatures: black is 0, white is 1.

mod made;
mod pgm;
mod png;

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::Path;

pub(crate) use self::made::made;
pub(crate) use self::png::write;

/// The most cells that a plate may have: 2 GiB of temperatures.
pub(crate) const MOST_CELLS: u64 = 1 << 28;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PictureError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("neither a PNG nor a PGM picture")]
    NotAPicture,
    #[error("not a proper PNG picture: {0}")]
    Png(String),
    #[error("not a proper PGM picture: {0}")]
    Pgm(&'static str),
    #[error("{width} x {height} cells are too many (legal: 1 to {MOST_CELLS})")]
    Size { width: u64, height: u64 },
}

/// Row by row.
#[derive(Debug, PartialEq)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) cells: Vec<f64>,
}

/// Reads a PNG or PGM picture; its first bytes say which it is.
pub(crate) fn read(path: &Path) -> Result<Picture, PictureError> {
    let mut file = BufReader::new(File::open(path)?);
    let mut magic = Vec::new();
    file.by_ref().take(8).read_to_end(&mut magic)?;
    file.rewind()?;
    match magic.as_slice() {
        png::MAGIC => png::read(file),
        [b'P', b'2' | b'5', ..] => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            pgm::parse(&bytes)
        }
        _ => Err(PictureError::NotAPicture),
    }
}

/// How many cells there are, if they are not too many.
pub(crate) fn cells(width: u64, height: u64) -> Result<usize, PictureError> {
    match width.checked_mul(height) {
        Some(cells) if (1..=MOST_CELLS).contains(&cells) => Ok(cells as usize),
        _ => Err(PictureError::Size { width, height }),
    }
}
