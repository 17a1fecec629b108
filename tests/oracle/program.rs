//! What a program is: windows, and rounds of epochs in which every thread of every rank has a script.
//!
//! Ranks meet after each round and show their memory and what they fetched; the model judges both.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use transom::raw::Assert;
use transom::{BasicType, ErrorClass, LockKind, Op};

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
}

/// What one rank gives to a window.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) memory: Memory,
    pub(crate) size: usize,
    pub(crate) unit: u64,
    pub(crate) hints: Vec<(&'static str, &'static str)>,
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
    pub(crate) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// One thread of one rank works here alone.
    Owner { rank: u32, thread: usize },
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
    Access(Access),
    Lock(LockKind, u32, Assert),
    Unlock(u32),
    Flush(u32),
    FlushAll,
    FlushLocal(u32),
    FlushLocalAll,
    /// Completes the request of this access.
    Wait(u32),
    /// Lets others run for so many microseconds.
    Pause(u64),
    Wrong(Wrong),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
    /// A local store, which is no call.
    Store,
    Load,
}

/// An access to `count` elements at byte `at` of a target's memory.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Its number in the program.
    pub(crate) id: u32,
    pub(crate) kind: Kind,
    pub(crate) request: bool,
    pub(crate) target: u32,
    pub(crate) at: usize,
    pub(crate) ty: BasicType,
    pub(crate) count: usize,
    pub(crate) op: Op,
    pub(crate) operands: Vec<u8>,
    pub(crate) compare: Vec<u8>,
}

impl Access {
    pub(crate) fn fetches(&self) -> bool {
        !matches!(self.kind, Kind::Put | Kind::Accumulate | Kind::Store)
    }

    pub(crate) fn is_accumulate(&self) -> bool {
        use Kind::{Accumulate, CompareAndSwap, FetchAndOp, GetAccumulate};
        matches!(
            self.kind,
            Accumulate | GetAccumulate | FetchAndOp | CompareAndSwap
        )
    }

    /// Bytes that its buffers have, padding of the last element included.
    pub(crate) fn len(&self) -> usize {
        self.count * self.ty.extent()
    }

    /// Bytes of the target's memory.
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.at..self.at + span(self.ty, self.count)
    }

    /// What a result's buffer holds beforehand.
    pub(crate) fn blank(id: u32, index: usize) -> u8 {
        (id as usize * 31 + index * 7 + 5) as u8
    }
}

/// Bytes from the first of `count` elements to the end of the last, whose padding is not touched.
pub(crate) fn span(ty: BasicType, count: usize) -> usize {
    let trailing: usize = match ty {
        BasicType::DoubleInt | BasicType::LongInt => 4,
        BasicType::LongDoubleInt => 12,
        _ => 0,
    };
    (count * ty.extent()).saturating_sub(trailing)
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

/// What is left of a program while a failure is narrowed down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Rounds from the first on; `None`: all.
    pub(crate) rounds: Option<usize>,
    pub(crate) without_epochs: BTreeSet<usize>,
    pub(crate) without_accesses: BTreeSet<u32>,
}

impl Program {
    /// Leaves out what is not kept. What remains is a valid program still: only accesses and whole
    /// epochs go.
    pub(crate) fn reduce(&mut self, kept: &Kept) {
        self.rounds.truncate(kept.rounds.unwrap_or(usize::MAX));
        for round in &mut self.rounds {
            round
                .epochs
                .retain(|epoch| !kept.without_epochs.contains(&epoch.number));
            let scripts = round.epochs.iter_mut().flat_map(|epoch| &mut epoch.scripts);
            for script in scripts.flatten() {
                script.retain(|call| match call {
                    Call::Access(Access { id, .. }) | Call::Wait(id) => {
                        !kept.without_accesses.contains(id)
                    }
                    _ => true,
                });
            }
        }
    }

    /// Every access.
    pub(crate) fn accesses(&self) -> impl Iterator<Item = &Access> {
        let epochs = self.rounds.iter().flat_map(|round| &round.epochs);
        let calls = epochs.flat_map(|epoch| epoch.scripts.iter().flatten().flatten());
        calls.filter_map(|call| match call {
            Call::Access(access) => Some(access),
            _ => None,
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            kind,
            target,
            at,
            ty,
            count,
            op,
            ..
        } = self;
        let request = if self.request { " with a request" } else { "" };
        write!(f, "{id}: {kind:?}{request}")?;
        if self.is_accumulate() && *kind != Kind::CompareAndSwap {
            write!(f, " {op:?}")?;
        }
        let bytes = self.bytes();
        write!(
            f,
            " of {count} {ty:?} at {at}..{} of rank {target}",
            bytes.end
        )?;
        let shown = |bytes: &[u8]| format!("{:02x?}", &bytes[..bytes.len().min(24)]);
        if !self.fetches() || self.is_accumulate() && *op != Op::NoOp {
            write!(f, ", operands {}", shown(&self.operands))?;
        }
        match kind {
            Kind::CompareAndSwap => write!(f, ", compare {}", shown(&self.compare)),
            _ => Ok(()),
        }
    }
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
