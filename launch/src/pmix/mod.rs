//! PMIx, for ranks that Open MPI's `mpirun`, PRRTE, or Slurm's `srun --mpi=pmix` has started. PMIx has no wire
//! protocol, but a library that comes with the launcher. Transom loads it if the launcher's variables ask for it.
//!
//! In an allgather, each rank puts its block under a key that contains the number of the call, commits it, calls a
//! fence that collects the data, and gets each rank's block by name. The end of a fence does not prove that all ranks
//! have called it; only reading every block does. The library stays loaded, since it has threads. `PMIx_Finalize` ends
//! the job, without which Open MPI counts the rank as failed; a forked child never calls it. If a launcher offers both,
//! PMI-1 is used.

mod client;
mod error;
mod library;

pub use client::Pmix;
pub use error::PmixError;
