//! The first calls in which all ranks meet, at the end of `MPI_Init`. A rank without this library does not come, so these
//! waits warn of that, and end as other waits for ranks at the start.

use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

use transom::ErrorClass;
use transom::lower::start_limits;

use crate::errors::{self, Failure, bad};
use crate::host::{self, HostError, check};
use crate::mpi_h::{MPI_Comm, MPI_Request};
use crate::{constants, report, world};

/// Why there is no job.
pub(crate) enum NoJob {
    /// All ranks give the same reason.
    Agreed(String),
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for NoJob {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The state of these waits.
pub(crate) struct Meeting {
    began: Instant,
    warning: Option<Duration>,
    limit: Option<Duration>,
}

/// Ranks that come at the same time meet within this.
const BRIEF: Duration = Duration::from_millis(20);

/// What a rank says, and then whether it takes part. The host may take a call of a rank without this library for a part
/// of this meeting; that call says something else.
const GREETING: [u8; 7] = *b"transom";

impl Meeting {
    pub(crate) fn new() -> transom::Result<Self> {
        let [warning, limit] = start_limits()?;
        Ok(Self {
            began: Instant::now(),
            warning,
            limit,
        })
    }

    /// A communicator of the world's ranks.
    pub(crate) fn duplicate_world(&mut self) -> std::result::Result<MPI_Comm, HostError> {
        let (mut comm, mut request) = (constants::comm_null(), constants::request_null());
        // SAFETY: both are locals, which live until the request is complete or the process ends; the host has begun.
        check(unsafe {
            host::PMPI_Comm_idup(constants::comm_world(), &raw mut comm, &raw mut request)
        })?;
        self.wait(request)?;
        Ok(comm)
    }

    /// Fails on all ranks if one of them does not take part: the others would wait for it in vain.
    pub(crate) fn all_take_part(
        &mut self,
        comm: MPI_Comm,
        size: usize,
        takes_part: bool,
    ) -> std::result::Result<(), NoJob> {
        let mut mine = [0; GREETING.len() + 1];
        mine[..GREETING.len()].copy_from_slice(&GREETING);
        mine[GREETING.len()] = takes_part.into();
        let mut all = vec![mine; size];
        let (byte, len) = (constants::byte(), mine.len() as c_int);
        let mut request = constants::request_null();
        // SAFETY: each rank passes `len` bytes, and there is room for `size` times as many. All of it lives until the
        // request is complete or the process ends.
        check(unsafe {
            host::PMPI_Iallgather(
                mine.as_ptr().cast(),
                len,
                byte,
                all.as_mut_ptr().cast(),
                len,
                byte,
                comm,
                &raw mut request,
            )
        })?;
        self.wait(request)?;
        if all.iter().any(|each| !each.starts_with(&GREETING)) {
            self.fail();
        }
        let is_absent = |each: &[u8; GREETING.len() + 1]| each[GREETING.len()] == 0;
        let why = match all.iter().position(is_absent) {
            None => return Ok(()),
            Some(_) if all.iter().all(is_absent) => "TRANSOM_MPI=0".to_owned(),
            Some(rank) => format!("rank {rank} has TRANSOM_MPI=0"),
        };
        Err(NoJob::Agreed(why))
    }

    fn wait(&mut self, mut request: MPI_Request) -> std::result::Result<(), HostError> {
        let mut flag = 0;
        loop {
            // SAFETY: the caller's request is not complete yet; the flag is a local.
            check(unsafe {
                host::PMPI_Test(&raw mut request, &raw mut flag, constants::status_ignore())
            })?;
            if flag != 0 {
                return Ok(());
            }
            let waited = self.began.elapsed();
            if self.limit.is_some_and(|limit| waited >= limit) {
                self.fail();
            }
            if self.warning.is_some_and(|after| waited >= after) {
                report::trouble(&format!("{}MPI_Init: {}", world::name(), self.problem()));
                self.warning = None;
            }
            match waited < BRIEF {
                true => thread::yield_now(),
                false => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn problem(&self) -> String {
        format!(
            "no answer for {} s from ranks of MPI_COMM_WORLD: was each of them started with `transom mpi`? To leave all \
             windows to the host, start them with it too, and with TRANSOM_MPI=0",
            self.began.elapsed().as_secs()
        )
    }

    fn fail(&self) -> ! {
        let failure = bad(ErrorClass::Other, self.problem());
        errors::end_all("MPI_Init", &failure, constants::comm_world())
    }
}
