//! Draws results: latency and bandwidth over size.

mod series;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::bench::record::Record;
use crate::picture::{Picture, svg};

/// A run or a file of runs, with its name.
pub(in crate::bench) type Source<'a> = (String, &'a [Record]);

type Result<T> = std::result::Result<T, PlotError>;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub(in crate::bench) enum PlotError {
    #[error("no line of the results is about a size, so that there is nothing to plot")]
    NoSizes,
    #[error("{found} lines are too many for one picture (at most {most})")]
    TooManySeries { found: usize, most: usize },
    #[error("cannot draw the picture: {0}")]
    Draw(String),
    #[error("cannot write {path:?}: {source}")]
    File { path: PathBuf, source: io::Error },
}

impl PlotError {
    fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { path, source }
    }
}

/// A file for a picture. It can be written, and its content stays until the picture is ready.
pub(in crate::bench) struct PlotFile(PathBuf);

impl PlotFile {
    pub(in crate::bench) fn probe(path: &Path) -> Result<Self> {
        let new = !path.exists();
        let open = OpenOptions::new().create(true).append(true).open(path);
        open.map_err(|source| PlotError::file(path, source))?;
        if new {
            // Otherwise a failed run would leave an empty file.
            let _ = fs::remove_file(path);
        }
        Ok(Self(path.to_owned()))
    }

    pub(in crate::bench) fn draw(&self, sources: &[Source<'_>]) -> Result<()> {
        let picture = Picture::of(sources)?;
        let text = svg(&picture).map_err(PlotError::Draw)?;
        let Self(path) = self;
        let write = || File::create(path)?.write_all(text.as_bytes());
        write().map_err(|source| PlotError::file(path, source))
    }
}
