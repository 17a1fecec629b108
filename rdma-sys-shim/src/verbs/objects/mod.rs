//! The objects of libibverbs as owned handles: each keeps alive what it was made from, and goes
//! back to the library when dropped.

mod completion;
mod context;
mod domain;
mod extended;
mod queue_pair;

pub(crate) use completion::{CompletionChannel, CompletionQueue};
pub(crate) use context::{Context, PortAttributes};
pub(crate) use domain::{MemoryRegion, ProtectionDomain};
pub(crate) use queue_pair::{AddressVector, Establish, Qos, QueueLimits, QueuePair};

use std::io;

use crate::{Error, Result};

/// What a call of libibverbs that returns `errno` means.
fn check(call: impl FnOnce() -> String, code: i32) -> Result<()> {
    match code {
        0 => Ok(()),
        // A few calls return −1 and set `errno` instead.
        -1 => Err(Error::last_os(call())),
        code => Err(Error::os(call(), io::Error::from_raw_os_error(code))),
    }
}
