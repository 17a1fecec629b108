//! What a case is, and how a process that the test started plays it.

use std::path::PathBuf;
use std::process::exit;

use transom::lower::Allgather as _;
use transom::{Job, ThreadLevel};
use transom_testing::{environment, processes};

use crate::files::Files;

/// Of a case, or of a part of it.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A program of some ranks.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `topic/what_holds`.
    pub(crate) name: &'static str,
    pub(crate) ranks: u32,
    pub(crate) play: fn(&Rank) -> Outcome,
}

/// The cases of a module: `cases!["topic": ranks: function, …]`.
#[macro_export]
macro_rules! cases {
    ($topic:literal: $($ranks:literal: $play:ident),* $(,)?) => {
        &[$($crate::started::Case {
            name: concat!($topic, "/", stringify!($play)),
            ranks: $ranks,
            play: $play,
        }),*]
    };
}

/// What a process knows of itself.
pub(crate) struct Rank {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) folder: PathBuf,
}

impl Rank {
    /// An allgather of all ranks.
    pub(crate) fn files(&self, name: &str) -> Files {
        Files::new(&self.folder, name, self.rank, self.size)
    }

    /// All are through with what they did before, which a barrier of the job does not say of a device
    /// that is late: its last signal may still be under way to another rank.
    pub(crate) fn meet(&self) -> Outcome {
        self.files("met").allgather(&[]).map(drop)
    }

    pub(crate) fn job(&self) -> transom::Result<Job> {
        Job::over(&self.files("start"), ThreadLevel::Multiple)
    }
}

impl Case {
    /// Runs the case over a device.
    pub(crate) fn start(&self, device: &str) -> Result<(), String> {
        processes::play(self.ranks, device, self.name)
    }
}

/// Plays the case of this name as one of its ranks.
pub(crate) fn play(cases: &[Case], name: &str) {
    let case = cases.iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("no case {name:?}"));
    let (rank, size) = environment::own_place();
    let folder = environment::own_folder();
    if let Err(error) = (case.play)(&Rank { rank, size, folder }) {
        eprintln!("rank {rank}: {error:?}");
        exit(1);
    }
}

/// Fails with `what`, which did not happen.
pub(crate) fn check(happened: bool, what: impl std::fmt::Display) -> Outcome {
    match happened {
        true => Ok(()),
        false => Err(what.to_string().into()),
    }
}

/// Of a call that has to fail.
pub(crate) fn error_of<T>(
    result: transom::Result<T>,
    call: &str,
) -> Result<transom::Error, String> {
    result.err().ok_or_else(|| format!("{call} succeeded"))
}
