//! An RDMA adapter in user space: a library that answers the calls of libibverbs, so that programs which use reliable
//! connections run where there is no RDMA hardware, kernel module or right to load one. `docs/soft-hca.md` says how to
//! use it.
//!
//! | module | what |
//! |---|---|
//! | `verbs`, `abi` | the functions and structures of libibverbs |
//! | `fabric` | the file that all processes of a job map: queue pairs, regions, writes under way |
//! | `context`, `engine` | an open device, and its thread, which takes requests from send queues |
//! | `queue_pair`, `request`, `completion`, `region` | the objects of verbs |
//! | `locked`, `queue_memory` | the memory that they lock |
//! | `responder`, `placement`, `process` | what a request does at its target, and when it is in memory |
//! | `personality`, `identity`, `settings`, `sysfs` | what adapters differ in, and how programs find them |
//! | `failure`, `misuse`, `counters`, `model` | what fails by request; what programs do wrong; what they do, and how long that might take |

mod abi;
mod completion;
mod context;
mod counters;
mod engine;
mod error;
mod fabric;
mod failure;
mod identity;
pub mod job;
mod lock;
mod locked;
mod misuse;
mod model;
pub mod personality;
mod placement;
mod process;
mod queue_memory;
mod queue_pair;
mod region;
mod request;
mod responder;
pub mod settings;
mod sysfs;
#[cfg(test)]
mod tests;
mod verbs;
