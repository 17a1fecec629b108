//! An allgather of processes that share a directory.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use transom::lower::{Allgather, AllgatherError};
use transom_testing::environment::slowness;

/// For how long other ranks are waited for: less than a job may take, so that a rank says what it lacked.
const LIMIT: Duration = Duration::from_secs(40);

/// Each call's blocks are files of its own.
pub(crate) struct Files {
    folder: PathBuf,
    name: String,
    rank: u32,
    size: u32,
    calls: Cell<u32>,
    /// In which call this one does what it should not.
    fault: Option<(u32, Fault)>,
}

#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Says that it failed, after the others have got what they wait for.
    Fails,
    /// Answers without the last rank's block.
    Forgets,
    /// Answers with a block that is too short.
    Cuts,
}

impl Files {
    /// Exchanges of another name are others.
    pub(crate) fn new(folder: &Path, name: &str, rank: u32, size: u32) -> Self {
        Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            rank,
            size,
            calls: Cell::new(0),
            fault: None,
        }
    }

    pub(crate) fn with(self, call: u32, fault: Fault) -> Self {
        Self {
            fault: Some((call, fault)),
            ..self
        }
    }

    fn block(&self, call: u32, rank: u32) -> PathBuf {
        self.folder.join(format!("{}-{call}-{rank}", self.name))
    }
}

/// There at once as a whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("partly");
    fs::write(&beside, bytes)?;
    fs::rename(&beside, path)
}

/// Waits for a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, AllgatherError> {
    let begun = Instant::now();
    let limit = LIMIT * slowness();
    loop {
        match fs::read(path) {
            Ok(bytes) => return Ok(bytes),
            Err(_) if begun.elapsed() < limit => sleep(Duration::from_millis(1)),
            Err(error) => return Err(format!("{}: {error}", path.display()).into()),
        }
    }
}

// SAFETY: each rank writes a file of its own in each call, which appears as a whole, and reads those of that call. A
// fault changes no block but for its length or number, which the library refuses.
unsafe impl Allgather for Files {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
        let call = self.calls.get();
        self.calls.set(call + 1);
        write(&self.block(call, self.rank), mine)?;
        let mut all = (0..self.size)
            .map(|rank| read(&self.block(call, rank)))
            .collect::<Result<Vec<_>, _>>()?;
        match self.fault {
            Some((at, fault)) if at == call => match fault {
                Fault::Fails => return Err("the disk is full".into()),
                Fault::Forgets => drop(all.pop()),
                Fault::Cuts => all[0].truncate(1),
            },
            _ => {}
        }
        Ok(all)
    }
}
