//! A model of the time that work with the adapter would take: each request, doorbell, completion and registration has a
//! cost, and all data of a device goes over one wire. Nothing else takes time: no copy or instruction of the program, no
//! wait for what a peer does by itself, and no cache, bus or switch that others use, too.
//!
//! The costs are the numbers by which UCX compares protocols for ConnectX adapters, in `src/uct/ib`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::counters::Counter;

/// Posting a request, in ns: the overhead of `uct_rc_verbs_iface_query`.
const POST: u64 = 75;
/// The default of `IB_SEND_OVERHEAD`: a doorbell (`db`), a completion (`cqe`), and how long the adapter takes to fetch
/// what is not inline (`wqe_fetch`).
const DOORBELL: u64 = 40;
const COMPLETION: u64 = 20;
const FETCH: u64 = 350;
/// The way to the peer, and back: `uct_ib_iface_query` for EDR and later.
const ONE_WAY: u64 = 600;
/// HDR, four times 51.5625 Gbit/s with 64 of 66 bits, in bytes per ns.
const RATE: u64 = 25;
/// `MEM_REG_OVERHEAD`, and `MEM_REG_GROWTH` as a fraction. UCX has no cost for the end of a registration.
const REGISTRATION: u64 = 16_000;
const GROWTH: [u64; 2] = [6, 100];

/// What the model knows of a device, beside its clock.
#[derive(Default)]
pub(crate) struct Times {
    /// When the wire is free.
    wire: AtomicU64,
    /// Whether the program has polled in vain, and done nothing else since.
    polled_in_vain: AtomicBool,
}

/// The model of a device. Concurrent callers may get overlapping times on the wire.
pub(crate) struct Model<'a> {
    /// A counter, so that the launcher prints it.
    pub(crate) clock: &'a Counter,
    pub(crate) times: &'a Times,
}

impl Model<'_> {
    /// The program posts a request with so many bytes of data. Returns when its completion is there.
    pub(crate) fn post(&self, bytes: u64, is_inline: bool) -> u64 {
        self.times.polled_in_vain.store(false, Ordering::Relaxed);
        self.clock.add(POST);
        let fetched = self.clock.get() + DOORBELL + if is_inline { 0 } else { FETCH };
        let begun = self.times.wire.load(Ordering::Relaxed).max(fetched);
        let sent = begun + bytes / RATE;
        self.times.wire.store(sent, Ordering::Relaxed);
        sent + 2 * ONE_WAY
    }

    /// The program writes to the adapter's doorbell.
    pub(crate) fn ring(&self) {
        self.clock.add(DOORBELL);
    }

    /// The program registers so many bytes.
    pub(crate) fn register(&self, bytes: u64) {
        self.times.polled_in_vain.store(false, Ordering::Relaxed);
        self.clock.add(REGISTRATION + bytes * GROWTH[0] / GROWTH[1]);
    }

    /// The time of the completions that a poll may find: a program that polls again waits for them.
    pub(crate) fn visible_until(&self) -> u64 {
        match self.times.polled_in_vain.load(Ordering::Relaxed) {
            true => u64::MAX,
            false => self.clock.get(),
        }
    }

    /// The program has found so many completions, the latest of which is there at `time`.
    pub(crate) fn polled(&self, count: usize, time: u64) {
        self.times
            .polled_in_vain
            .store(count == 0, Ordering::Relaxed);
        self.clock.raise_to(time);
        self.clock.add(COMPLETION * count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_takes_two_ways_and_many_share_them() {
        let (clock, times) = &<(Counter, Times)>::default();
        let model = Model { clock, times };
        let there = model.post(8, true);
        model.ring();
        assert_eq!(clock.get(), POST + DOORBELL);
        assert_eq!(there, POST + DOORBELL + 2 * ONE_WAY);
        model.polled(1, there);
        let one = clock.get();
        assert_eq!(one, there + COMPLETION);

        let posted = (0..64).map(|_| model.post(8, true));
        let there = posted.max().unwrap();
        model.ring();
        model.polled(1, there);
        let many = clock.get() - one;
        assert_eq!(many, 64 * POST + DOORBELL + 2 * ONE_WAY + COMPLETION);
    }

    #[test]
    fn data_waits_for_the_wire_and_is_fetched() {
        let (clock, times) = &<(Counter, Times)>::default();
        let model = Model { clock, times };
        let first = model.post(25_000, false);
        assert_eq!(first, POST + DOORBELL + FETCH + 1000 + 2 * ONE_WAY);
        let second = model.post(25_000, false);
        assert_eq!(second, first + 1000);
        model.polled(2, second);
        // What was there long ago is not waited for.
        let later = clock.get();
        model.polled(1, first);
        assert_eq!(clock.get(), later + COMPLETION);
        model.register(1_000_000);
        assert_eq!(clock.get(), later + COMPLETION + 76_000);
    }

    #[test]
    fn only_a_program_that_polls_again_waits() {
        let (clock, times) = &<(Counter, Times)>::default();
        let model = Model { clock, times };
        let there = model.post(25_000, false);
        assert!(model.visible_until() < there);
        model.polled(0, 0);
        assert_eq!(model.visible_until(), u64::MAX);
        model.register(8);
        assert!((there..u64::MAX).contains(&model.visible_until()));
    }
}
