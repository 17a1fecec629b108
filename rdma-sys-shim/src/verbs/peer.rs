//! Who is at the other end, for error messages.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) pid: u32,
    pub(super) host: Arc<str>,
    /// Its device and port address, for messages.
    pub(super) port: Arc<str>,
}
