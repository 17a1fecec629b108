//! What the environment says about who started this process.
//!
//! A process of a larger job that cannot reach the other ranks must not become a job of one rank: each of these jobs
//! would report success. So it is an error if the environment has variables of a launcher that this crate cannot use.
//!
//! More specific variables count first: a launcher's connection (`PMI_FD`), then Transom's own variables,
//! then torchrun, which a launcher may start once on each node, then the rest.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use crate::environment::{EnvironmentError, START_TIMEOUT};
use crate::pmi::{self, Launcher};
use crate::rendezvous::{Address, MAX_RANKS, Member, Secret};

const COUNT_FROM_ZERO: &str = "number the ranks of the job from 0 to one less than there are";

/// Who started this process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Starter {
    /// No launcher, or one that has started no other rank.
    Alone,
    Pmi(Launcher),
    Rendezvous(Member),
    /// A launcher that offers PMIx but not PMI-1.
    Pmix,
}

const RANK: &str = "TRANSOM_RANK";
const SIZE: &str = "TRANSOM_SIZE";
const RENDEZVOUS: &str = "TRANSOM_RENDEZVOUS";
const SECRET: &str = "TRANSOM_JOB_SECRET";

const TORCHRUN: &str = "TORCHELASTIC_RUN_ID";
const TORCH: [&str; 5] = [TORCHRUN, "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];
const FLUX: [&str; 2] = ["FLUX_TASK_RANK", "FLUX_JOB_SIZE"];
const INDEX: &str = "JOB_COMPLETION_INDEX";

const PMIX: [&str; 2] = ["PMIX_RANK", "PMIX_NAMESPACE"];

/// The variables by which launchers tell a process its rank and the number of ranks.
const LAUNCHERS: [[&str; 2]; 5] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    SLURM,
    ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"],
    ["PALS_RANKID", "PALS_NRANKS"],
    ["JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"],
];

/// SLURM_PROCID and SLURM_NTASKS are also set in a batch script, which may be a job of one rank. So they do not count
/// alone.
const SLURM: [&str; 2] = ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS"];

const SAY_WHO: &str = "start the job with `transom run`, `mpiexec.hydra`, Open MPI's `mpirun`, `srun --mpi=pmi2` \
                       or `srun --mpi=pmix`, or set TRANSOM_RANK, TRANSOM_SIZE and \
                       TRANSOM_RENDEZVOUS=HOST:PORT for each rank, or TRANSOM_SIZE=1 for a job of one rank";

const SAY_ALL: &str = "set TRANSOM_RANK, TRANSOM_SIZE and TRANSOM_RENDEZVOUS=HOST:PORT for each rank \
                       (host and port where rank 0 listens), or TRANSOM_SIZE=1 for a job of one rank";

/// Who started this process.
pub(super) fn detect(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Starter, EnvironmentError> {
    let environment = Environment(&variable);
    match pmi::detect(&variable) {
        Ok(Some(launcher)) => return environment.under(launcher),
        Ok(None) => {}
        // Complete variables of Transom make up for a launcher's broken ones.
        Err(error) => match environment.told() {
            Some(Ok(starter)) => return Ok(starter),
            _ => return Err(error),
        },
    }
    if let Some(told) = environment.told() {
        return told;
    }
    environment.guessed()
}

/// Looks up variables by their names.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'_> {
    fn is_set(&self, name: &str) -> bool {
        (self.0)(name).is_some()
    }

    fn number(&self, name: &str) -> Option<u32> {
        (self.0)(name)?.to_str()?.parse().ok()
    }

    /// Whether a launcher says that there are other ranks, or gives an unreadable number.
    fn several(&self, size: &str) -> bool {
        self.is_set(size) && self.number(size) != Some(1)
    }

    /// The same for launchers that set the rank's number only in ranks.
    fn one_of_several(&self, [rank, size]: [&str; 2]) -> bool {
        self.several(size) || self.is_set(rank) && !self.is_set(size)
    }

    fn error(
        &self,
        problem: impl Into<Cow<'static, str>>,
        names: &[&str],
        remedy: &'static str,
    ) -> EnvironmentError {
        EnvironmentError::new(problem, names, self.0, remedy)
    }

    /// Transom's own variables may be set for a whole container. They must not contradict the launcher.
    fn under(&self, launcher: Launcher) -> Result<Starter, EnvironmentError> {
        let differs =
            |name: &str, theirs: u32| self.is_set(name) && self.number(name) != Some(theirs);
        if differs(RANK, launcher.rank) || differs(SIZE, launcher.size) {
            return Err(self.error(
                "the launcher says something else than is said to Transom itself",
                &["PMI_RANK", "PMI_SIZE", RANK, SIZE],
                "unset either TRANSOM_RANK and TRANSOM_SIZE or the variables that begin with PMI",
            ));
        }
        Ok(Starter::Pmi(launcher))
    }

    /// What Transom's own variables say, if any of them is set.
    fn told(&self) -> Option<Result<Starter, EnvironmentError>> {
        let told = [RANK, SIZE, RENDEZVOUS]
            .iter()
            .any(|name| self.is_set(name));
        told.then(|| self.what_is_told())
    }

    fn what_is_told(&self) -> Result<Starter, EnvironmentError> {
        let (rank_name, size_name) = self.names();
        let names = [rank_name, size_name, RENDEZVOUS];
        let size = self.number(size_name);
        if size == Some(1) && matches!(self.number(RANK), None | Some(0)) && !self.is_broken(RANK) {
            return Ok(Starter::Alone);
        }
        let wrong = |problem: &str, remedy| Err(self.error(problem.to_owned(), &names, remedy));
        if self.is_broken(rank_name) || self.is_broken(size_name) {
            return wrong("a rank or a number of ranks is no whole number", SAY_ALL);
        }
        let (Some(rank), Some(size)) = (self.number(rank_name), size) else {
            return wrong(
                "it is not said which rank this is, and of how many",
                SAY_ALL,
            );
        };
        if size > MAX_RANKS {
            let problem = format!("{size} ranks are too many for a job: {MAX_RANKS} are the most");
            return wrong(&problem, SAY_ALL);
        }
        if rank >= size {
            let problem = format!("rank {rank} is not below the number of ranks, {size}");
            return wrong(&problem, COUNT_FROM_ZERO);
        }
        let address = match (self.0)(RENDEZVOUS) {
            Some(text) => self.address(&text)?,
            None if self.is_set(TORCHRUN) => self.of_torchrun()?,
            None => return wrong("it is not said where the ranks meet", SAY_ALL),
        };
        self.member(rank, size, address)
    }

    fn is_broken(&self, name: &str) -> bool {
        self.is_set(name) && self.number(name).is_none()
    }

    /// The variables for this rank's number and the number of ranks.
    fn names(&self) -> (&'static str, &'static str) {
        let theirs = [
            (RANK, (RANK, SIZE)),
            (TORCHRUN, ("RANK", "WORLD_SIZE")),
            (FLUX[0], (FLUX[0], FLUX[1])),
            (INDEX, (INDEX, SIZE)),
            ("RANK", ("RANK", "WORLD_SIZE")),
        ];
        let found = theirs.into_iter().find(|(sign, _)| self.is_set(sign));
        let (rank, size) = found.map_or((RANK, SIZE), |(_, names)| names);
        (rank, if self.is_set(SIZE) { SIZE } else { size })
    }

    fn address(&self, text: &OsString) -> Result<Address, EnvironmentError> {
        let parsed = text.to_str().map(Address::parse);
        match parsed.unwrap_or(Err("it is no text")) {
            Ok(address) => Ok(address),
            Err(problem) => Err(self.error(
                problem,
                &[RENDEZVOUS],
                "set TRANSOM_RENDEZVOUS to where rank 0 listens, as in 10.0.0.1:4711, [2001:db8::1]:4711 \
                 or node-7:4711",
            )),
        }
    }

    /// Torchrun's host of rank 0, at the port after torchrun's own. Torchrun's store or the program's uses torchrun's
    /// port.
    fn of_torchrun(&self) -> Result<Address, EnvironmentError> {
        let found = || {
            let port = u16::try_from(self.number("MASTER_PORT")?).ok()?;
            let port = match port {
                0 => return None,
                u16::MAX => port - 1,
                _ => port + 1,
            };
            let host = (self.0)("MASTER_ADDR")?.into_string().ok()?;
            let text = match host.contains(':') && !host.starts_with('[') {
                true => format!("[{host}]:{port}"),
                false => format!("{host}:{port}"),
            };
            Address::parse(&text).ok()
        };
        found().ok_or_else(|| {
            self.error(
                "torchrun does not say where rank 0 is",
                &TORCH,
                "set TRANSOM_RENDEZVOUS=HOST:PORT, where rank 0 listens",
            )
        })
    }

    fn member(&self, rank: u32, size: u32, address: Address) -> Result<Starter, EnvironmentError> {
        let secret = (self.0)(SECRET).map(OsString::into_vec);
        let secret = match secret {
            Some(secret) if secret.is_empty() => {
                return Err(self.error(
                    "the job's secret is empty",
                    &[SECRET],
                    "set it to something long that nobody can guess, the same for all ranks of the job",
                ));
            }
            Some(secret) => Secret::new(secret),
            // It is public.
            None if address.is_local() => Secret::new(""),
            None => {
                return Err(self.error(
                    "the ranks meet where other hosts may come too, and have no secret by which to know \
                     each other",
                    &[RENDEZVOUS, "MASTER_ADDR", SECRET],
                    "set TRANSOM_JOB_SECRET to something long that nobody can guess, the same for all \
                     ranks of the job",
                ));
            }
        };
        Ok(Starter::Rendezvous(Member {
            rank,
            size,
            address,
            secret,
            limited_by: START_TIMEOUT,
        }))
    }

    /// What the variables of other launchers say.
    fn guessed(&self) -> Result<Starter, EnvironmentError> {
        if self.is_set(TORCHRUN) {
            return self.what_is_told();
        }
        let several = |launcher: &[&str; 2]| match *launcher {
            SLURM => self.several(SLURM[1]),
            names => self.one_of_several(names),
        };
        let launcher = LAUNCHERS.iter().find(|launcher| several(launcher));
        let is_one = LAUNCHERS
            .iter()
            .any(|[_, size]| self.number(size) == Some(1));
        if PMIX.iter().any(|name| self.is_set(name)) {
            return match PMIX.iter().all(|name| self.is_set(name)) {
                _ if is_one && launcher.is_none() => Ok(Starter::Alone),
                true => Ok(Starter::Pmix),
                // libpmix would treat the process as a job of one rank.
                false => Err(self.error(
                    "this is half of what a launcher says that offers PMIx",
                    &[&PMIX[..], launcher.unwrap_or(&LAUNCHERS[0]), &["PMI_FD"]].concat(),
                    SAY_WHO,
                )),
            };
        }
        if let Some(launcher) = launcher {
            return Err(self.error(
                "the process is one of several, but its launcher offers neither PMI-1 nor PMIx",
                &[&launcher[..], &["PMI_FD"], &PMIX[..]].concat(),
                SAY_WHO,
            ));
        }
        if self.one_of_several(FLUX) {
            return Err(self.error(
                "the process is one of several, but Flux offers no PMI-1",
                &[FLUX[0], FLUX[1], "PMI_FD"],
                "run the job with `flux run -o pmi=simple`, or set TRANSOM_RENDEZVOUS=HOST:PORT, or \
                 TRANSOM_SIZE=1 for a job of one rank",
            ));
        }
        if self.is_set("RANK") && self.several("WORLD_SIZE") {
            return Err(self.error(
                "the process is one of several, and it is not said where they meet",
                &TORCH,
                "set TRANSOM_RENDEZVOUS=HOST:PORT, where rank 0 listens, or TRANSOM_SIZE=1 for a job of \
                 one rank",
            ));
        }
        if self.is_set(INDEX) {
            return Err(self.error(
                "the process is one pod of an indexed job, and it is not said of how many, and where \
                 they meet",
                &[INDEX, SIZE, RENDEZVOUS],
                "set TRANSOM_SIZE to the number of pods and TRANSOM_RENDEZVOUS=HOST:PORT to where the \
                 first one listens, or TRANSOM_SIZE=1 if each pod is a job of one rank",
            ));
        }
        Ok(Starter::Alone)
    }
}

#[cfg(test)]
mod tests;
