//! RDMA devices as the kernel shows them in sysfs, and the rules by which device, port and GID
//! are chosen. Needs no verbs library, and is there in every build.

mod choose;
mod error;
mod gid;
mod info;
mod limits;
mod merit;
mod model;
mod near;
mod network;
mod object_limit;
mod selector;
mod sysfs;

pub use choose::{
    Choice, DefaultPrefix, alternatives, choose, default_prefix, selector, standings,
};
pub use error::{SelectError, Subject};
pub use gid::{Family, Gid, GidEntry, GidType, SUBNET};
pub use info::RdmaInfo;
pub(crate) use limits::capabilities;
pub use limits::{SEND_QUEUE, VerbsLimits, queue_bytes};
pub use merit::{Seat, Standing};
pub use model::{LinkLayer, Port, RdmaDevice};
pub use near::{NODES, Nearness};
pub use network::{Networks, PROC_NET};
#[cfg(feature = "verbs")]
pub(crate) use object_limit::explain_again;
pub use object_limit::{ObjectKind, ObjectLimit, object_limit};
pub use selector::Selector;
pub use sysfs::{CLASS, CONNECTION_MANAGER, class, read, traffic_class};
