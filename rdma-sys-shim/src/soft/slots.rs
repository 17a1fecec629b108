//! The slot protocol: how requests get to the agent of a process, or to a thread of it that waits, and answers back.
//!
//! An origin claims a slot by writing who it is into `owner`, which is 0 in a free slot. The state then goes IDLE → READY →
//! SERVING (by the agent, or by a thread that assists) → DONE or REFUSED → IDLE, and the owner gives the slot back. The other
//! fields and the data are the server's in the state SERVING, and the owner's in all others.
//!
//! The agent is told of slots that are ready. A thread that assists looks at all of them, again and again. If a slot
//! was only offered for assist, its origin takes it back after a short time (READY → IDLE). If the origin has died, no
//! thread serves the slot after a tenth of a second.
//!
//! No thread sleeps while there is a request for it. A thread that is about to sleep sets `sleeping`, and then checks
//! once more. A thread that has a request stores it, and then reads `sleeping`. A full fence between the two steps on
//! both sides ensures that at least one side sees the other's store.
//!
//! Only one server can begin a request, because READY changes by compare-and-swap only. A server reads each field once,
//! checks it against its private table of regions, and uses the value that it has checked. An impossible state is an
//! error for the origin. A malicious origin can claim all slots, so that others wait; the log says so after ten
//! seconds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::primitive::{
    AtomicU32, AtomicU64, SPINS, fence, futex, milliseconds, spin_loop, yield_now,
};
use crate::sharing::{is_oversubscribed, liveness_interval};

/// The most requests that an agent can have pending at once.
pub(crate) const SLOTS: usize = 32;

const IDLE: u32 = 0;
const READY: u32 = 2;
const SERVING: u32 = 3;
const DONE: u32 = 4;
const REFUSED: u32 = 5;

/// After this many milliseconds, nobody serves an offer: its origin is dead, or about to take it back.
const STALE: u32 = 100;

/// For this many milliseconds, a thread that has looked at the slots in passing is expected to do so again. Longer than
/// a tick of the clock.
const PASSING: u32 = 10;

/// How origins notify the agent thread.
#[repr(C, align(64))]
pub(crate) struct Bell {
    /// 1 while an agent serves.
    running: AtomicU32,
    /// One bit for each slot that the agent was told of.
    ready: AtomicU32,
    /// Changes with every request; the agent sleeps on it. It may wrap: the agent looks for ready slots between reading
    /// it and sleeping, and sleeps for a limited time.
    rung: AtomicU32,
    /// 1 while the agent sleeps or is about to.
    sleeping: AtomicU32,
}

/// Words that peers and waiting threads of a process use to notify each other.
#[repr(C, align(128))]
pub(crate) struct AssistWords {
    /// The number of waiting threads that poll the slots.
    lent: AtomicU32,
    /// 1 if a peer called a sleeping thread; those threads sleep on it.
    called: AtomicU32,
    /// The number of threads that sleep on `called`.
    asleep: AtomicU32,
    /// The time in [`milliseconds`] at which a thread last looked at the slots in passing; 0: never.
    passed: AtomicU32,
}

/// One request to the agent or a waiting thread. It fits into one cache line, with as much data as the operands hold. The
/// owner is in the next line, which its server never touches.
#[repr(C, align(128))]
pub(crate) struct Slot {
    state: AtomicU32,
    pub(super) operation: AtomicU32,
    pub(super) width: AtomicU32,
    /// The time in [`milliseconds`] at which it was offered for assist; 0 if the agent was told. When the clock wraps,
    /// an old offer of a dead origin counts as new for a moment: it is served, or freed as others are.
    offered: AtomicU32,
    /// 1 while the origin sleeps on `state`.
    sleeping: AtomicU32,
    pub(super) len: AtomicU32,
    pub(super) rkey: AtomicU64,
    pub(super) address: AtomicU64,
    /// The first one receives the old value of an atomic.
    pub(super) operands: [AtomicU64; 3],
    /// The origin's process, as given by [`ProcessId::to_word`](super::process::ProcessId::to_word); 0: the slot is
    /// free.
    owner: AtomicU64,
}

impl Slot {
    /// Moves the slot from one state to another. False if the slot was not in state `from`.
    fn moves(&self, from: u32, to: u32) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.state
            .compare_exchange(from, to, success, failure)
            .is_ok()
    }

    /// Moves the slot from one owner to another. False if `from` was not its owner.
    fn is_taken_over(&self, from: u64, to: u64) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.owner
            .compare_exchange(from, to, success, failure)
            .is_ok()
    }
}

/// The slots of a process, and the words that belong to them.
pub(crate) trait Slots {
    fn bell(&self) -> &Bell;
    fn assist(&self) -> &AssistWords;
    fn slot(&self, index: usize) -> &Slot;
}

/// Why a request was not answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// There is no agent. The request was taken back, and nothing was done.
    NoAgent,
    /// The agent's process is gone.
    Gone,
    /// The slot has an invalid state.
    Garbled,
    /// The job was aborted. A thread of the peer may be carrying the request out; then the slot stays taken.
    Cancelled,
}

/// Takes a free slot for `owner`, trying `first` first.
pub(crate) fn claim(slots: &impl Slots, count: usize, first: usize, owner: u64) -> Option<usize> {
    let mut all = (0..count).map(|i| (first + i) % count);
    all.find(|&index| {
        let slot = slots.slot(index);
        // A failed exchange would take the cache line from the thread that serves the slot.
        slot.owner.load(Ordering::Relaxed) == 0 && slot.is_taken_over(0, owner)
    })
}

pub(crate) fn give_back(slot: &Slot) {
    slot.state.store(IDLE, Ordering::Relaxed);
    slot.owner.store(0, Ordering::Release);
}

/// Frees the slot of an origin that died during a request; otherwise it would stay claimed, offered or answered for
/// ever. `cleaner` owns the slot meanwhile, so that another process frees it if this one dies.
pub(crate) fn free_if_dead(slot: &Slot, cleaner: u64, is_dead: impl FnOnce(u64) -> bool) {
    let owner = slot.owner.load(Ordering::Relaxed);
    if owner == 0 || owner == cleaner || !is_dead(owner) {
        return;
    }
    // Only one cleaner succeeds, and nobody else changes the owner of a taken slot. So it still belongs to the dead
    // process, whatever happened since it was tested.
    if !slot.is_taken_over(owner, cleaner) {
        return;
    }
    let is_over = match slot.state.load(Ordering::Acquire) {
        IDLE | DONE | REFUSED => true,
        // Unless a thread begins to serve it meanwhile.
        READY => slot.moves(READY, IDLE),
        _ => false,
    };
    match is_over {
        true => give_back(slot),
        false => slot.owner.store(owner, Ordering::Relaxed),
    }
}

/// Passes a filled slot to the agent, and waits for the answer: the old value of an atomic, or `None` if the agent
/// refused. The slot's data then belongs to the origin again. The origin gives the slot back, unless there is no
/// answer.
pub(crate) fn exchange(
    slots: &impl Slots,
    index: usize,
    may_wait: impl FnMut() -> Result<(), Unanswered>,
) -> Result<Option<u64>, Unanswered> {
    let slot = slots.slot(index);
    slot.offered.store(0, Ordering::Relaxed);
    slot.state.store(READY, Ordering::Release);
    slots.bell().ready.fetch_or(1 << index, Ordering::AcqRel);
    ring(slots.bell());
    wait_done(slots, index, may_wait)?;
    Ok(answer(slot))
}

fn answer(slot: &Slot) -> Option<u64> {
    match slot.state.load(Ordering::Relaxed) {
        DONE => Some(slot.operands[0].load(Ordering::Relaxed)),
        _ => None,
    }
}

fn is_answered(state: u32) -> bool {
    matches!(state, DONE | REFUSED)
}

/// Offers a filled slot to threads that poll all slots; `now` is from [`milliseconds`]. The agent is not told.
pub(crate) fn offer(slot: &Slot, now: u32) {
    slot.offered.store(now, Ordering::Relaxed);
    slot.state.store(READY, Ordering::Release);
}

/// The outcome of an offered slot, which belongs to its origin again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The result, as from [`exchange`].
    Answered(Option<u64>),
    /// Nobody took it, and nothing was done.
    TakenBack,
}

/// Puts a slot into a state that an honest process would not.
#[cfg(all(test, not(loom)))]
pub(crate) fn forge(slots: &impl Slots, index: usize, state: u32) {
    slots.slot(index).state.store(state, Ordering::Relaxed);
    slots.bell().ready.fetch_or(1 << index, Ordering::Relaxed);
    ring(slots.bell());
}

/// Waits until a thread has served an offered slot. Takes it back when `is_patient` returns false, which it calls until
/// a thread begins.
pub(crate) fn collect(
    slots: &impl Slots,
    index: usize,
    mut is_patient: impl FnMut() -> bool,
    may_wait: impl FnMut() -> Result<(), Unanswered>,
) -> Result<Offered, Unanswered> {
    let slot = slots.slot(index);
    loop {
        match slot.state.load(Ordering::Acquire) {
            state if is_answered(state) => return Ok(Offered::Answered(answer(slot))),
            READY if !is_patient() => {
                if slot.moves(READY, IDLE) {
                    return Ok(Offered::TakenBack);
                }
            }
            READY => spin_loop(),
            _ => {
                // A thread is serving it.
                wait_done(slots, index, may_wait)?;
                return Ok(Offered::Answered(answer(slot)));
            }
        }
    }
}

fn wait_done(
    slots: &impl Slots,
    index: usize,
    mut may_wait: impl FnMut() -> Result<(), Unanswered>,
) -> Result<(), Unanswered> {
    let (bell, slot) = (slots.bell(), slots.slot(index));
    let done = || is_answered(slot.state.load(Ordering::Acquire));
    // From Linux 6.18 on, a thread that yields forfeits its next time slices, too. An origin that shares a processor with
    // the server would get one answer for hundreds that another origin gets.
    let yields = if is_oversubscribed() { 0 } else { SPINS };
    for round in 0..SPINS + yields {
        if done() {
            return Ok(());
        }
        if round < SPINS {
            spin_loop();
        } else {
            yield_now();
        }
    }
    loop {
        // An agent that leaves first clears `running`, and then checks every slot once more.
        if bell.running.load(Ordering::Acquire) == 0 && is_retracted(slots, index) {
            return Err(Unanswered::NoAgent);
        }
        slot.sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let seen = slot.state.load(Ordering::Relaxed);
        match seen {
            READY | SERVING => futex::wait(&slot.state, seen, liveness_interval()),
            seen if is_answered(seen) => {}
            _ => return Err(Unanswered::Garbled),
        }
        slot.sleeping.store(0, Ordering::Relaxed);
        if done() {
            return Ok(());
        }
        if let Err(why) = may_wait() {
            if why == Unanswered::Cancelled {
                is_retracted(slots, index);
            }
            return Err(why);
        }
    }
}

/// Takes a request back and gives its slot back, unless a thread has begun to serve it.
fn is_retracted(slots: &impl Slots, index: usize) -> bool {
    let slot = slots.slot(index);
    let is_ours = slot.moves(READY, IDLE);
    if is_ours {
        (slots.bell().ready).fetch_and(!(1 << index), Ordering::AcqRel);
        give_back(slot);
    }
    is_ours
}

/// Wakes the agent, if it sleeps.
pub(crate) fn ring(bell: &Bell) {
    // A thread that sees the new `rung` also sees the ready slot.
    bell.rung.fetch_add(1, Ordering::Release);
    fence(Ordering::SeqCst);
    if bell.sleeping.load(Ordering::Relaxed) != 0 {
        futex::wake(&bell.rung);
    }
}

impl Bell {
    pub(crate) fn set_running(&self, running: bool) {
        self.running.store(running.into(), Ordering::SeqCst);
    }

    /// The agent sleeps until the bell rings, or for `limit`.
    pub(crate) fn sleep(&self, limit: Duration) {
        self.sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let seen = self.rung.load(Ordering::Acquire);
        if self.ready.load(Ordering::Relaxed) == 0 {
            futex::wait(&self.rung, seen, limit);
        }
        self.sleeping.store(0, Ordering::Relaxed);
    }
}

impl AssistWords {
    /// The calling thread polls the slots from now on.
    pub(crate) fn lend(&self) {
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    /// The calling thread stops polling. It probably polls again soon, so it counts as one that passes by.
    pub(crate) fn withdraw(&self) {
        self.note_passing(milliseconds());
        self.lent.fetch_sub(1, Ordering::Relaxed);
    }

    /// The calling thread is about to look at the slots, and will probably do so again soon.
    pub(crate) fn note_passing(&self, now: u32) {
        // A store at every look would take the cache line from peers that read it.
        if self.passed.load(Ordering::Relaxed) != now {
            self.passed.store(now, Ordering::Relaxed);
        }
    }

    /// Whether a thread polls the slots.
    pub(crate) fn are_polled(&self) -> bool {
        self.lent.load(Ordering::Relaxed) != 0
    }

    /// Whether a thread has just looked at the slots in passing, or has just stopped polling them.
    pub(crate) fn were_passed(&self) -> bool {
        let passed = self.passed.load(Ordering::Relaxed);
        passed != 0 && milliseconds().wrapping_sub(passed) <= PASSING
    }

    /// Wakes a sleeping thread to check the slots. A thread that is about to sleep may miss it, and sleeps for its
    /// limit at most.
    pub(crate) fn call(&self) {
        self.called.store(1, Ordering::Relaxed);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            futex::wake_one(&self.called);
        }
    }

    /// Whether a peer has called since the last check.
    pub(crate) fn take_call(&self) -> bool {
        let was_called = self.called.load(Ordering::Relaxed) != 0;
        if was_called {
            self.called.store(0, Ordering::Relaxed);
        }
        was_called
    }

    /// Sleeps for `limit`, or until a peer calls.
    pub(crate) fn sleep(&self, limit: Duration) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
        futex::wait(&self.called, 0, limit);
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the offer is so old that its origin no longer waits.
fn is_stale(slot: &Slot) -> bool {
    match slot.offered.load(Ordering::Relaxed) {
        0 => false,
        offered => milliseconds().wrapping_sub(offered) > STALE,
    }
}

/// Serves the ready slots, including those that the agent was not told of. Returns how many it served.
pub(crate) fn serve_offered(
    slots: &impl Slots,
    indices: impl Iterator<Item = usize>,
    mut carry_out: impl FnMut(usize, &Slot) -> Option<u64>,
) -> usize {
    let mut served = 0;
    for index in indices {
        let slot = slots.slot(index);
        let is_ready = slot.state.load(Ordering::Acquire) == READY && !is_stale(slot);
        if is_ready {
            served += usize::from(serve(slot, |slot| carry_out(index, slot)));
        }
    }
    served
}

/// The slots that were recently served first, one bit each. If several are ready together, a different one goes first
/// each time, so that no origin is always last.
#[derive(Default)]
pub(crate) struct RoundRobin(u32);

impl RoundRobin {
    /// Chooses the slot of `ready`, which is not 0, that is served first.
    fn first_of(&mut self, ready: u32) -> u32 {
        if ready.is_power_of_two() {
            return ready.trailing_zeros();
        }
        if ready & !self.0 == 0 {
            self.0 &= !ready;
        }
        let first = (ready & !self.0).trailing_zeros();
        self.0 |= 1 << first;
        first
    }
}

/// Serves every slot that the agent was told of; false if there are none. `carry_out` returns an old value, or `None`
/// to refuse.
pub(crate) fn serve_ready(
    slots: &impl Slots,
    round_robin: &mut RoundRobin,
    mut carry_out: impl FnMut(usize, &Slot) -> Option<u64>,
) -> bool {
    let ready = slots.bell().ready.swap(0, Ordering::AcqRel);
    if ready == 0 {
        return false;
    }
    let first = round_robin.first_of(ready);
    let mut ready = ready.rotate_right(first);
    while ready != 0 {
        let index = ((ready.trailing_zeros() + first) % u32::BITS) as usize;
        ready &= ready - 1;
        if index < SLOTS {
            serve(slots.slot(index), |slot| carry_out(index, slot));
        }
    }
    true
}

/// Serves a slot. False if another thread serves it, or its origin has taken it back.
fn serve(slot: &Slot, carry_out: impl FnOnce(&Slot) -> Option<u64>) -> bool {
    if !slot.moves(READY, SERVING) {
        return false;
    }
    let answer = match carry_out(slot) {
        Some(old) => {
            slot.operands[0].store(old, Ordering::Relaxed);
            DONE
        }
        None => REFUSED,
    };
    slot.state.store(answer, Ordering::Release);
    fence(Ordering::SeqCst);
    if slot.sleeping.load(Ordering::Relaxed) != 0 {
        futex::wake(&slot.state);
    }
    true
}

/// The agent's last act. An origin whose request it no longer sees takes that back: it set its bit of `ready` after the
/// agent's last check, and so sees that `running` is 0.
pub(crate) fn leave(slots: &impl Slots, carry_out: impl FnMut(usize, &Slot) -> Option<u64>) {
    slots.bell().running.store(0, Ordering::Relaxed);
    serve_ready(slots, &mut RoundRobin::default(), carry_out);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::soft::segment::Segment;

    #[test]
    fn of_requests_that_come_together_each_is_first_as_often() {
        let segment = Segment::create(std::process::id(), 1).unwrap();
        let asked = [3, 4, 17, 31];
        let mut was_first = [0; SLOTS];
        let mut round_robin = RoundRobin::default();
        for _ in 0..100 {
            for index in asked {
                segment.slot(index).state.store(READY, Ordering::Relaxed);
                segment.bell().ready.fetch_or(1 << index, Ordering::Relaxed);
            }
            let mut served = Vec::new();
            let carry_out = |index, _: &Slot| {
                served.push(index);
                Some(0)
            };
            assert!(serve_ready(&segment, &mut round_robin, carry_out));
            was_first[served[0]] += 1;
            served.sort_unstable();
            assert_eq!(served, asked);
        }
        assert_eq!(asked.map(|index| was_first[index]), [25; 4]);
        assert!(!serve_ready(&segment, &mut round_robin, |_, _| Some(0)));
    }

    #[test]
    fn a_slot_that_is_alone_is_served_at_once() {
        let mut round_robin = RoundRobin::default();
        let first =
            [0b11, 0b1, 0b11, 0b10, 0b11, 0b101, 0b11].map(|ready| round_robin.first_of(ready));
        assert_eq!(first, [0, 0, 1, 1, 0, 2, 1]);
    }
}

#[cfg(all(test, loom))]
mod loom_model;
