//! The barrier: in each step, a rank signals another rank and waits for a signal.

mod protocol;
mod steps;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::team::{Rings, Team};
use crate::diagnostics;
use crate::error::{Error, Misuse, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE, LocalWord};
use crate::memory::remote::RemoteWord;
use crate::memory::word::SharedWord;
use crate::wait::Verdict;
use protocol::{DISPUTED, Steps, epoch_of, flag, is_ahead};
pub(crate) use steps::Step;
use steps::steps;

/// Bytes of the control block that a barrier of the team takes.
pub(crate) fn barrier_bytes(team: &Rings) -> u64 {
    u64::from(barrier_flags(team)) * LINE
}

/// How many flags each rank of the team has for a barrier.
pub(crate) fn barrier_flags(team: &Rings) -> u32 {
    steps::flags(&team.all, team.by_host.as_deref())
}

/// The team's barrier step with this number, counted from 0; `None` after the last. `oversubscribed`: see
/// [`Barrier::new`].
pub(crate) fn barrier_step(team: &Rings, oversubscribed: bool, number: u32) -> Option<Step> {
    steps::step(&team.all, team.by_host.as_deref(), oversubscribed, number)
}

/// The call for which a rank enters a barrier.
pub(crate) trait CallTag {
    /// A code of 31 bits that distinguishes this call from others.
    fn code(&self) -> u32;

    /// Describes a rank that entered for another call: as an error, and as a code of 31 bits for other ranks. `tag` is
    /// what the rank `behind` sent: its own code or such a description.
    fn name_mismatch(&self, operation: &'static str, behind: u32, tag: u32) -> (Error, u32);
}

/// Bits for the rank that a mismatch names.
pub(super) const RANK_BITS: u32 = 24;

/// The rank that `tag` describes; the rank `behind` sent it.
pub(super) fn named_rank(behind: u32, tag: u32) -> u32 {
    match tag & DISPUTED {
        0 => behind,
        _ => tag & ((1 << RANK_BITS) - 1),
    }
}

/// The call for which a rank enters a window's barrier. The numbers travel in the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::CheckedBitPattern)]
#[repr(u8)]
pub enum Purpose {
    /// The call of that name.
    Fence = 1,
    /// An epoch of locks begins or ends.
    Passive = 2,
    /// The call of that name.
    Free = 3,
    /// A session of the typed interface begins.
    Open = 4,
    /// That session ends.
    Close = 5,
    /// An epoch of `loads` begins or ends: ranks only load from the window's memory.
    Loads = 6,
}

/// In a mismatch: the position of the named rank's purpose, followed by that of the rank that names it.
const NAMED_SHIFT: u32 = RANK_BITS;
const OWN_SHIFT: u32 = RANK_BITS + 3;
const PURPOSE_MASK: u32 = 7;

impl Purpose {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Passive => "passive",
            Self::Free => "free",
            Self::Open => "open",
            Self::Close => "close",
            Self::Loads => "loads",
        }
    }

    fn of_code(code: u32) -> Option<Self> {
        bytemuck::checked::try_cast(u8::try_from(code).ok()?).ok()
    }
}

impl CallTag for Purpose {
    #[inline]
    fn code(&self) -> u32 {
        *self as u32
    }

    #[cold]
    fn name_mismatch(&self, operation: &'static str, behind: u32, tag: u32) -> (Error, u32) {
        let purpose = |shift: u32| tag >> shift & PURPOSE_MASK;
        let (rank, theirs) = match tag & DISPUTED {
            0 => (behind, tag),
            _ if purpose(NAMED_SHIFT) != self.code() => {
                (named_rank(behind, tag), purpose(NAMED_SHIFT))
            }
            _ => (behind, purpose(OWN_SHIFT)),
        };
        let named = rank | (theirs & PURPOSE_MASK) << NAMED_SHIFT | self.code() << OWN_SHIFT;
        let theirs = Self::of_code(theirs).map_or("something unknown", Self::name);
        (mismatch(operation, rank, self.name(), theirs), named)
    }
}

/// The error of a rank that entered for `ours` while `rank` entered for `theirs`.
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

pub(crate) struct Barrier {
    /// The offset of the flags in every rank's block.
    at: u64,
    block: Arc<ControlBlock>,
    steps: Box<[(Step, OnceLock<StepWords>)]>,
    /// May wrap: see `protocol`.
    epoch: AtomicU32,
}

/// The words of a step: the one that this rank sets at another rank, and the one that another rank sets here.
struct StepWords {
    signal: Option<RemoteWord>,
    flag: Option<LocalWord>,
}

impl Barrier {
    /// `oversubscribed`: all ranks know that they are oversubscribed.
    pub(crate) fn new(
        team: &Team,
        block: &Arc<ControlBlock>,
        at: u64,
        oversubscribed: bool,
    ) -> Self {
        let rings = &team.rings;
        let by_host = rings.by_host.as_deref();
        let steps = steps(&rings.all, by_host, oversubscribed);
        Self {
            at,
            block: block.clone(),
            steps: steps
                .into_iter()
                .map(|step| (step, OnceLock::new()))
                .collect(),
            epoch: AtomicU32::new(0),
        }
    }

    /// Collective. Calls by threads of one rank must not overlap. Fails on every rank if the ranks entered for
    /// different calls. In a long wait, `check` says whether the awaited rank can still come.
    #[inline]
    pub(crate) fn wait<'v>(
        &self,
        operation: &'static str,
        tag: &dyn CallTag,
        team: &Team,
        blocks: &Column<u64>,
        check: &dyn Fn(u32) -> Verdict<'v>,
    ) -> Result<()> {
        let epoch = self.epoch.load(Ordering::Relaxed).wrapping_add(1);
        self.epoch.store(epoch, Ordering::Relaxed);
        let passing = Passing {
            barrier: self,
            operation,
            team,
            blocks,
            tag,
            check,
        };
        let passed = match diagnostics::counts_traffic() {
            true => passing.pass_and_count(epoch),
            false => protocol::pass(&passing, epoch, tag.code()),
        };
        match passed? {
            None => Ok(()),
            Some(mismatched) => Err(mismatched),
        }
    }

    /// The value by which a rank shows other ranks its last barrier.
    pub(crate) fn call(&self, purpose: Purpose) -> u64 {
        flag(self.epoch.load(Ordering::Relaxed), purpose.code())
    }

    /// The purpose for which a rank that showed `call` waits for this rank, if that rank is in a barrier that this rank
    /// has not entered.
    pub(crate) fn awaits_this_rank(&self, call: u64) -> Option<Purpose> {
        let ahead = is_ahead(epoch_of(call), self.epoch.load(Ordering::Relaxed));
        // A rank that is in no barrier shows 0.
        (ahead && call != 0)
            .then(|| Purpose::of_code(call as u32))
            .flatten()
    }

    #[inline]
    fn words(&self, team: &Team, blocks: &Column<u64>, number: usize) -> Result<&StepWords> {
        match self.steps[number].1.get() {
            Some(words) => Ok(words),
            None => self.prepare(team, blocks, number),
        }
    }

    #[cold]
    fn prepare(&self, team: &Team, blocks: &Column<u64>, number: usize) -> Result<&StepWords> {
        let (step, known) = &self.steps[number];
        let at = |number: u32| self.at + u64::from(number) * LINE;
        let signal = step
            .to
            .map(|flag| team.word(flag.rank, blocks, at(flag.number)));
        let words = StepWords {
            signal: signal.transpose()?,
            flag: (step.from).map(|flag| LocalWord::new(&self.block, at(flag.number))),
        };
        Ok(known.get_or_init(|| words))
    }
}

/// One call of [`Barrier::wait`].
struct Passing<'a, 'v> {
    barrier: &'a Barrier,
    operation: &'static str,
    team: &'a Team,
    blocks: &'a Column<u64>,
    tag: &'a dyn CallTag,
    check: &'a dyn Fn(u32) -> Verdict<'v>,
}

impl Passing<'_, '_> {
    /// Takes all steps, and counts the flags that this rank has sent.
    #[cold]
    #[inline(never)]
    fn pass_and_count(&self, epoch: u32) -> Result<Option<Error>> {
        let passed = protocol::pass(self, epoch, self.tag.code());
        let words = self.barrier.steps.iter();
        let words = words.filter_map(|(_, words)| words.get());
        for signal in words.filter_map(|words| words.signal.as_ref()) {
            diagnostics::note_flag(signal.is_stored_here());
        }
        passed
    }

    #[inline]
    fn words(&self, number: usize) -> Result<&StepWords> {
        self.barrier.words(self.team, self.blocks, number)
    }

    /// The rank that this rank signals in a step, and the rank that it waits for.
    #[cold]
    fn ranks(&self, number: usize) -> [Option<u32>; 2] {
        let step = &self.barrier.steps[number].0;
        [step.to, step.from].map(|flag| flag.map(|flag| flag.rank))
    }

    #[cold]
    fn blame(&self, number: usize, error: Error) -> Error {
        match self.ranks(number) {
            [Some(to), _] => self.team.blame(self.operation, to, error),
            [None, _] => error.during(self.operation),
        }
    }
}

impl Steps for Passing<'_, '_> {
    type Mismatch = Error;

    #[inline]
    fn count(&self) -> usize {
        self.barrier.steps.len()
    }

    #[inline]
    fn signal(&self, number: usize, flag: u64) -> Result<()> {
        let sent = self.words(number).and_then(|words| match &words.signal {
            Some(word) => word.store(flag).map(drop),
            None => Ok(()),
        });
        sent.map_err(|error| self.blame(number, error))
    }

    #[inline]
    fn heard(&self, number: usize) -> Result<Option<u64>> {
        let flag = self.words(number)?.flag.as_ref();
        Ok(flag.map(|flag| flag.atomic().observe()))
    }

    #[cold]
    fn wait(&self, number: usize, arrived: &dyn Fn() -> Result<bool>) -> Result<()> {
        let context = &self.team.context;
        let [_, Some(from)] = self.ranks(number) else {
            return Ok(());
        };
        let patience = context.patience().at_leisure();
        patience.wait(arrived, || (self.check)(from))
    }

    #[cold]
    fn name_mismatch(&self, number: usize, tag: u32) -> (Error, u32) {
        let [_, from] = self.ranks(number);
        let from = from.expect("who told this is heard in this step");
        self.tag.name_mismatch(self.operation, from, tag)
    }
}
