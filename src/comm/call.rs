//! Which collective a rank is in, and whether others are in the same.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::team::Team;
use crate::error::{Error, Misuse};
use crate::memory::columns::Column;
use crate::memory::control::ControlBlock;
use crate::memory::remote::Pending;
use crate::wait::Verdict;

/// Where in a communicator's block the call that this rank is in is published.
const CALL_AT: u64 = 0;

/// The kinds of collective. The numbers travel in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Barrier = 1,
    Bcast = 2,
    Gather = 3,
    Allgather = 4,
    Reduce = 5,
    /// Published by a rank whose call failed, so that nobody waits for its part.
    Failed = 6,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Allgather => "allgather",
            Self::Reduce => "reduce",
            Self::Failed => "a failed call",
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        use Kind::{Allgather, Barrier, Bcast, Failed, Gather, Reduce};
        [Barrier, Bcast, Gather, Allgather, Reduce, Failed]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// One collective call as all ranks must make it: its number, kind and root, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call(pub(super) u64);

const ROOT_BITS: u32 = 24;

impl Call {
    pub(super) fn new(number: u32, kind: Kind, root: u32) -> Self {
        let root = u64::from(root) & ((1 << ROOT_BITS) - 1);
        Self(u64::from(number) << 32 | (kind as u64) << ROOT_BITS | root)
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn kind(self) -> Option<Kind> {
        Kind::from_code((self.0 >> ROOT_BITS) as u8)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.0 & ((1 << ROOT_BITS) - 1);
        match self.kind() {
            Some(kind @ (Kind::Barrier | Kind::Allgather | Kind::Failed)) => {
                f.write_str(kind.name())?;
            }
            Some(kind) => write!(f, "{} with root {root}", kind.name())?,
            None => f.write_str("an unknown call")?,
        }
        write!(f, " (collective number {})", self.number())
    }
}

/// The call that this rank is in, and what others can read about it.
///
/// A rank that reads that another is a call ahead concludes that nothing from the call before is
/// still under way. So a call is published only once all that was sent in those before has arrived.
pub(super) struct Announcement {
    block: Arc<ControlBlock>,
    call: Call,
    /// What has to arrive first; `None` once published.
    behind: RefCell<Option<Vec<Pending>>>,
}

impl Announcement {
    pub(super) fn new(block: &Arc<ControlBlock>) -> Self {
        Self {
            block: block.clone(),
            call: Call(0),
            behind: RefCell::new(None),
        }
    }

    /// This rank is in `call` now, and `behind` was sent before.
    pub(super) fn begin(&mut self, call: Call, behind: impl Iterator<Item = Pending>) {
        self.call = call;
        self.behind.replace(Some(behind.collect()));
        self.publish_if_settled();
    }

    /// Tells others that this rank's call failed, whatever is still under way.
    pub(super) fn fail(&mut self) {
        self.call = Call::new(self.call.number(), Kind::Failed, 0);
        self.behind.replace(None);
        self.publish();
    }

    /// To be asked in a long wait.
    pub(super) fn publish_if_settled(&self) {
        let mut behind = self.behind.borrow_mut();
        let Some(pending) = &mut *behind else { return };
        pending.retain(|pending| !pending.is_settled());
        if pending.is_empty() {
            *behind = None;
            self.publish();
        }
    }

    fn publish(&self) {
        let word = self.block.word(CALL_AT);
        word.store(self.call.0, Ordering::Release);
    }

    /// Fails if `rank` is in another collective than this rank; to be asked in a long wait.
    pub(super) fn check_same<'t>(
        &self,
        team: &'t Team,
        blocks: &Column<u64>,
        rank: u32,
        operation: &'static str,
    ) -> Verdict<'t> {
        let ours = self.call;
        let theirs = team
            .word(rank, blocks, CALL_AT)
            .and_then(|word| word.load_whole())
            .map_err(|error| team.doubt(operation, rank, error))?;
        let theirs = Call(theirs);
        // A rank that is a call ahead will never do what is awaited of it in this one.
        let ahead = theirs.number().wrapping_sub(ours.number()).cast_signed();
        if ahead > 0 || ahead == 0 && theirs != ours {
            return Err(mismatch(operation, rank, ours, theirs).into());
        }
        Ok(())
    }
}

pub(super) fn mismatch(
    operation: &'static str,
    rank: u32,
    ours: impl fmt::Display,
    theirs: impl fmt::Display,
) -> Error {
    Error::new(
        operation,
        Misuse::Mismatch {
            rank,
            ours: ours.to_string(),
            theirs: theirs.to_string(),
        },
    )
}
