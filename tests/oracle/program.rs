//! What a program is: windows, and rounds of epochs in which every thread of every rank has a script.
//!
//! Ranks meet after each round and show their memory and what they fetched; the model judges both.

use std::fmt;
use std::ops::Range;

use transom::raw::Assert;
use transom::{BasicType, ErrorClass, LockKind, Op};

use crate::access::Access;

/// All of it follows from the seed.
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) windows: Vec<WindowSpec>,
    pub(crate) rounds: Vec<Round>,
}

pub(crate) struct WindowSpec {
    /// One per rank.
    pub(crate) parts: Vec<Part>,
    /// Whether a rank of it may be locked.
    pub(crate) locks: bool,
    /// Whether accumulates of one origin on one element keep their order.
    pub(crate) ordered: bool,
    /// Whether accumulates that meet on an element are all of one operation.
    pub(crate) same_op: bool,
}

/// What one rank gives to a window.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) memory: Memory,
    pub(crate) size: usize,
    pub(crate) unit: u64,
    pub(crate) hints: Vec<(&'static str, &'static str)>,
    /// Of notifications.
    pub(crate) counters: u32,
    /// Where one region of a dynamic window ends and the next begins: no access crosses these.
    pub(crate) cuts: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// `Window::allocate`, then on all ranks; zeroed.
    Allocate,
    /// `Window::allocate_shared`, then on all ranks; zeroed. Where the device maps nothing, as
    /// `Allocate`.
    Shared,
    /// `Window::create_dynamic`, then on all ranks; heap memory is attached in several regions.
    Dynamic,
    /// `Window::create` over memory of `alloc_mem`.
    AllocMem,
    /// `Window::create` over heap memory that begins so far into a page.
    Heap { into_page: usize },
}

pub(crate) struct Round {
    /// What each rank stores in its own memory before the first epoch: rank, window, offset, bytes.
    pub(crate) stores: Vec<(u32, usize, usize, Vec<u8>)>,
    /// The dynamic windows whose regions are detached before that, and attached in another order.
    pub(crate) reattached: Vec<usize>,
    pub(crate) epochs: Vec<Epoch>,
}

pub(crate) struct Epoch {
    /// Its number in the program.
    pub(crate) number: usize,
    pub(crate) window: usize,
    pub(crate) sync: Sync,
    /// By target: who may do what where; the rest nobody touches.
    pub(crate) areas: Vec<Vec<Area>>,
    /// By rank and thread.
    pub(crate) scripts: Vec<Vec<Vec<Call>>>,
    /// By rank: what is tried before the epoch, and must fail.
    pub(crate) before: Vec<Vec<Wrong>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Sync {
    Fence {
        opening: Assert,
        closing: Assert,
    },
    /// By target: the origins that it posts to. `checked`: with a barrier between post and start,
    /// which then need not check.
    Exposure {
        origins: Vec<Vec<u32>>,
        unchecked: bool,
        by_test: bool,
    },
    /// Scripts lock what they use.
    Locks,
    /// `goes_on`: a following epoch of the kind is separated by flush_all and a barrier only.
    LockAll {
        assert: Assert,
        goes_on: bool,
    },
}

/// Bytes of a target's memory.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    pub(crate) bytes: Range<usize>,
    /// Only some of the bytes: others work in the gaps.
    pub(crate) lane: Option<Lane>,
    pub(crate) role: Role,
}

/// The first `width` of every `stride` bytes, from byte `first` of an area on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lane {
    pub(crate) first: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// One thread of one rank works here alone.
    Owner { rank: u32, thread: usize },
    /// One thread of one rank puts here, and one of the target's loads, in the order that
    /// notifications give them.
    Mailbox { sender: (u32, usize), reader: usize },
    /// Everybody reads.
    Read,
    /// Everybody accumulates on these elements, at once.
    Cells { ty: BasicType, mix: Mix },
    /// Who has locked the target exclusively reads and writes; shared, reads.
    Section,
}

/// Which operations meet on an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mix {
    /// One, and those that fetch only; `swaps`: compare_and_swap too.
    One { op: Op, swaps: bool },
    /// All that the type has.
    All,
    /// One, many times, and nobody fetches: the order cannot matter.
    Many { op: Op },
}

impl Role {
    /// Whether what happens here depends on who comes first.
    pub(crate) fn is_contested(self) -> bool {
        matches!(self, Self::Cells { .. } | Self::Section)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Access(Box<Access>),
    Lock(LockKind, u32, Assert),
    Unlock(u32),
    Flush(u32),
    FlushAll,
    FlushLocal(u32),
    FlushLocalAll,
    Sync,
    /// Attaches a region that nobody uses, or detaches it: others move in the table.
    Churn,
    /// Waits until a counter of this rank was raised.
    Await(Await),
    /// Completes the request of this access.
    Wait(u32),
    /// Lets others run for so many microseconds.
    Pause(u64),
    Wrong(Wrong),
}

#[derive(Clone, Debug)]
pub(crate) struct Await {
    pub(crate) counter: u32,
    /// The access that raises it last before.
    pub(crate) last: u32,
    pub(crate) at_least: u64,
}

/// A call that breaks a rule, and the class of the error that it must end in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrong {
    pub(crate) fault: Fault,
    pub(crate) target: u32,
    pub(crate) class: ErrorClass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Of a rank that is not in the window, by the operation of this number.
    NoRank(u8),
    /// Past the end of the target's memory.
    PastEnd(u8),
    /// An operation that the type does not have.
    NoOperation(Op, BasicType),
    NoSwap(BasicType),
    NullBuffer(u8),
    TooMany,
    /// Layouts of different elements, at the origin and at the target.
    Signatures,
    /// An accumulate of elements of several types.
    Mixed,
    /// A layout whose last byte, or whose first, is not inside the target's memory.
    LayoutOutside {
        below: bool,
    },
    /// A counter that the rank does not have.
    NotifyCounter(u32),
    AwaitCounter(u32),
    /// A region that is attached already.
    AttachAgain,
    Detach,
    /// The memory of a rank that is none.
    Query,
    /// Where no epoch of the target is open.
    Closed(u8),
    Request,
    Fence,
    Lock(LockKind),
    LockAll,
    Unlock,
    UnlockAll,
    Flush,
    FlushAll,
    FlushLocal,
    Start,
    Complete,
    Post,
    Wait,
    Test,
}

/// What a reader of a failure wants to know.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, round) in self.rounds.iter().enumerate() {
            for epoch in round.epochs.iter().filter(|epoch| epoch.has_accesses()) {
                let Epoch { window, sync, .. } = epoch;
                let (number, name) = (number + 1, epoch.number);
                writeln!(f, "round {number}, epoch {name}, window {window}: {sync:?}")?;
                for (rank, part) in self.windows[*window].parts.iter().enumerate() {
                    writeln!(f, "  rank {rank}: {part:?}")?;
                    for (thread, script) in epoch.scripts[rank].iter().enumerate() {
                        for call in script {
                            write!(f, "    thread {thread}: ")?;
                            match call {
                                Call::Access(access) => writeln!(f, "{access}")?,
                                call => writeln!(f, "{call:?}")?,
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Epoch {
    fn has_accesses(&self) -> bool {
        let mut calls = self.scripts.iter().flatten().flatten();
        calls.any(|call| matches!(call, Call::Access(_)))
    }
}
