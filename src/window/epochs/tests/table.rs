//! What is legal from where, and where it leads.

use crate::error::EpochState;

/// States that differ in what is legal, of a window of two ranks: this one and T.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TableState {
    N,
    F,
    U,
    L,
    M,
    B,
    A,
    S,
    X,
    XL,
    XS,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableCall {
    Fence,
    NoSucceed,
    NoPrecede,
    Start,
    Complete,
    Post,
    Wait,
    LockAll,
    UnlockAll,
    Free,
    Lock(u32),
    Unlock(u32),
    Put(u32),
    Rput(u32),
    Flush(u32),
    FlushAll,
}

pub(super) const ME: u32 = 0;
pub(super) const T: u32 = 1;

/// The columns, what the page calls them, and the section of MPI-4.1.
pub(super) const CALLS: [(TableCall, &str, &str); 20] = [
    (TableCall::Fence, "`fence`", "12.5.1"),
    (TableCall::NoSucceed, "`NO_SUCCEED`", "12.5.5"),
    (TableCall::NoPrecede, "`NO_PRECEDE`", "12.5.5"),
    (TableCall::Start, "`start`", "12.5.2"),
    (TableCall::Complete, "`complete`", "12.5.2"),
    (TableCall::Post, "`post`", "12.5.2"),
    (TableCall::Wait, "`wait`", "12.5.2"),
    (TableCall::LockAll, "`lock_all`", "12.5.3"),
    (TableCall::UnlockAll, "`unlock_all`", "12.5.3"),
    (TableCall::Free, "`free`", "12.2.5"),
    (TableCall::Lock(ME), "`lock` me", "12.5.3"),
    (TableCall::Lock(T), "`lock` T", "12.5.3"),
    (TableCall::Unlock(ME), "`unlock` me", "12.5.3"),
    (TableCall::Unlock(T), "`unlock` T", "12.5.3"),
    (TableCall::Put(ME), "`put` me", "12.3.1"),
    (TableCall::Put(T), "`put` T", "12.3.1"),
    (TableCall::Rput(T), "`rput` T", "12.3.5"),
    (TableCall::Flush(ME), "`flush` me", "12.5.4"),
    (TableCall::Flush(T), "`flush` T", "12.5.4"),
    (TableCall::FlushAll, "`flush_all`", "12.5.4"),
];

/// Where a call leads, or what stands in its way.
pub(super) type Cell = std::result::Result<TableState, EpochState>;

const N: Cell = Ok(TableState::N);
const F: Cell = Ok(TableState::F);
const U: Cell = Ok(TableState::U);
const L: Cell = Ok(TableState::L);
const M: Cell = Ok(TableState::M);
const B: Cell = Ok(TableState::B);
const A: Cell = Ok(TableState::A);
const S: Cell = Ok(TableState::S);
const X: Cell = Ok(TableState::X);
const XL: Cell = Ok(TableState::XL);
const XS: Cell = Ok(TableState::XS);

const NONE: Cell = Err(EpochState::None);
const FENCE: Cell = Err(EpochState::Fence);
const USED: Cell = Err(EpochState::FenceUsed);
const LOCKS: Cell = Err(EpochState::Locks);
const LOCKED: [Cell; 2] = [Err(EpochState::Locked(ME)), Err(EpochState::Locked(T))];
const FREE: [Cell; 2] = [
    Err(EpochState::NotLocked(ME)),
    Err(EpochState::NotLocked(T)),
];
const ALL: Cell = Err(EpochState::LockAll);
const START: Cell = Err(EpochState::Started);
const OTHER: Cell = Err(EpochState::NotStarted(ME));
const POST: Cell = Err(EpochState::Exposed);
const HIDDEN: Cell = Err(EpochState::NotExposed);

#[rustfmt::skip]
pub(super) const TABLE: [(TableState, &str, [Cell; CALLS.len()]); 11] = [
    (TableState::N, "no epoch is open", [
        F, N, F, S, NONE, X, HIDDEN, A, NONE, N,
        M, L, FREE[0], FREE[1], NONE, NONE, NONE, NONE, NONE, NONE,
    ]),
    (TableState::F, "fence has opened an epoch, and no operation was called", [
        F, N, F, S, FENCE, X, HIDDEN, A, FENCE, F,
        M, L, FENCE, FENCE, U, U, FENCE, FENCE, FENCE, FENCE,
    ]),
    (TableState::U, "fence has opened an epoch, and an operation was called", [
        F, N, USED, FENCE, FENCE, FENCE, HIDDEN, FENCE, FENCE, FENCE,
        FENCE, FENCE, FENCE, FENCE, U, U, FENCE, FENCE, FENCE, FENCE,
    ]),
    (TableState::L, "T is locked", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, XL, HIDDEN, LOCKS, LOCKS, LOCKS,
        B, LOCKED[1], FREE[0], N, FREE[0], L, L, FREE[0], L, L,
    ]),
    (TableState::M, "this rank has locked its own part", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, LOCKED[0], HIDDEN, LOCKS, LOCKS, LOCKS,
        LOCKED[0], B, N, FREE[1], M, FREE[1], FREE[1], M, FREE[1], M,
    ]),
    (TableState::B, "both are locked", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, LOCKED[0], HIDDEN, LOCKS, LOCKS, LOCKS,
        LOCKED[0], LOCKED[1], L, M, B, B, B, B, B, B,
    ]),
    (TableState::A, "`lock_all` is in force", [
        ALL, ALL, ALL, ALL, ALL, ALL, HIDDEN, ALL, N, ALL,
        ALL, ALL, ALL, ALL, A, A, A, A, A, A,
    ]),
    (TableState::S, "`start` has opened an epoch of T", [
        START, START, START, START, N, XS, HIDDEN, START, START, START,
        START, START, OTHER, START, OTHER, S, START, OTHER, START, START,
    ]),
    (TableState::X, "`post` has exposed this rank's part", [
        POST, POST, POST, XS, POST, POST, N, POST, POST, POST,
        POST, XL, POST, POST, POST, POST, POST, POST, POST, POST,
    ]),
    (TableState::XL, "X, and T is locked", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, POST, L, LOCKS, LOCKS, LOCKS,
        POST, LOCKED[1], FREE[0], X, FREE[0], XL, XL, FREE[0], XL, XL,
    ]),
    (TableState::XS, "X, and `start` has opened an epoch of T", [
        START, START, START, START, X, POST, S, START, START, START,
        POST, START, OTHER, START, OTHER, XS, START, OTHER, START, START,
    ]),
];
