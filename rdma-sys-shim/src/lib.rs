//! The device layer of Transom: RDMA verbs as one interface, and providers of it.
//!
//! [`Device`] and [`Endpoint`] are the interface; the window layer is built on nothing else.
//! [`list`] says which devices there are, [`open`] opens one.

mod device;
mod error;
mod inventory;
pub mod memory;
mod soft;

pub use device::{
    Access, Adoption, AtomicDomain, Capabilities, Device, Endpoint, Liveness, Mapping, Region,
    RemoteAddress, RemoteRegion, Ticket, Update, Width,
};
pub use error::{Absence, Error, Result};
pub use inventory::{DeviceInfo, Placement, State, is_automatic, list, open};
