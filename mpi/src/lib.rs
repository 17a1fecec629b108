//! Transom's windows for programs of MPI.
//!
//! The library stands in front of the MPI that a program was built for, its *host*, and defines the
//! functions of MPI-4.1's chapter 12 under the host's own names. All else stays the host's. Behind each of the
//! program's windows there is a window of Transom's; its handle is that of an empty window of the host's, the
//! carrier, which has the program's attributes, name and error handler.
//!
//! `docs/mpi.md` tells how it is used. It is built for one `mpi.h` at a time: that of the compiler wrapper in
//! the environment variable `MPICC`.

#[macro_use]
mod table;

mod attributes;
mod carrier;
mod constants;
mod creation;
mod environment;
mod errors;
mod exported;
mod groups;
mod host;
mod host_windows;
mod info;
mod keyval;
mod launcher;
mod loaded;
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
