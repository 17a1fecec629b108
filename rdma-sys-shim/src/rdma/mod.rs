//! RDMA devices as the kernel shows them in sysfs, and the rules by which device, port and GID
//! are chosen. Needs no verbs library, and is there in every build.

mod choose;
mod error;
mod gid;
mod limits;
mod model;
mod selector;
mod sysfs;

pub use choose::{Choice, choose, selector};
pub use error::SelectError;
pub use gid::{Family, Gid, GidEntry, GidType};
pub use limits::{AtomicScope, VerbsLimits};
pub use model::{LinkLayer, Port, PortState, RdmaDevice};
pub use selector::Selector;
pub use sysfs::{CLASS, read};
