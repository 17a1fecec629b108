//! The word that says which rank failed first, and how, in a segment of `transom run` that all ranks map. The launcher
//! reports a death by it at once; without it, ranks notice the death only when one of them waits for the dead rank. A
//! rank that gives up writes it before it tells its peers, so that the launcher does not take their ends for the cause.
//!
//! The launcher and the ranks write it by compare-and-swap from 0, so the first cause stays. Ranks find the segment by
//! process number, descriptor, device and inode, which the launcher gives them. A rank that cannot map it, or has
//! another launcher, detects deaths by itself.

use std::sync::atomic::Ordering;

use rdma_sys_shim::BootstrapSegment;

use crate::pmi::{NOTICE_KEY, Server};

/// The rank was found dead. This constant and the next are causes in an abort word; ranks have more causes.
pub const DIED: u8 = 2;
/// The rank called abort.
pub const ABORTED: u8 = 3;
/// The rank left the job while others still needed it.
pub const LEFT: u8 = 4;
/// The rank's process started another program.
pub const REPLACED: u8 = 11;

/// The launcher's side.
pub(crate) struct Notice(Option<BootstrapSegment>);

impl Notice {
    /// If this fails, ranks find out later by themselves.
    pub(crate) fn publish(server: &mut Server) -> Self {
        let created = BootstrapSegment::create();
        match created.and_then(|segment| Ok((segment.place()?.unwrap_or_default(), segment))) {
            Ok((place, segment)) => {
                server.publish(NOTICE_KEY, place);
                Self(Some(segment))
            }
            Err(error) => {
                tracing::debug!(%error, "the ranks will not be told of deaths");
                Self(None)
            }
        }
    }

    /// The rank that failed first, as far as the launcher or a rank has said.
    pub(crate) fn first(&self) -> Option<u32> {
        let word = self.0.as_ref()?.word().load(Ordering::Relaxed);
        (word != 0).then(|| culprit(word))
    }

    /// Tells all ranks. If called again, the first cause stays.
    pub(crate) fn tell(&self, rank: u32, cause: u8) {
        if let Self(Some(segment)) = self {
            let order = Ordering::Relaxed;
            let _ = (segment.word()).compare_exchange(0, encode(rank, cause), order, order);
        }
    }
}

/// The value for an abort word: never 0.
#[must_use]
pub fn encode(culprit: u32, cause: u8) -> u64 {
    (u64::from(culprit) + 1) << 8 | u64::from(cause)
}

/// The rank at fault in this word.
#[must_use]
pub fn culprit(word: u64) -> u32 {
    ((word >> 8) as u32).wrapping_sub(1)
}

/// The cause in this word.
#[must_use]
pub fn cause(word: u64) -> u8 {
    word as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_who_and_why_and_is_never_that_of_no_abort() {
        for (rank, why) in [(0, 0), (0, DIED), (7, ABORTED), (u32::MAX - 1, LEFT)] {
            let word = encode(rank, why);
            assert_ne!(word, 0);
            assert_eq!((culprit(word), cause(word)), (rank, why));
        }
    }
}
