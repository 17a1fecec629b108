//! What rank 0 writes and shows.

use std::fs;
use std::io;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use png::EncodingError;

use crate::error::Error;
use crate::picture;

/// Writes a picture of a step to a folder, which is made where there is none.
pub(crate) fn write_picture(
    folder: &Path,
    step: u64,
    width: usize,
    height: usize,
    cells: &[f64],
) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|cause| Error::Output {
        path: folder.to_owned(),
        cause,
    })?;
    let path = folder.join(format!("heat-{step:06}.png"));
    picture::write(&path, width, height, cells).map_err(|error| Error::Output {
        path,
        cause: match error {
            EncodingError::IoError(cause) => cause,
            other => io::Error::other(other),
        },
    })
}

/// Writes the temperatures as they are.
pub(crate) fn write_raw(path: &Path, cells: &[f64]) -> Result<(), Error> {
    let bytes: &[u8] = bytemuck::cast_slice(cells);
    fs::write(path, bytes).map_err(|cause| Error::Output {
        path: path.to_owned(),
        cause,
    })
}

/// A bar on rank 0's terminal, if it has one.
pub(crate) fn progress(steps: u64, rank: u32) -> ProgressBar {
    if rank != 0 {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} step {pos} of {len}, {per_sec}, {eta} left");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
