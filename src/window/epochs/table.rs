//! What is legal from where, and where it leads.

use crate::error::EpochState;

/// States that differ in what is legal, of a window of two ranks: this one and T.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
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
pub(super) enum Call {
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
pub(super) const CALLS: [(Call, &str, &str); 20] = [
    (Call::Fence, "`fence`", "12.5.1"),
    (Call::NoSucceed, "`NO_SUCCEED`", "12.5.5"),
    (Call::NoPrecede, "`NO_PRECEDE`", "12.5.5"),
    (Call::Start, "`start`", "12.5.2"),
    (Call::Complete, "`complete`", "12.5.2"),
    (Call::Post, "`post`", "12.5.2"),
    (Call::Wait, "`wait`", "12.5.2"),
    (Call::LockAll, "`lock_all`", "12.5.3"),
    (Call::UnlockAll, "`unlock_all`", "12.5.3"),
    (Call::Free, "`free`", "12.2.5"),
    (Call::Lock(ME), "`lock` me", "12.5.3"),
    (Call::Lock(T), "`lock` T", "12.5.3"),
    (Call::Unlock(ME), "`unlock` me", "12.5.3"),
    (Call::Unlock(T), "`unlock` T", "12.5.3"),
    (Call::Put(ME), "`put` me", "12.3.1"),
    (Call::Put(T), "`put` T", "12.3.1"),
    (Call::Rput(T), "`rput` T", "12.3.5"),
    (Call::Flush(ME), "`flush` me", "12.5.4"),
    (Call::Flush(T), "`flush` T", "12.5.4"),
    (Call::FlushAll, "`flush_all`", "12.5.4"),
];

/// Where a call leads, or what stands in its way.
pub(super) type Cell = std::result::Result<State, EpochState>;

const N: Cell = Ok(State::N);
const F: Cell = Ok(State::F);
const U: Cell = Ok(State::U);
const L: Cell = Ok(State::L);
const M: Cell = Ok(State::M);
const B: Cell = Ok(State::B);
const A: Cell = Ok(State::A);
const S: Cell = Ok(State::S);
const X: Cell = Ok(State::X);
const XL: Cell = Ok(State::XL);
const XS: Cell = Ok(State::XS);

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
pub(super) const TABLE: [(State, &str, [Cell; CALLS.len()]); 11] = [
    (State::N, "no epoch is open", [
        F, N, F, S, NONE, X, HIDDEN, A, NONE, N,
        M, L, FREE[0], FREE[1], NONE, NONE, NONE, NONE, NONE, NONE,
    ]),
    (State::F, "fence has opened an epoch, and no operation was called", [
        F, N, F, S, FENCE, X, HIDDEN, A, FENCE, F,
        M, L, FENCE, FENCE, U, U, FENCE, FENCE, FENCE, FENCE,
    ]),
    (State::U, "fence has opened an epoch, and an operation was called", [
        F, N, USED, FENCE, FENCE, FENCE, HIDDEN, FENCE, FENCE, FENCE,
        FENCE, FENCE, FENCE, FENCE, U, U, FENCE, FENCE, FENCE, FENCE,
    ]),
    (State::L, "T is locked", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, XL, HIDDEN, LOCKS, LOCKS, LOCKS,
        B, LOCKED[1], FREE[0], N, FREE[0], L, L, FREE[0], L, L,
    ]),
    (State::M, "this rank has locked its own part", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, LOCKED[0], HIDDEN, LOCKS, LOCKS, LOCKS,
        LOCKED[0], B, N, FREE[1], M, FREE[1], FREE[1], M, FREE[1], M,
    ]),
    (State::B, "both are locked", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, LOCKED[0], HIDDEN, LOCKS, LOCKS, LOCKS,
        LOCKED[0], LOCKED[1], L, M, B, B, B, B, B, B,
    ]),
    (State::A, "`lock_all` is in force", [
        ALL, ALL, ALL, ALL, ALL, ALL, HIDDEN, ALL, N, ALL,
        ALL, ALL, ALL, ALL, A, A, A, A, A, A,
    ]),
    (State::S, "`start` has opened an epoch of T", [
        START, START, START, START, N, XS, HIDDEN, START, START, START,
        START, START, OTHER, START, OTHER, S, START, OTHER, START, START,
    ]),
    (State::X, "`post` has exposed this rank's part", [
        POST, POST, POST, XS, POST, POST, N, POST, POST, POST,
        POST, XL, POST, POST, POST, POST, POST, POST, POST, POST,
    ]),
    (State::XL, "X, and T is locked", [
        LOCKS, LOCKS, LOCKS, LOCKS, LOCKS, POST, L, LOCKS, LOCKS, LOCKS,
        POST, LOCKED[1], FREE[0], X, FREE[0], XL, XL, FREE[0], XL, XL,
    ]),
    (State::XS, "X, and `start` has opened an epoch of T", [
        START, START, START, START, X, POST, S, START, START, START,
        POST, START, OTHER, START, OTHER, XS, START, OTHER, START, START,
    ]),
];
