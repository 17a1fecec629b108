//! The untyped interface: windows of bytes, with MPI's semantics and every rule checked at run
//! time. It is `unsafe` where memory is handed over.

pub use crate::access::{PROC_NULL, Request};
pub use crate::datatype::{Committed, Datatype, Layout, Order};
pub use crate::memory::registration::Registration;
pub use crate::sync::Assert;
pub use crate::terms::Flavor;
pub use crate::window::{
    CallbackResult, ErrorFunction, ErrorHandler, Keyval, MemoryModel, Progress, SharedPart, Window,
    get_address,
};
pub use rdma_sys_shim::AtomicDomain;
