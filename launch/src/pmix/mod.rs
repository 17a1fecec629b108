//! PMIx: how the ranks that Open MPI's `mpirun`, PRRTE, or Slurm's `srun --mpi=pmix` has started learn who
//! they are and tell each other something. It has no wire protocol, but a library that comes with the
//! launcher, which is loaded where a launcher's variables ask for it.

mod client;
mod error;
mod library;

pub use client::Pmix;
pub use error::PmixError;
