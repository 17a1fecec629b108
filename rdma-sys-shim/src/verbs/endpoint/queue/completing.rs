//! Taking completions, and the end of a connection: what fails first, and that nothing is under way
//! afterwards.

use std::time::{Duration, Instant};

use ibverbs_sys as ffi;
use ibverbs_sys::ibv_wc_status as status;

use super::SendQueue;
use crate::memory::copy;
use crate::verbs::endpoint::failure::{Failure, Operation};
use crate::verbs::endpoint::link::{BATCH, Link, Report};
use crate::verbs::endpoint::signals::EVERY;
use crate::{RemoteAddress, Result};

/// How long a failed connection may take to flush its requests.
const STOP_LIMIT: Duration = Duration::from_secs(1);
/// The minimum time after which a silent device counts as dead. Data adds time at `SLOWEST` bytes a second, which even
/// a lossy emulated network achieves.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);
pub(super) const SLOWEST: u64 = 32 << 10;
const LONGEST_TRANSFER: Duration = Duration::from_secs(600);

impl<L: Link> SendQueue<L> {
    /// Takes the available completions. After a failure, returns only when the device has finished every request.
    #[inline]
    pub(in crate::verbs::endpoint) fn poll(&mut self) -> Result<()> {
        let was_sound = self.failure.is_none();
        if let Err(error) = self.take_completions() {
            self.break_off(status::IBV_WC_FATAL_ERR);
            return Err(error);
        }
        if self.failure.is_some() && (was_sound || !self.pending.is_empty()) {
            self.stop();
        }
        Ok(())
    }

    #[inline]
    pub(super) fn take_completions(&mut self) -> Result<()> {
        loop {
            let Some(link) = &mut self.link else {
                return Ok(());
            };
            let taken = link.take_reports()?;
            if taken == 0 {
                return Ok(());
            }
            for index in 0..taken {
                self.take_report(index);
            }
            self.borrowed.give_back(self.completed);
            if taken < BATCH {
                return Ok(());
            }
        }
    }

    #[inline]
    fn take_report(&mut self, index: usize) {
        if let Some(link) = &self.link {
            let Report { ticket, error } = link.report(index);
            match error {
                None => self.finish(ticket),
                Some((status, vendor)) => self.fail(ticket, status, vendor),
            }
        }
    }

    /// Breaks off if the device has not reported the oldest request for longer than that can take. The device has to
    /// report a peer's silence after `silence`, as configured. If the port has been down since `down_since`, nothing
    /// else takes time. Called at intervals during waits.
    pub(in crate::verbs::endpoint) fn watch(
        &mut self,
        now: Instant,
        silence: Duration,
        down_since: Option<Instant>,
    ) -> Result<()> {
        if self.pending.is_empty() {
            self.watched = None;
            return Ok(());
        }
        self.ask()?;
        match self.watched {
            Some((completed, since)) if completed == self.completed => {
                if now.saturating_duration_since(since) > self.patience(silence) {
                    self.break_off(status::IBV_WC_FATAL_ERR);
                } else if let Some(down) = down_since
                    && now.saturating_duration_since(since.max(down)) > silence
                {
                    // soft-RoCE of Linux 6.1 never reports some requests that stop when a port goes down.
                    self.break_off(status::IBV_WC_LOC_QP_OP_ERR);
                }
            }
            _ => self.watched = Some((self.completed, now)),
        }
        Ok(())
    }

    /// The longest time for the oldest signalled request. Devices may wait four times as long as configured.
    fn patience(&self, silence: Duration) -> Duration {
        let unreported = self.pending.iter().take(EVERY as usize);
        let bytes: u64 = unreported.map(|pending| u64::from(pending.len)).sum();
        let transfer = Duration::from_secs(bytes / SLOWEST);
        LEAST_PATIENCE + silence * 8 + transfer.min(LONGEST_TRANSFER)
    }

    /// Ends everything under way, and returns when the device has finished it. Only then it logs: the program's logger
    /// may panic, and unwinding would free the buffers of waiting callers.
    #[cold]
    fn stop(&mut self) {
        self.forget_unposted();
        let told = self.link.as_ref().map_or(Ok(()), Link::fail);
        let begun = Instant::now();
        while !self.pending.is_empty() && begun.elapsed() < STOP_LIMIT {
            if self.take_completions().is_err() {
                break;
            }
            std::thread::yield_now();
        }
        if !self.pending.is_empty() {
            self.destroy();
        }
        self.borrowed.clear();
        if let Err(error) = told {
            tracing::warn!(%error, "a failed connection");
        }
        self.log_failure();
    }

    /// Drops the requests that were not posted to the device: they have failed too.
    fn forget_unposted(&mut self) {
        let unposted = self.unposted.len();
        self.unposted.clear();
        self.pending
            .truncate(self.pending.len().saturating_sub(unposted));
        self.posted -= unposted as u64;
        if let Some(failure) = &mut self.failure {
            failure.flushed += unposted as u64;
        }
    }

    fn log_failure(&self) {
        if let Some(failure) = &self.failure {
            tracing::warn!(
                queue_pair = self.number,
                ?failure,
                "a connection has failed"
            );
        }
    }

    /// Gives up a device that does not work as it must. Its later reports are ignored.
    pub(in crate::verbs::endpoint) fn break_off(&mut self, status: status::Type) {
        if self.failure.is_none() {
            self.note_failure(self.completed + 1, status, 0);
        }
        self.destroy();
        self.log_failure();
    }

    /// Destroys the queue pair, so that the device accesses no memory for it.
    fn destroy(&mut self) {
        self.link = None;
        self.unposted.clear();
        if let Some(failure) = &mut self.failure {
            // One of them, or an earlier one, is the failure itself.
            let answered = self.completed.max(failure.ticket);
            failure.flushed += self.posted.saturating_sub(answered);
        }
        self.pending.clear();
        self.completed = self.posted;
        self.borrowed.clear();
    }

    /// Records that all requests up to `ticket` have succeeded.
    #[inline(always)]
    fn finish(&mut self, ticket: u64) {
        while self.completed < ticket {
            let Some(done) = self.pending.pop_front() else {
                return;
            };
            self.completed += 1;
            if done.is_read {
                self.trailing.completed = self.completed;
            }
            if done.space.takes == 0 {
                continue;
            }
            if !done.copy_to.is_null()
                && self.failure.is_none()
                && let Some(arrived) = self.copies.at(done.space)
            {
                // SAFETY: the piece of the ring that this request was given; the destination is the caller's until the
                // request is reported complete.
                unsafe { copy(done.copy_to, arrived, done.len as usize) };
            }
            self.copies.give(done.space);
        }
        if self.copies.are_to_be_left() {
            self.copies.leave();
        }
    }

    #[cold]
    fn fail(&mut self, ticket: u64, status: ffi::ibv_wc_status::Type, vendor: u32) {
        // Unsignalled requests before it have succeeded.
        self.finish(ticket.saturating_sub(1));
        match &mut self.failure {
            Some(failure) => failure.flushed += 1,
            None => self.note_failure(ticket, status, vendor),
        }
        // Flushed requests release their ring space and loans, but their data is not copied.
        if let Some(flushed) = self.pending.pop_front() {
            self.completed += 1;
            if flushed.space.takes > 0 {
                self.copies.give(flushed.space);
            }
        }
    }

    /// The oldest request under way is the one that failed.
    fn note_failure(&mut self, ticket: u64, status: status::Type, vendor: u32) {
        let pending = self.pending.front();
        self.failure = Some(Failure {
            ticket,
            operation: pending.map_or(Operation::Probe, |pending| pending.operation),
            at: pending.map_or_else(RemoteAddress::default, |pending| pending.at),
            len: pending.map_or(0, |pending| pending.len.into()),
            status,
            vendor,
            flushed: 0,
        });
    }
}
