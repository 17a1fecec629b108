//! Log messages about long waits: which rank is awaited, and where that rank itself waits. Each rank publishes
//! in its control region in which call it has been waiting for a long time.

use std::sync::atomic::Ordering;

use super::Awaited;
use crate::diagnostics::warn_of_wait;
use crate::peers::{CALL, CALL_BYTES, Context, padded, unpadded};
use crate::terms::WorldRank;
use crate::wait::{LongWait, at_end, in_words};

impl Context {
    /// Lets other ranks see that this rank waits in `call`, and logs a warning if one is due.
    pub(super) fn log_wait(&self, due: LongWait, call: &str, awaited: Awaited<'_>) {
        self.publish_long_wait(call);
        if !due.warns {
            return;
        }
        let (whom, tells) = match awaited {
            Awaited::Rank(rank)
            | Awaited::AnyOf {
                surely: Some(rank), ..
            } => self.whereabouts(rank),
            Awaited::AnyOf { surely: None, .. } => ("another rank".to_owned(), None),
        };
        let (rank, waited) = (self.rank().0, in_words(due.waited));
        let text = format!("rank {rank} has waited {waited} in {call} for {whom}");
        // Of ranks that wait for each other, the lowest one says it.
        warn_of_wait(&text, tells.is_none_or(|other| other.0 > rank));
    }

    fn publish_long_wait(&self, call: &str) {
        let header = self.control_header();
        let bytes: [u8; CALL_BYTES] = padded(call);
        for (at, word) in (CALL..).step_by(8).zip(bytes.chunks_exact(8)) {
            let word = bytemuck::pod_read_unaligned(word);
            header.word(at).store(word, Ordering::Relaxed);
        }
        at_end(move || header.word(CALL).store(0, Ordering::Relaxed));
    }

    /// A rank that is waited for and, if it publishes this, the call in which it has itself waited for long; also the
    /// rank itself in that case.
    fn whereabouts(&self, WorldRank(rank): WorldRank) -> (String, Option<WorldRank>) {
        if rank == self.rank().0 {
            return ("another thread of this rank".to_owned(), None);
        }
        let mut bytes = [0; CALL_BYTES];
        let read = self
            .connect_to(rank)
            .and_then(|peer| peer.control().read(CALL, &mut bytes));
        // It may be written meanwhile.
        let call = unpadded(&bytes);
        match read {
            Ok(()) if !call.is_empty() => {
                let whom = format!("rank {rank}, which waits in {call}");
                (whom, Some(WorldRank(rank)))
            }
            Ok(()) => (format!("rank {rank}, which tells of no long wait"), None),
            Err(_) => (format!("rank {rank}"), None),
        }
    }
}
