//! Adoption: moving memory that the caller owns into memfds, in place, so that peers can map it.

mod declined;
mod direct;
mod maps;
mod memfd;
mod neighbours;
mod protected;
mod stretch;
mod sys;
mod uffd;
