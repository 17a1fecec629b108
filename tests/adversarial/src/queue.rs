//! One endpoint as the engine sees it: its schedule, its operations, and what their poster is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rdma_sys_shim::{Error, Result};

use crate::inner::Inner;
use crate::operation::PendingOperation;
use crate::options::{DEVICE, Fault};
use crate::schedule::{Next, Schedule, Step};

/// How far an endpoint has come: written by the engine, and by the poster where it says so.
#[derive(Default)]
pub(crate) struct Progress {
    /// The last ticket given out; the poster's.
    pub(crate) posted: AtomicU64,
    completed: AtomicU64,
    released: AtomicU64,
    /// Operations may wait to be asked about; the poster's.
    waiting: AtomicBool,
    /// Why nothing after `completed` ever will be.
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

    /// The first failure, once there is one.
    pub(crate) fn intact(&self) -> Result<()> {
        self.failure
            .get()
            .map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// An operation that was sent to the engine waits.
    pub(crate) fn note_waiting(&self) {
        self.waiting.store(true, Ordering::Release);
    }

    /// Whether operations wait, of which the engine is told now that they are asked about.
    pub(crate) fn take_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::AcqRel)
    }

    /// How many operations are under way.
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
    /// What is taken on when it is asked about, or when something follows that does not wait.
    waiting: Vec<PendingOperation>,
    /// What is not reported yet, oldest first.
    operations: VecDeque<PendingOperation>,
    /// The ticket of the oldest.
    oldest: u64,
    /// The operation that failed, and why: told when its turn comes.
    cause: Option<(u64, Error)>,
    /// It was told that the connection breaks.
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

    /// Takes on what waits.
    pub(crate) fn take_on(&mut self, now: Instant) {
        for operation in self.waiting.drain(..) {
            if self.schedule.post(now, operation.shape()) {
                self.operations.push_back(operation);
            }
        }
        self.publish_released();
    }

    /// Takes the next step. `Next::Do` says that there was one.
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
        // SAFETY: neither reported nor flushed, or it would not be in the queue.
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
        // SAFETY: it was in the queue, and `completed` still says no.
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

    /// Drops everything and then says why: after that, nothing touches the poster's memory.
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
                // SAFETY: a signal to this process, which takes no memory.
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
    /// Whoever still asks learns that nothing more will happen.
    fn drop(&mut self) {
        self.operations.clear();
        let what = "the endpoint was closed with operations under way";
        self.progress.fail(injected(self.seed, what));
    }
}
