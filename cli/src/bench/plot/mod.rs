//! Draws results: latency and bandwidth over size.

mod series;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::error::{BenchError, Result};
use super::record::Record;
use crate::picture::{Picture, svg};

/// A run or a file of runs, with its name.
pub(super) type Source<'a> = (String, &'a [Record]);

/// A file for a picture. It can be written, and its content stays until the picture is ready.
pub(super) struct PlotFile(PathBuf);

impl PlotFile {
    pub(super) fn probe(path: &Path) -> Result<Self> {
        let new = !path.exists();
        let open = OpenOptions::new().create(true).append(true).open(path);
        open.map_err(|source| BenchError::file(path, source))?;
        if new {
            // Otherwise a failed run would leave an empty file.
            let _ = fs::remove_file(path);
        }
        Ok(Self(path.to_owned()))
    }

    pub(super) fn draw(&self, sources: &[Source<'_>]) -> Result<()> {
        let picture = Picture::of(sources)?;
        let text = svg(&picture).map_err(BenchError::Draw)?;
        let Self(path) = self;
        let write = || File::create(path)?.write_all(text.as_bytes());
        write().map_err(|source| BenchError::file(path, source))
    }
}
