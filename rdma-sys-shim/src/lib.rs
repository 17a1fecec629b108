//! The device layer of Transom: RDMA verbs as one interface, and providers of it.
//!
//! [`Device`] and [`Endpoint`] are the interface; the window layer is built on nothing else.

mod device;
mod error;
mod soft;

pub use device::{
    Access, Adoption, AtomicDomain, Capabilities, Device, Endpoint, Liveness, Mapping, Region,
    RemoteAddress, RemoteRegion, Ticket, Width,
};
pub use error::{Error, Result};
