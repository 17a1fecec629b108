//! An endpoint from the engine's point of view: its schedule, its operations, and the progress that it reports to the
//! poster.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rdma_sys_shim::{Error, Result};

use crate::inner::Inner;
use crate::operation::PendingOperation;
use crate::options::{DEVICE, Fault};
use crate::schedule::{Next, Schedule, Step};

/// The progress of an endpoint. The engine writes it, except for fields of the poster.
#[derive(Default)]
pub(crate) struct Progress {
    /// The last ticket given out. The poster writes it.
    pub(crate) posted: AtomicU64,
    completed: AtomicU64,
    released: AtomicU64,
    /// Whether operations may wait for a caller to ask for their completion. The poster writes it.
    waiting: AtomicBool,
    /// Why no operation after `completed` will ever complete.
    failure: OnceLock<Error>,
}

impl Progress {
    pub(crate) fn completed(&self, ticket: u64) -> Result<bool> {
        self.reached(&self.completed, ticket)
    }

    pub(crate) fn released(&self, ticket: u64) -> Result<bool> {
        self.reached(&self.released, ticket)
    }

    fn reached(&self, mark: &AtomicU64, ticket: u64) -> Result<bool> {
        if mark.load(Ordering::Acquire) >= ticket {
            return Ok(true);
        }
        self.intact().map(|()| false)
    }

    /// Returns the first failure, if there is one.
    pub(crate) fn intact(&self) -> Result<()> {
        self.failure
            .get()
            .map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// Records that an operation that was sent to the engine waits.
    pub(crate) fn note_waiting(&self) {
        self.waiting.store(true, Ordering::Release);
    }

    /// Whether operations wait. The caller then tells the engine that their completion is asked for.
    pub(crate) fn take_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::AcqRel)
    }

    /// The number of operations in progress.
    pub(crate) fn pending(&self) -> u64 {
        let completed = self.completed.load(Ordering::Acquire);
        self.posted
            .load(Ordering::Acquire)
            .saturating_sub(completed)
    }

    pub(crate) fn fail(&self, cause: Error) {
        let _ = self.failure.set(cause);
    }
}

pub(crate) struct Queue {
    way: Arc<Inner>,
    progress: Arc<Progress>,
    schedule: Schedule,
    /// Operations that begin when a caller asks for completion, or when an operation that does not wait follows.
    waiting: Vec<PendingOperation>,
    /// Operations that are not yet reported, oldest first.
    operations: VecDeque<PendingOperation>,
    /// The ticket of the oldest operation.
    oldest: u64,
    /// The operation that failed, and the error, which is reported in its turn.
    cause: Option<(u64, Error)>,
    /// An injected fault broke the connection.
    broken: bool,
    seed: u64,
}

impl Queue {
    pub(crate) fn new(
        way: Arc<Inner>,
        progress: Arc<Progress>,
        schedule: Schedule,
        seed: u64,
    ) -> Self {
        Self {
            way,
            progress,
            schedule,
            waiting: Vec::new(),
            operations: VecDeque::new(),
            oldest: 1,
            cause: None,
            broken: false,
            seed,
        }
    }

    pub(crate) fn post(&mut self, now: Instant, operation: PendingOperation) {
        let waits = operation.waits;
        self.waiting.push(operation);
        if !waits {
            self.take_on(now);
        }
    }

    /// Begins the waiting operations.
    pub(crate) fn take_on(&mut self, now: Instant) {
        for operation in self.waiting.drain(..) {
            if self.schedule.post(now, operation.shape()) {
                self.operations.push_back(operation);
            }
        }
        self.publish_released();
    }

    /// Takes the next step. `Next::Do` means that there was one.
    pub(crate) fn step(&mut self, now: Instant) -> Next {
        let next = self.schedule.next(now);
        match &next {
            Next::Do(Step::Part {
                ticket,
                bytes,
                last,
            }) => {
                if let Err(cause) = self.carry_out(*ticket, bytes.clone(), *last) {
                    self.fail(*ticket, cause);
                }
            }
            Next::Do(Step::Report { ticket }) => self.report(*ticket),
            Next::At(_) | Next::Idle => {}
        }
        next
    }

    fn operation(&mut self, ticket: u64) -> &mut PendingOperation {
        &mut self.operations[(ticket - self.oldest) as usize]
    }

    fn carry_out(&mut self, ticket: u64, bytes: std::ops::Range<usize>, last: bool) -> Result<()> {
        let way = self.way.clone();
        let operation = self.operation(ticket);
        if let Some(fault) = operation.fault.take_if(|_| operation.early) {
            self.strike(fault)?;
        }
        let operation = self.operation(ticket);
        // SAFETY: it is neither reported nor flushed, or it would not be in the queue.
        unsafe { operation.carry_out(&way, bytes) }?;
        if last {
            operation.took_effect();
            self.publish_released();
        }
        Ok(())
    }

    fn report(&mut self, ticket: u64) {
        if let Some((_, cause)) = self.cause.take_if(|(failed, _)| *failed == ticket) {
            self.flush(cause);
            return;
        }
        let fault = self.operation(ticket).fault.take();
        if let Some(fault) = fault
            && let Err(cause) = self.strike(fault)
        {
            self.flush(cause);
            return;
        }
        let Some(mut operation) = self.operations.pop_front() else {
            return;
        };
        // SAFETY: it was in the queue, and `completed` does not include it yet.
        unsafe { operation.deliver() };
        self.oldest = ticket + 1;
        self.publish_released();
        self.progress.completed.store(ticket, Ordering::Release);
    }

    fn fail(&mut self, ticket: u64, cause: Error) {
        if self.broken {
            self.flush(cause);
            return;
        }
        self.schedule.fail(ticket);
        self.operations
            .truncate((ticket - self.oldest + 1) as usize);
        self.cause = Some((ticket, cause));
    }

    /// Drops everything, and then publishes the error. After that, nothing accesses the poster's memory.
    fn flush(&mut self, cause: Error) {
        self.operations.clear();
        self.schedule.clear();
        self.progress.fail(cause);
    }

    fn strike(&mut self, fault: Fault) -> Result<()> {
        let what = match fault {
            Fault::Completion => "an operation failed",
            Fault::Connection => "the connection broke",
            Fault::Process => "the process stopped",
        };
        let seed = self.seed;
        eprintln!("{DEVICE},seed={seed}: injected: {what}");
        tracing::info!(seed, what, "injected a failure");
        match fault {
            Fault::Process => {
                // SAFETY: raise takes an integer; it signals this process.
                unsafe { libc::raise(libc::SIGSTOP) };
                Ok(())
            }
            Fault::Completion | Fault::Connection => {
                self.broken = fault == Fault::Connection;
                Err(injected(seed, what))
            }
        }
    }

    fn publish_released(&self) {
        let in_a_row = self
            .operations
            .iter()
            .take_while(|one| one.released)
            .count();
        let released = self.oldest - 1 + in_a_row as u64;
        self.progress
            .released
            .fetch_max(released, Ordering::Release);
    }
}

fn injected(seed: u64, what: &str) -> Error {
    let call = format!("an operation of {DEVICE} (seed {seed})");
    Error::os(
        call,
        std::io::Error::other(format!("injected failure: {what}")),
    )
}

impl Drop for Queue {
    /// Callers that still ask learn that no more operations will complete.
    fn drop(&mut self) {
        self.operations.clear();
        let what = "the endpoint was closed with operations under way";
        self.progress.fail(injected(self.seed, what));
    }
}
