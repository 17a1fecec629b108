//! Waits that cannot end: for a rank that is in a collective call of the same window, where it waits
//! for this one.
//!
//! A rank that has waited long in such a call says so in a word of its block: for what, and in which of
//! the window's barriers. Whoever waits long for that rank reads the word.
//!
//! If the barrier is one that
//! the reader has not come to, the other cannot have left it, and will not before the reader comes:
//! so this is no guess, whenever the word was read. A rank opens or closes no epoch in there, and the
//! word is written only when the flags of earlier epochs have arrived; the reader looks for those once
//! more before it gives up.

use std::sync::atomic::Ordering;

use crate::comm::Purpose;
use crate::error::{EpochState, Error, Misuse, Result};
use crate::terms::Aim;
use crate::window::{CALL_AT, Window};

impl Window {
    /// Says that this rank waits in a collective call. False if that has to be tried again.
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

    /// Fails if the rank of `aim`, which this rank waits for, waits for this one itself.
    #[cold]
    pub(super) fn check_cross_wait(
        &self,
        Aim { operation, rank }: Aim,
        needs: &'static str,
    ) -> Result<()> {
        // Whether a rank can be reached is for others to judge.
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
