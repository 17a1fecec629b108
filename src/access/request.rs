//! Requests: waiting for one operation.

use std::fmt;
use std::sync::Arc;

use rdma_sys_shim::{Endpoint, Ticket};

use super::PROC_NULL;
use crate::error::{Error, Result};
use crate::peers::{Context, not_forked};
use crate::sync::behind_gets;
use crate::terms::{Aim, WorldRank};
use crate::window::Window;
use crate::window::target::Target;

/// An operation that may be in flight (MPI-4.1, section 12.3.5).
#[must_use = "the buffer belongs to the operation until `wait` or `test` says that it is complete"]
pub struct Request {
    /// `None` once complete.
    posted: Option<Posted>,
}

struct Posted {
    context: Arc<Context>,
    rank: WorldRank,
    endpoint: Arc<dyn Endpoint>,
    ticket: Ticket,
    until: Until,
}

/// The condition for a request to be complete.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// The buffer may be used again: for a put.
    Released,
    /// The data has arrived: for a get.
    Completed,
}

impl Posted {
    fn is_over(&self) -> Result<bool> {
        not_forked("request")?;
        let over = match self.until {
            Until::Released => self.endpoint.released(self.ticket),
            Until::Completed => self.endpoint.completed(self.ticket),
        };
        let over = over.map_err(|error| self.failed(error.into()))?;
        if over {
            self.context.check_unaccompanied("request")?;
        }
        Ok(over)
    }

    fn wait(&self) -> Result<()> {
        not_forked("request")?;
        let patience = self.context.patience();
        let over = match self.until {
            Until::Released => patience.release(&*self.endpoint, self.ticket),
            Until::Completed => patience.complete(&*self.endpoint, self.ticket),
        };
        over.map_err(|error| self.failed(error))?;
        self.context.check_unaccompanied("request")
    }

    #[cold]
    fn failed(&self, error: Error) -> Error {
        self.context.blame(self.rank, error).during("request")
    }
}

impl Request {
    /// Local. A request of an operation without work, such as one on [`PROC_NULL`](crate::raw::PROC_NULL): complete
    /// from the start.
    pub fn done() -> Self {
        Self { posted: None }
    }

    /// Local. True if the operation is complete; then its buffer may be used again.
    ///
    /// # Errors
    /// The operation failed, or a rank died.
    pub fn test(&mut self) -> Result<bool> {
        if let Some(posted) = &self.posted {
            if !posted.is_over()? {
                return Ok(false);
            }
            self.posted = None;
        }
        behind_gets();
        Ok(true)
    }

    /// Local. Returns when the operation is complete.
    ///
    /// # Errors
    /// The operation failed, or a rank died.
    pub fn wait(mut self) -> Result<()> {
        self.complete()
    }

    /// Local. As [`Request::wait`], but may be called again. After an error too, the device no longer accesses the
    /// buffer.
    ///
    /// # Errors
    /// As for [`Request::wait`].
    pub fn complete(&mut self) -> Result<()> {
        if let Some(posted) = &self.posted {
            posted.wait()?;
            self.posted = None;
        }
        behind_gets();
        Ok(())
    }
}

impl Window {
    /// Posts an operation with a request, which is complete at `until`.
    pub(super) fn requested(
        &self,
        aim: Aim,
        until: Until,
        post: impl FnOnce() -> Result<Ticket>,
    ) -> Result<Request> {
        self.needs_passive(aim)?;
        let ticket = post()?;
        self.request(aim.rank, ticket, until)
    }

    /// Requests exist only in passive-target epochs, except those of `PROC_NULL`, which need no epoch. If the window
    /// tolerates others, the operation itself finds out whether it is in an epoch.
    fn needs_passive(&self, aim: Aim) -> Result<()> {
        not_forked(aim.operation)?;
        match self.epochs.takes_requests() || aim.rank == PROC_NULL {
            true => Ok(()),
            false if self.tolerates_any_epoch => {
                self.log_epoch(aim.operation);
                Ok(())
            }
            false => {
                let target = self.targets.get(aim.rank as usize).map(Target::epoch);
                Err(self.epochs.refuse_request(aim, target))
            }
        }
    }

    /// The request of an operation that was posted with this ticket.
    fn request(&self, rank: u32, ticket: Ticket, until: Until) -> Result<Request> {
        if ticket == Ticket::DONE {
            // No later wait would notice an abort.
            self.context().check_unaccompanied("request")?;
            return Ok(Request::done());
        }
        let posted = Posted {
            context: self.team.context.clone(),
            rank: self.team.world_rank(rank),
            endpoint: self.on(Aim::new("request", rank)).route()?.endpoint.clone(),
            ticket,
            until,
        };
        Ok(Request {
            posted: Some(posted),
        })
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
