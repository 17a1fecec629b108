//! Processes that nobody but this test starts.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use transom::{Job, ThreadLevel};

use crate::files::Files;

pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

const CASE: &str = "LOWER_CASE";
const RANK: &str = "LOWER_RANK";
const SIZE: &str = "LOWER_SIZE";
const FOLDER: &str = "LOWER_FOLDER";
/// For how long all ranks together may run.
const LIMIT: Duration = Duration::from_secs(180);

/// A program of some ranks.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) ranks: u32,
    pub(crate) play: fn(&Rank) -> Outcome,
}

/// The cases of a module: `cases![ranks: function, …]`.
#[macro_export]
macro_rules! cases {
    ($($ranks:literal: $play:ident),* $(,)?) => {
        &[$($crate::started::Case {
            name: stringify!($play),
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
    case: String,
}

impl Rank {
    pub(crate) fn from_env() -> Option<Self> {
        let number = |name: &str| env::var(name).ok()?.parse().ok();
        Some(Self {
            rank: number(RANK)?,
            size: number(SIZE)?,
            folder: env::var_os(FOLDER)?.into(),
            case: env::var(CASE).ok()?,
        })
    }

    pub(crate) fn play(&self, cases: &[Case]) {
        let case = cases.iter().find(|case| case.name == self.case);
        let played = case.map(|case| (case.play)(self));
        if let Some(Ok(())) = played {
            return;
        }
        eprintln!("rank {}: {played:?}", self.rank);
        std::process::exit(1);
    }

    /// An allgather of all ranks.
    pub(crate) fn files(&self, name: &str) -> Files {
        Files::new(&self.folder, name, self.rank, self.size)
    }

    pub(crate) fn job(&self) -> transom::Result<Job> {
        Job::over(&self.files("start"), ThreadLevel::Multiple)
    }
}

impl Case {
    /// Starts the ranks and waits for them. All have to succeed.
    pub(crate) fn start(&self, device: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut ranks: Vec<_> = (0..self.ranks)
            .map(|rank| self.spawn(device, rank, folder.path()))
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && ranks.iter_mut().any(runs) {
            sleep(Duration::from_millis(5));
        }
        let late: Vec<bool> = ranks.iter_mut().map(runs).collect();
        for rank in &mut ranks {
            let _ = rank.kill();
        }
        let mut failures = Vec::new();
        for ((rank, child), late) in (0..).zip(ranks).zip(late) {
            let output = child.wait_with_output().expect("a child can be waited for");
            let words = String::from_utf8_lossy(&output.stderr);
            if late {
                failures.push(format!("rank {rank} has not ended in {LIMIT:?}; {words}"));
            } else if !output.status.success() {
                failures.push(format!("rank {rank}: {}; {words}", output.status));
            }
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(failures.join("\n")),
        }
    }

    fn spawn(&self, device: &str, rank: u32, folder: &Path) -> Child {
        let program = env::current_exe().expect("the test binary is a file");
        // No launcher's variables: they would say who this is.
        Command::new(program)
            .env_clear()
            .env("TRANSOM_DEVICE", device)
            .env(CASE, self.name)
            .env(RANK, rank.to_string())
            .env(SIZE, self.ranks.to_string())
            .env(FOLDER, folder)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the test binary starts")
    }
}

fn runs(child: &mut Child) -> bool {
    child.try_wait().is_ok_and(|ended| ended.is_none())
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
