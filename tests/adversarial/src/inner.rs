//! The device below. It completes each operation before its call returns.

use std::ops::Deref;
use std::sync::Arc;

use rdma_sys_shim::Endpoint;

/// A connection over the device below.
pub(crate) struct Inner {
    endpoint: Arc<dyn Endpoint>,
    pid: u32,
}

impl Inner {
    /// To the process `pid`.
    pub(crate) fn new(endpoint: Arc<dyn Endpoint>, pid: u32) -> Self {
        Self { endpoint, pid }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

impl Deref for Inner {
    type Target = dyn Endpoint;

    fn deref(&self) -> &Self::Target {
        &*self.endpoint
    }
}
