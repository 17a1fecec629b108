//! PMIx, for ranks that Open MPI's `mpirun`, PRRTE, or Slurm's `srun --mpi=pmix` has started. PMIx has no wire
//! protocol, but a library that comes with the launcher. Transom loads it if the launcher's variables ask for it.

mod client;
mod error;
mod library;

pub use client::Pmix;
pub use error::PmixError;
