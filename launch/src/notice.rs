//! What ranks learn under `transom run` without asking: a word says at once that one has died, which
//! nobody else would learn where nobody waits for it, and notes hold their bootstrap records, for which the launcher
//! would have to answer every pair. A key says that a rank has left in good order.

use std::sync::atomic::Ordering;

use rdma_sys_shim::BootstrapSegment;

use crate::pmi::{Client, Server, left_key};

/// Where the ranks find its place among the launcher's keys.
const KEY: &str = "transom-notice";
/// Begins the names of our launcher's key-value spaces. Another is not asked for what it does not know.
pub(crate) const OUR_SPACE: &str = "transom-";

/// The rank was found dead: a cause that an abort word holds. Ranks have more of them than the launcher.
pub const DIED: u8 = 2;
/// The rank called abort.
pub const ABORTED: u8 = 3;
/// The rank left the job while others still needed it.
pub const LEFT: u8 = 4;
/// The rank's process started another program.
pub const REPLACED: u8 = 11;

/// The launcher's end.
pub(crate) struct Notice(Option<BootstrapSegment>);

impl Notice {
    /// Without it, ranks find out by themselves, later.
    pub(crate) fn publish(server: &mut Server, ranks: u32) -> Self {
        let created = BootstrapSegment::create(ranks as usize);
        match created.and_then(|segment| Ok((segment.place()?.unwrap_or_default(), segment))) {
            Ok((place, segment)) => {
                server.publish(KEY, place);
                Self(Some(segment))
            }
            Err(error) => {
                tracing::debug!(%error, "the ranks will not be told of deaths");
                Self(None)
            }
        }
    }

    /// Tells all ranks. The first cause stays.
    pub(crate) fn tell(&self, rank: u32, cause: u8) {
        if let Self(Some(segment)) = self {
            let order = Ordering::Relaxed;
            let _ = (segment.word()).compare_exchange(0, encode(rank, cause), order, order);
        }
    }
}

/// A rank's end, under a launcher that has one.
#[must_use]
pub fn find(client: &Client) -> Option<BootstrapSegment> {
    if !client.space().starts_with(OUR_SPACE) {
        return None;
    }
    let place = client.get(KEY).ok()?;
    let opened = BootstrapSegment::open(&place, client.size() as usize);
    let told = |error: &_| tracing::debug!(%error, "the launcher's notice is out of reach");
    opened.inspect_err(told).ok()
}

/// Whether a rank has taken leave of a launcher that keeps account of it.
#[must_use]
pub fn has_left(client: &Client, rank: u32) -> Option<bool> {
    let ours = client.space().starts_with(OUR_SPACE);
    ours.then(|| client.get(&left_key(rank)).is_ok())
}

/// What an abort word holds: never 0.
#[must_use]
pub fn encode(culprit: u32, cause: u8) -> u64 {
    (u64::from(culprit) + 1) << 8 | u64::from(cause)
}

/// Which rank is at fault.
#[must_use]
pub fn culprit(word: u64) -> u32 {
    ((word >> 8) as u32).wrapping_sub(1)
}

/// What it is at fault for.
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
