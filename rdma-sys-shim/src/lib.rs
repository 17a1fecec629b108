//! The device layer of Transom: RDMA verbs as one interface, and providers of it.
//!
//! [`Device`] and [`Endpoint`] are the interface; the window layer is built on nothing else.
//! A [`Registry`] says which devices there are, and opens one. [`rdma`] reads what the kernel shows of
//! RDMA devices and chooses among them; it needs no verbs library.

#[cfg_attr(
    not(any(feature = "verbs", feature = "testkit")),
    allow(dead_code, reason = "no device of such a build needs it")
)]
mod agent_atomics;
mod assist;
mod channel;
mod control_group;
mod cross_memory;
mod device;
mod error;
mod fences;
mod fields;
mod fork;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod guard;
pub mod memory;
mod neighbours;
mod pages;
mod primitive;
#[doc(hidden)]
pub mod proof;
mod provider;
pub mod rdma;
mod rdma_devices;
mod registry;
mod sharing;
mod signals;
mod soft;
mod system;
mod tcp;
#[cfg(feature = "testkit")]
pub mod testkit;
mod variable;
#[cfg(feature = "verbs")]
mod verbs;
mod vma;
mod words;

pub use assist::{Assist, has_attached, serve_in_passing};
pub use channel::NetworkPlace;
pub use control_group::{ControlGroup, control_groups};
pub use device::batch::{BatchError, Each, LocalPiece, RemoteRun, StridedBlocks, TransferBatch};
pub use device::combine::{Combination, CombinedElements, Combiner, ElementRuns, Operands};
pub use device::{
    ALIGNMENT, Access, AtomicDomain, Capabilities, Device, Endpoint, Fetch, LIVENESS_INTERVAL,
    LocalRegion, Mapping, Nearest, OriginRegion, RemoteAddress, RemoteRegion, STORED_IN_ORDER,
    TargetThread, Ticket, Update, Usage, Via, Width,
};
pub use error::{Absence, Error, Result};
pub use fences::{fence_all, light_fence, take_fences};
pub use fields::beginning;
pub use memory::{Direction, Number};
pub use primitive::milliseconds;
pub use provider::{
    DeviceInfo, Found, JobSecret, JobSpan, Joining, Provider, State, Surroundings, options,
};
pub use registry::{Registry, is_automatic};
pub use sharing::{set_ranks_per_processor, stretch};
pub use signals::without_signals;
pub use soft::{BootstrapSegment, SEGMENT_BYTES, probe};
pub use system::{HostIdentity, longest_file, random};
pub use variable::variable;
pub use vma::allowed as access_allowed;

/// Whether this build has the verbs provider.
#[must_use]
pub const fn has_verbs() -> bool {
    cfg!(feature = "verbs")
}
