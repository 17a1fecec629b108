//! Which ranks are told that the job ends, and what this rank then reports.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdma_sys_shim::Ticket;
use transom_launch::notice::{self, culprit, encode};
use transom_launch::say;

use crate::error::{AbortCause, Error, ErrorKind, PeerError, Result};
use crate::peers::{Context, Peer, around, is_forked, rounds};
use crate::terms::WorldRank;
use crate::wait::Witness;

/// How long a rank that gives up spends on connecting to others to write their abort words, and on the arrival of these
/// words.
const REPORT_LIMIT: Duration = Duration::from_secs(2);
/// The time between two looks at whether they have arrived.
const LOOK_INTERVAL: Duration = Duration::from_micros(50);

impl Context {
    /// Fails if the job was aborted: for calls that do not wait, or wait only for living ranks.
    #[inline]
    pub(crate) fn check_aborted(&self, operation: &'static str) -> Result<()> {
        match self.is_aborted() {
            true => Err(self.aborted(operation)),
            false => Ok(()),
        }
    }

    #[cold]
    fn aborted(&self, operation: &'static str) -> Error {
        let cause = self.cause_of_abort().unwrap_or(PeerError::Aborted {
            rank: self.me(),
            cause: AbortCause::Aborted,
        });
        self.confirm(Error::new(operation, cause))
    }

    #[inline]
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort_words.is_set()
    }

    /// The cause of the abort, if the job was aborted.
    pub(crate) fn cause_of_abort(&self) -> Option<PeerError> {
        let word = self.abort_words.word();
        (word != 0).then(|| PeerError::Aborted {
            rank: culprit(word),
            cause: AbortCause::from_code(notice::cause(word)),
        })
    }

    /// The error of an operation that needs `rank` and failed. If the job was aborted, that is the cause. If the rank
    /// is absent, names it and tells the others.
    #[cold]
    pub(crate) fn blame(&self, rank: WorldRank, error: Error) -> Error {
        let error = self.name_absent(rank.0, error);
        match error.kind() {
            ErrorKind::Misuse(_) => error,
            _ => self.confirm(error),
        }
    }

    /// Writes the abort words of all ranks that can be reached: this rank gave up.
    pub(crate) fn abort_everywhere(&self, cause: AbortCause) {
        self.spread(self.me(), cause);
    }

    /// Writes the abort words of the others if the error is about a missing rank or this rank's device.
    fn report(&self, error: &Error) {
        if let ErrorKind::Peer(
            cause @ (PeerError::Died { rank, .. }
            | PeerError::Replaced { rank, .. }
            | PeerError::Gone { rank, .. }
            | PeerError::Left { rank }
            | PeerError::Silent { rank, .. }),
        ) = error.kind()
        {
            // Writing takes seconds. Meanwhile, ranks whose words were written may end the job without the reason.
            if matches!(cause, PeerError::Silent { .. })
                && !self.abort_words.is_set()
                && !is_forked()
            {
                say(&format_args!("transom: rank {}: {cause}", self.me()));
            }
            self.spread(*rank, cause.cause());
        }
        // A rank whose data is malformed is alive, and has to be told.
        if let ErrorKind::Peer(PeerError::Garbled { .. }) = error.kind() {
            self.abort_everywhere(AbortCause::FoundGarbled);
        }
        // Neighbours reach this rank without the device, and would consider it healthy.
        if error.is_own_trouble() {
            self.abort_everywhere(AbortCause::DeviceFailed);
        }
    }

    fn spread(&self, culprit: u32, cause: AbortCause) {
        // The word and the job belong to the parent.
        if is_forked() {
            return;
        }
        // The launcher may already have written another cause.
        match self.abort_words.word() {
            0 => {}
            first => return self.write_everywhere(first, false),
        }
        let ours = encode(culprit, cause as u8);
        // Peers may swap through a device whose atomics are not atomic to the processor's: then two causes may each
        // appear to be the first. One of them remains, and both are true.
        let found = (self.abort_words.abort()).compare_exchange(
            0,
            ours,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match found {
            Ok(_) => {
                self.abort_words.tell_launcher(ours);
                self.write_everywhere(ours, true);
            }
            Err(first) => self.write_everywhere(first, false),
        }
    }

    /// Writes once, into the abort words of other ranks, why the job ends: first to the ranks that this rank is
    /// connected to, which answer or fail together, and then to the ranks 1, 2, 4 and so on ahead. These forward it, so
    /// that every rank is told in the end, however many are dead. `everyone`: also to the other ranks, as time allows.
    fn write_everywhere(&self, word: u64, everyone: bool) {
        if is_forked() || self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        let (me, size) = (self.me(), self.size());
        let is_other = |rank: u32| rank != me && rank != culprit(word);
        let connected = self.all_known().filter(|&(rank, _)| is_other(rank));
        let mut notices: Vec<Notice<'_>> = connected
            .filter_map(|(_, peer)| Notice::post(peer, word))
            .collect();
        // A rank that does not answer some may live, and would wait for them. It is not waited for.
        let _accused = match AbortCause::from_code(notice::cause(word)) {
            AbortCause::Silent if culprit(word) != me => {
                (self.known(culprit(word))).and_then(|peer| Notice::post(peer, word))
            }
            _ => None,
        };
        let neighbours = (0..rounds(size)).map(|round| around(me, 1 << round, size));
        let rest = (1..size).map(|distance| around(me, distance, size));
        let rest = rest.take_while(|_| everyone);
        let begun = Instant::now();
        for rank in neighbours.chain(rest) {
            if begun.elapsed() >= REPORT_LIMIT {
                tracing::debug!(
                    "gave up writing the abort words of ranks that this one was not connected to"
                );
                return;
            }
            if is_other(rank)
                && self.known(rank).is_none()
                && let Ok(peer) = self.connect_to(rank)
            {
                notices.extend(Notice::post(peer, word));
            }
        }
        // This process may end when this returns. A rank that is stopped never answers.
        while begun.elapsed() < REPORT_LIMIT {
            notices.retain(|notice| !notice.is_over());
            if notices.is_empty() {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        tracing::debug!("gave up waiting until {} abort words arrive", notices.len());
    }
}

impl Witness for Context {
    /// If the error is about a missing rank, writes the abort words of the others. That rank may have gone because of
    /// another rank, and may already have written this: then that is the error, and this rank forwards it.
    #[cold]
    fn confirm(&self, error: Error) -> Error {
        match self.cause_of_abort() {
            Some(first) if !is_reason(&error, &first, self.me()) => {
                self.write_everywhere(self.abort_words.word(), false);
                Error::new(error.operation(), first)
            }
            _ => {
                self.report(&error);
                error
            }
        }
    }
}

/// An abort word of a peer that is being written.
struct Notice<'p> {
    peer: &'p Peer,
    ticket: Ticket,
    /// Belongs to the operation, and is freed once that is over.
    old: *mut u64,
}

impl<'p> Notice<'p> {
    /// Writes it, unless it has a value: the first cause stays, since later ones are mostly consequences. `None` if
    /// nothing is under way any more.
    fn post(peer: &'p Peer, word: u64) -> Option<Self> {
        let old = Box::into_raw(Box::new(0));
        // SAFETY: `old` is ours alone, and is freed by `drop` only when the operation is over.
        let posted = unsafe { peer.abort.begin_compare_swap(0, word, old) };
        let ticket = posted.unwrap_or(Ticket::DONE);
        let notice = Self { peer, ticket, old };
        peer.abort.send(ticket);
        (!notice.is_over()).then_some(notice)
    }

    /// Whether the word has arrived, or never will.
    fn is_over(&self) -> bool {
        let completed = self.peer.endpoint().completed(self.ticket);
        self.ticket == Ticket::DONE || !matches!(completed, Ok(false))
    }
}

impl Drop for Notice<'_> {
    fn drop(&mut self) {
        if self.is_over() {
            // SAFETY: from a box in `post`, and the device no longer uses it.
            drop(unsafe { Box::from_raw(self.old) });
        }
    }
}

/// Whether this error is the reason of the abort: of a rank's silence, or of this rank's own trouble. This rank may
/// have reported it itself.
fn is_reason(error: &Error, first: &PeerError, me: u32) -> bool {
    let told = (first.rank(), first.cause());
    match error.kind() {
        ErrorKind::Peer(ours @ PeerError::Silent { rank, .. }) => told == (*rank, ours.cause()),
        _ => error.is_own_trouble() && told == (me, AbortCause::DeviceFailed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_reported_a_silent_one_still_knows_why() {
        let silent = |rank| {
            let reason = "no answer within 10 s".to_owned();
            Error::new("put", PeerError::Silent { rank, reason })
        };
        let aborted = |rank, cause| PeerError::Aborted { rank, cause };
        assert!(is_reason(&silent(3), &aborted(3, AbortCause::Silent), 1));
        assert!(!is_reason(&silent(3), &aborted(2, AbortCause::Silent), 1));
        assert!(!is_reason(&silent(3), &aborted(3, AbortCause::Died), 1));
        let told = Error::new("put", aborted(3, AbortCause::Silent));
        assert!(!is_reason(&told, &aborted(3, AbortCause::Silent), 1));
    }
}
