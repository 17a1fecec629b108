//! Transom's windows for MPI programs.
//!
//! The library stands in front of the MPI that a program was built for, its *host*, and defines the functions of
//! MPI-4.1's chapter 12 under the host's own names. The host provides all other functions. Each of the program's
//! windows has a window of Transom behind it. Its handle is that of an empty window of the host, the carrier, which
//! holds the program's attributes, name and error handler.
//!
//! `docs/mpi.md` describes its use. It is built for one `mpi.h`: that of the compiler wrapper in the environment
//! variable `MPICC`.

#[macro_use]
mod table;

mod attributes;
mod bypassed;
mod carrier;
mod constants;
mod creation;
mod environment;
mod errors;
mod exported;
mod groups;
mod host;
mod host_progress;
mod host_windows;
mod info;
mod keyval;
mod launcher;
mod loaded;
mod meeting;
mod memory;
mod mpi_h;
mod on_windows;
mod operations;
mod process;
mod report;
mod requests;
mod synchronise;
mod types;
mod windows;
mod world;
