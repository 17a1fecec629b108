//! What a case is, how a rank runs it, and how a failed check is reported.

use std::fmt::Display;
use std::panic::Location;
use std::process::exit;
use std::time::Duration;

use transom::{Job, ThreadLevel};
use transom_testing::environment;
use transom_testing::job::{self, Launched, Others};

/// One case: a function that every rank of a job runs.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `topic/what_holds`.
    pub(crate) name: &'static str,
    /// The sizes of the jobs that it is run in.
    pub(crate) ranks: &'static [u32],
    pub(crate) run: fn(&Job) -> Outcome,
}

pub(crate) type Outcome = Result<(), Failure>;

/// A check that failed, or a call that ought to have succeeded.
pub(crate) struct Failure {
    place: &'static Location<'static>,
    message: String,
}

impl Failure {
    #[track_caller]
    pub(crate) fn new(message: impl Display) -> Self {
        Self {
            place: Location::caller(),
            message: message.to_string(),
        }
    }
}

impl From<transom::Error> for Failure {
    #[track_caller]
    fn from(error: transom::Error) -> Self {
        Self::new(format_args!("{error:?}"))
    }
}

/// Fails the case unless the condition holds.
macro_rules! check {
    ($condition:expr $(,)?) => {
        check!($condition, "{}", stringify!($condition))
    };
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::case::Failure::new(format_args!($($message)+)));
        }
    };
}
pub(crate) use check;

/// Fails the case unless both are equal.
macro_rules! check_eq {
    ($found:expr, $wanted:expr $(,)?) => {
        check_eq!($found, $wanted, "{}", stringify!($found))
    };
    ($found:expr, $wanted:expr, $($message:tt)+) => {
        match (&$found, &$wanted) {
            (found, wanted) => if found != wanted {
                return Err($crate::case::Failure::new(format_args!(
                    "{}: found {found:?}, wanted {wanted:?}", format_args!($($message)+)
                )));
            }
        }
    };
}
pub(crate) use check_eq;

/// Makes a table of cases: `cases!["topic": name @ [ranks], …]`.
macro_rules! cases {
    ($topic:literal: $($case:ident @ $ranks:expr),* $(,)?) => {
        &[$($crate::case::Case {
            name: concat!($topic, "/", stringify!($case)),
            ranks: &$ranks,
            run: $case,
        }),*]
    };
}
pub(crate) use cases;

/// Cases of ranks that share memory, or see the same files.
const ONE_HOST: [&str; 3] = [
    "shared/",
    "forked/shared_windows",
    "pscw/the_origin_may_compute_after_complete",
];

impl Case {
    /// Whether the ranks have to be on one host, as those of another launcher may not be.
    pub(crate) fn needs_one_host(&self) -> bool {
        ONE_HOST.iter().any(|name| self.name.starts_with(name))
    }

    /// The sizes of the jobs that it is run in here.
    pub(crate) fn sizes(&self) -> Vec<u32> {
        let Some(most) = environment::most_ranks() else {
            return self.ranks.to_vec();
        };
        let fitting = self.ranks.iter().copied().filter(|&ranks| ranks <= most);
        let smallest = self.ranks.iter().copied().min();
        fitting.max().or(smallest).into_iter().collect()
    }

    /// Runs the case in jobs over `device`.
    pub(crate) fn launch(&self, device: &str) -> Result<(), libtest_mimic::Failed> {
        (self.sizes().into_iter()).try_for_each(|ranks| launch_together(&[*self], ranks, device))
    }
}

/// What each further case in one job may take on top.
const FURTHER: Duration = Duration::from_secs(5);

/// And each rank.
const RANK: Duration = Duration::from_millis(100);

/// Runs cases in one job over `device`, one after the other.
pub(crate) fn launch_together(
    cases: &[Case],
    ranks: u32,
    device: &str,
) -> Result<(), libtest_mimic::Failed> {
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let limit = job::LIMIT + FURTHER * (cases.len() as u32 - 1) + RANK * ranks;
    let Launched { status, output, .. } =
        job::play_within(limit, ranks, device, Others::End, &names.join(" "));
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let ended = match status {
        Some(status) => status.to_string(),
        None => "killed at its time limit".to_owned(),
    };
    Err(format!("{ranks} ranks over {device}: {ended}\n{output}").into())
}

/// Runs cases, whose names are separated by blanks, as one rank of a job.
pub(crate) fn play(cases: &[Case], names: &str) {
    let find = |name| {
        let case = cases.iter().find(|case| case.name == name);
        case.unwrap_or_else(|| panic!("no case {name:?}"))
    };
    let cases: Vec<&Case> = names.split_whitespace().map(find).collect();
    // Both levels are run: they lock differently inside.
    let odd = environment::job_size() % 2 == 1;
    let level = if odd && !names.contains("threads/") {
        ThreadLevel::Serialized
    } else {
        ThreadLevel::Multiple
    };
    let job = match Job::init_thread(level) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("joining the job failed: {error:?}");
            exit(1);
        }
    };
    let rank = job.world().rank();
    for (number, case) in (1..).zip(&cases) {
        if rank == 0 && cases.len() > 1 {
            eprintln!("{number}: {}", case.name);
        }
        let mut outcome = (case.run)(&job);
        if outcome.is_ok() {
            outcome = job.world().barrier().map_err(Failure::from);
        }
        if let Err(Failure { place, message }) = outcome {
            eprintln!("{}: rank {rank} failed at {place}: {message}", case.name);
            // Not through the job's drop: the launcher ends the others, and reports this rank.
            exit(1);
        }
    }
}
