//! Which files are read, and how long they are.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use transom::Communicator;

use crate::error::Error;
use crate::list;
use transom_examples::{Failure, agree};

/// A file as rank 0 found it. What is appended to it later is not read.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

/// Collective. Looks at the files on rank 0, which tells the others: so the ranks agree on what
/// their shares are shares of, even if a file is being written.
pub(crate) fn survey(comm: &Communicator, paths: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    let found = match comm.rank() {
        0 => look(paths).map(|inputs| encode(&inputs)),
        _ => Ok(Vec::new()),
    };
    let mut bytes = agree(comm, found)?;
    let len = comm.bcast_value(bytes.len(), 0)?;
    bytes.resize(len, 0);
    comm.bcast(&mut bytes, 0)?;
    Ok(decode(&bytes))
}

fn look(paths: &[PathBuf]) -> Result<Vec<Input>, Error> {
    let documents;
    let paths = if paths.is_empty() {
        documents = documents_of_the_project()?;
        &documents
    } else {
        paths
    };
    let look_at = |path: &PathBuf| {
        let path = path.clone();
        match len_of(&path) {
            Ok(len) => Ok(Input { path, len }),
            Err(cause) => Err(Error::Input { path, cause }),
        }
    };
    paths.iter().map(look_at).collect()
}

/// The length of a file that can be read from any place.
fn len_of(path: &Path) -> io::Result<u64> {
    // Asked before it is opened, since to open a pipe waits for a writer.
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(File::open(path)?.metadata()?.len())
}

/// The Markdown files at the top of the project's source and in its `docs`: where it was built, so
/// that the program finds them from everywhere, or else here.
fn documents_of_the_project() -> Result<Vec<PathBuf>, Error> {
    for root in [env!("CARGO_MANIFEST_DIR"), "."].map(Path::new) {
        let mut paths = markdown_in(root);
        paths.extend(markdown_in(&root.join("docs")));
        if !paths.is_empty() {
            paths.sort();
            return Ok(paths);
        }
    }
    Err(Error::NoDocuments)
}

fn markdown_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

fn encode(inputs: &[Input]) -> Vec<u8> {
    list::encode((inputs.iter()).map(|input| (input.len, input.path.as_os_str().as_bytes())))
}

fn decode(list: &[u8]) -> Vec<Input> {
    let input = |(len, path)| Input {
        path: OsStr::from_bytes(path).into(),
        len,
    };
    list::decode(list).map(input).collect()
}
