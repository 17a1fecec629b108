//! Adoption: moving memory that the caller owns into memfds, in place, so that peers can map it.

mod declined;
mod maps;
mod memfd;
mod sys;
mod uffd;
