//! Requests: waiting for one operation.

use std::fmt;
use std::sync::Arc;

use rdma_sys_shim::{Endpoint, Ticket};

use crate::error::Result;
use crate::wait::Patience;

/// An operation that may still be under way (MPI-4.1, section 12.3.5).
#[must_use = "the buffer belongs to the operation until `wait` or `test` says that it is complete"]
pub struct Request {
    /// `None` once complete.
    posted: Option<Posted>,
}

struct Posted {
    endpoint: Arc<dyn Endpoint>,
    ticket: Ticket,
    patience: Patience,
}

impl Request {
    pub(crate) fn done() -> Self {
        Self { posted: None }
    }

    pub(crate) fn posted(endpoint: Arc<dyn Endpoint>, ticket: Ticket, patience: Patience) -> Self {
        Self {
            posted: Some(Posted {
                endpoint,
                ticket,
                patience,
            }),
        }
    }

    /// Local. True if the operation is complete: then its buffer is the caller's again.
    ///
    /// # Errors
    /// The operation failed.
    pub fn test(&mut self) -> Result<bool> {
        if let Some(posted) = &self.posted {
            if !posted.endpoint.completed(posted.ticket)? {
                return Ok(false);
            }
            self.posted = None;
        }
        Ok(true)
    }

    /// Local. Returns when the operation is complete.
    ///
    /// # Errors
    /// The operation failed.
    pub fn wait(mut self) -> Result<()> {
        self.complete()
    }

    /// As [`Request::wait`], and may be asked again. After an error too, the device no longer
    /// touches the buffer.
    pub(crate) fn complete(&mut self) -> Result<()> {
        if let Some(posted) = &self.posted {
            let Posted {
                endpoint,
                ticket,
                patience,
            } = posted;
            patience.complete(&**endpoint, *ticket)?;
            self.posted = None;
        }
        Ok(())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.posted {
            None => "Request(complete)",
            Some(_) => "Request(posted)",
        })
    }
}
