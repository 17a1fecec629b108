//! Waits that cannot end, because the awaited rank is in a collective call of the same window and waits
//! there for this rank.
//!
//! A rank that has waited for long in such a call publishes, in a word of its block, the purpose and
//! the number of the barrier. A rank that waits for long for that rank reads the word.
//!
//! If the reader has not entered this barrier, the other rank cannot leave it before the reader enters.
//! So the conclusion is certain, whenever the word was read. A rank opens or closes no epoch in a
//! barrier, and writes the word only after the flags of its earlier epochs have arrived. The reader
//! checks for those flags once more before it gives up.

use std::sync::atomic::Ordering;

use crate::comm::Purpose;
use crate::error::{EpochState, Error, Misuse, Result};
use crate::terms::Aim;
use crate::window::{CALL_AT, Window};

impl Window {
    /// Publishes that this rank waits in a collective call. False if this has to be retried.
    #[cold]
    pub(crate) fn publish_call(&self, purpose: Purpose) -> bool {
        let arrived = self.flags_have_arrived();
        if arrived {
            let call = self.barrier.call(purpose);
            self.block.word(CALL_AT).store(call, Ordering::Release);
        }
        arrived
    }

    #[cold]
    pub(crate) fn withdraw_call(&self) {
        self.block.word(CALL_AT).store(0, Ordering::Release);
    }

    /// Fails if the rank of `aim`, for which this rank waits, waits for this rank.
    #[cold]
    pub(super) fn check_cross_wait(
        &self,
        Aim { operation, rank }: Aim,
        needs: &'static str,
    ) -> Result<()> {
        // Other checks decide whether a rank can be reached.
        let word = (self.team).word(rank, &self.parts.blocks, CALL_AT);
        let call = word.and_then(|word| word.load_whole()).unwrap_or(0);
        match self.barrier.awaits_this_rank(call) {
            None => Ok(()),
            Some(purpose) => {
                let state = EpochState::InCollective {
                    rank,
                    call: purpose.name(),
                    awaited: self.rank(),
                };
                Err(Error::new(operation, Misuse::Epoch { needs, state }))
            }
        }
    }
}
