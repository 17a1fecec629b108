//! The limits that both ends of a connection use: of each limit, the smaller value.

use super::connect::Numbers;

/// Parts of a long transfer start at the same alignment as the whole.
const PAGE: u32 = 4096;
/// A power of two that fits into a signed 32-bit number.
const LONGEST_MESSAGE: u32 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// In the numbers of verbs.
    pub(super) mtu: u8,
    /// The most reads and atomics under way from here to there.
    pub(super) reads_out: u8,
    /// The longest single request in bytes: one port may send more than the other accepts.
    pub(super) longest: usize,
}

impl Terms {
    /// `reads_out`: the most that this end can have under way.
    pub(super) fn between(ours: &Numbers, reads_out: u8, theirs: &Numbers) -> Self {
        let most = ours
            .max_message
            .min(theirs.max_message)
            .clamp(1, LONGEST_MESSAGE);
        let longest = match most < PAGE {
            true => most,
            false => most - most % PAGE,
        };
        Self {
            mtu: ours.mtu.min(theirs.mtu),
            reads_out: reads_out.min(theirs.responder_resources),
            longest: longest as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(mtu: u8, responder_resources: u8, max_message: u32) -> Numbers {
        Numbers {
            qpn: 1,
            psn: 2,
            responder_resources,
            mtu,
            max_message,
            trailing: None,
        }
    }

    #[test]
    fn of_unequal_ends_the_weaker_one_decides() {
        let (strong, weak) = (numbers(5, 128, 1 << 31), numbers(3, 4, (1 << 23) + 5));
        let here = Terms::between(&strong, 16, &weak);
        let there = Terms::between(&weak, 2, &strong);
        assert_eq!((here.mtu, there.mtu), (3, 3));
        assert_eq!((here.longest, there.longest), (1 << 23, 1 << 23));
        assert_eq!(here.reads_out, 4, "no more than the peer serves");
        assert_eq!(there.reads_out, 2, "no more than this end can ask for");
        // Each number by itself: the weaker end need not be weaker in everything.
        let mixed = Terms::between(&numbers(4, 1, 1 << 20), 16, &numbers(5, 8, 1 << 16));
        assert_eq!((mixed.mtu, mixed.reads_out, mixed.longest), (4, 8, 1 << 16));
    }

    #[test]
    fn requests_stay_whole_pages_and_never_become_empty() {
        let longest = |most| {
            let end = numbers(3, 1, most);
            Terms::between(&end, 1, &end).longest
        };
        assert_eq!(longest(u32::MAX), 1 << 30);
        assert_eq!(longest(3 * 4096 - 1), 2 * 4096);
        assert_eq!(longest(4096), 4096);
        assert_eq!(longest(2048), 2048, "no longer than what either takes");
        assert_eq!(longest(0), 1);
    }
}
