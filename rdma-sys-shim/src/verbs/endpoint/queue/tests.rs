//! The books of a send queue, kept over a device that says what a test tells it to say.

mod bells;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use ffi::ibv_send_flags as Flags;
use ibverbs_sys as ffi;

use super::completing::SLOWEST;
use super::*;
use crate::verbs::endpoint::link::{BATCH, Report};

/// What the device was asked, and what it will say.
#[derive(Default)]
struct Seen {
    /// Tickets, and the flags of their requests.
    posted: Vec<(u64, u32)>,
    /// The tickets of reads, and the places that they read.
    reads: Vec<(u64, u64)>,
    /// What adds to words, by its ticket.
    adds: Vec<(u64, u64)>,
    /// How many requests each bell was rung for.
    bells: Vec<usize>,
    /// The first bytes that inline requests carried.
    carried: Vec<u8>,
    reports: Vec<Report>,
    taken: Vec<Report>,
    refuses: bool,
    is_broken: bool,
    flushes: bool,
    /// Whether it refuses to fail.
    is_stubborn: bool,
    failed: bool,
    destroyed: bool,
}

struct Fake(Rc<RefCell<Seen>>);

impl Link for Fake {
    unsafe fn post(&self, first: *mut ffi::ibv_send_wr) -> Result<()> {
        let mut seen = self.0.borrow_mut();
        if seen.refuses {
            return Err(destroyed());
        }
        let mut next = first;
        let before = seen.posted.len();
        // SAFETY: null, or a request of the chain, by the queue's promise.
        while let Some(work) = unsafe { next.as_ref() } {
            seen.posted.push((work.wr_id, work.send_flags));
            if work.opcode == ffi::ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD {
                // SAFETY: the part of the union that such a request fills in.
                let add = unsafe { work.wr.atomic.compare_add };
                seen.adds.push((work.wr_id, add));
            }
            if work.opcode == ffi::ibv_wr_opcode::IBV_WR_RDMA_READ {
                // SAFETY: the part of the union that such a request fills in.
                let place = unsafe { work.wr.rdma.remote_addr };
                seen.reads.push((work.wr_id, place));
            }
            if work.send_flags & Flags::IBV_SEND_INLINE.0 != 0 {
                // SAFETY: an inline request's data is readable when it is posted.
                let byte = unsafe {
                    let element = &*work.sg_list;
                    *std::ptr::with_exposed_provenance(element.addr as usize)
                };
                seen.carried.push(byte);
            }
            next = work.next;
        }
        let rung_for = seen.posted.len() - before;
        seen.bells.push(rung_for);
        Ok(())
    }

    fn take_reports(&mut self) -> Result<usize> {
        let mut seen = self.0.borrow_mut();
        let count = seen.reports.len().min(BATCH);
        seen.taken = seen.reports.drain(..count).collect();
        match seen.is_broken && count == 0 {
            true => Err(destroyed()),
            false => Ok(count),
        }
    }

    fn report(&self, index: usize) -> Report {
        self.0.borrow().taken[index]
    }

    fn fail(&self) -> Result<()> {
        let mut seen = self.0.borrow_mut();
        if seen.is_stubborn {
            return Err(destroyed());
        }
        seen.failed = true;
        if seen.flushes {
            let flushed = (status::IBV_WC_WR_FLUSH_ERR, 0);
            let last = seen.posted.last().map_or(0, |&(ticket, _)| ticket);
            seen.reports.extend((3..=last).map(|ticket| Report {
                ticket,
                error: Some(flushed),
            }));
        }
        Ok(())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.0.borrow_mut().destroyed = true;
    }
}

struct Bench {
    queue: SendQueue<Fake>,
    seen: Rc<RefCell<Seen>>,
}

impl Bench {
    fn new(limit: usize) -> Self {
        let seen = Rc::new(RefCell::new(Seen::default()));
        Self {
            queue: SendQueue::over(Fake(seen.clone()), 1, limit, 0),
            seen,
        }
    }

    /// A long queue to which so many words were written.
    fn after(writes: usize) -> Self {
        let mut bench = Self::new(256);
        for _ in 0..writes {
            bench.write(8).unwrap();
        }
        bench
    }

    fn write(&mut self, len: u32) -> Result<u64> {
        self.post(write(len))
    }

    fn post(&mut self, request: Request) -> Result<u64> {
        // SAFETY: no device uses the memory.
        unsafe { self.queue.post_one(&request) }
    }

    fn bells(&self) -> Vec<usize> {
        self.seen.borrow().bells.clone()
    }

    fn signalled(&self) -> Vec<u64> {
        self.flagged(Flags::IBV_SEND_SIGNALED)
    }

    /// Tickets of the requests that carry this flag.
    fn flagged(&self, flag: Flags) -> Vec<u64> {
        let seen = self.seen.borrow();
        let flagged = seen.posted.iter().filter(|(_, flags)| flags & flag.0 != 0);
        flagged.map(|&(ticket, _)| ticket).collect()
    }

    fn store(&mut self, old: u64, new: u64) -> u64 {
        let at = RemoteAddress::default();
        let fence = self.queue.pending_read().is_some();
        // SAFETY: no device uses the memory.
        unsafe { self.queue.post_store(at, old, new, Local::NOTHING, fence) }.unwrap()
    }

    /// What was added to words, and by which request.
    fn adds(&self) -> Vec<(u64, u64)> {
        self.seen.borrow().adds.clone()
    }

    fn will_report(&self, ticket: u64, error: Option<(status::Type, u32)>) {
        let report = Report { ticket, error };
        self.seen.borrow_mut().reports.push(report);
    }

    fn report(&mut self, ticket: u64, error: Option<(status::Type, u32)>) {
        self.will_report(ticket, error);
        self.queue.poll().unwrap();
    }
}

fn write(len: u32) -> Request {
    let local = Local {
        len,
        ..Local::NOTHING
    };
    Request::whole(Operation::Write, RemoteAddress::default(), local)
}

fn read() -> Request {
    let nothing = Local::NOTHING;
    Request::whole(Operation::Read, RemoteAddress::default(), nothing)
}

fn fetch_add() -> Request {
    Request {
        verb: Verb::Fetch(Fetch::Add(1)),
        signal: true,
        ..Request::whole(
            Operation::FetchAdd,
            RemoteAddress::default(),
            Local::NOTHING,
        )
    }
}

#[test]
fn the_first_every_sixteenth_and_many_bytes_are_signalled() {
    let mut bench = Bench::after(40);
    assert_eq!(bench.signalled(), [1, 17, 33]);
    bench.write(64 << 10).unwrap();
    assert_eq!(bench.signalled(), [1, 17, 33, 41]);
    bench.report(41, None);
    assert!(bench.queue.is_idle());
    assert_eq!(bench.queue.succeeded(), 41);
}

#[test]
fn the_first_behind_a_stored_word_is_signalled() {
    let mut bench = Bench::new(256);
    bench.store(0, 1);
    for _ in 0..20 {
        bench.write(8).unwrap();
    }
    assert_eq!(bench.signalled(), [1, 2, 18]);
    bench.report(2, None);
    bench.report(18, None);
    // Behind other requests, a stored word is one of them.
    bench.store(1, 2);
    bench.write(8).unwrap();
    bench.queue.post_waiting(22).unwrap();
    assert_eq!(bench.signalled(), [1, 2, 18, 23], "somebody asked");
    bench.report(23, None);
    for old in 2..4 {
        bench.store(old, old + 1);
    }
    bench.write(8).unwrap();
    bench.write(8).unwrap();
    assert_eq!(bench.signalled()[4..], [24, 26]);
}

#[test]
fn a_chain_is_linked_and_signalled_like_single_requests() {
    let mut bench = Bench::new(256);
    let nothing = Request::whole(
        Operation::FetchAdd,
        RemoteAddress::default(),
        Local::NOTHING,
    );
    // SAFETY: no device uses the memory.
    assert_eq!(unsafe { bench.queue.post(&[nothing; 40]) }.unwrap(), 40);
    let tickets: Vec<u64> = bench.seen.borrow().posted.iter().map(|p| p.0).collect();
    assert_eq!(tickets, (1..=40).collect::<Vec<u64>>());
    assert_eq!(bench.signalled(), [1, 17, 33]);
}

#[test]
fn a_full_queue_of_any_length_has_a_report_to_come() {
    for limit in 1..40 {
        let mut bench = Bench::new(limit);
        let mut reported = 0;
        for _ in 0..200 {
            while bench.queue.room() > 0 {
                bench.write(8).unwrap();
            }
            let queue = &mut bench.queue;
            assert!(
                queue.signals.newest() > queue.completed,
                "a queue of {limit}"
            );
            queue.ask().unwrap();
            let due = bench.signalled().into_iter().find(|&at| at > reported);
            reported = due.unwrap_or_else(|| panic!("a queue of {limit} waits for ever"));
            bench.report(reported, None);
            assert_eq!(bench.queue.succeeded(), reported);
        }
    }
}

#[test]
fn requests_with_a_fence_carry_the_flag_and_others_do_not() {
    let mut bench = Bench::new(256);
    let fenced = |request| Request {
        fence: true,
        ..request
    };
    // Enough for some of the unfenced ones to wait for their bell.
    for _ in 0..2 {
        for request in [write(8), read(), fetch_add()] {
            bench.post(request).unwrap();
            bench.post(fenced(request)).unwrap();
        }
    }
    // SAFETY: no device uses the memory.
    unsafe { bench.queue.post(&[fenced(write(8)), write(8), write(8)]) }.unwrap();
    bench.write(8).unwrap();
    bench.queue.ask().unwrap();
    assert_eq!(bench.seen.borrow().posted.len(), 16);
    let fenced = bench.flagged(Flags::IBV_SEND_FENCE);
    assert_eq!(fenced, [2, 4, 6, 8, 10, 12, 13]);
}

/// It decides whether an atomic needs a fence.
#[test]
fn reads_are_under_way_until_they_are_complete() {
    let mut bench = Bench::new(256);
    bench.write(8).unwrap();
    bench.post(fetch_add()).unwrap();
    assert_eq!(bench.queue.pending_read(), None, "an atomic is no read");
    bench.post(read()).unwrap();
    bench.write(8).unwrap();
    assert_eq!(bench.queue.pending_read(), Some(3));
    bench.report(2, None);
    assert_eq!(bench.queue.pending_read(), Some(3), "it is behind that");
    bench.report(4, None);
    assert_eq!(bench.queue.pending_read(), None);
    // Also one that waits for its bell is ahead of what comes next.
    for _ in 0..4 {
        bench.write(64 << 10).unwrap();
    }
    let bells = bench.bells();
    bench.post(read()).unwrap();
    assert_eq!(bench.bells(), bells, "it waits");
    assert!(bench.queue.pending_read().is_some());
}

/// Behind an adapter that is one of several, a report of a write only says that it is there.
#[test]
fn where_reads_trail_nothing_is_complete_before_one_behind_it() {
    let place = RemoteAddress {
        address: 0x77,
        rkey: 1,
    };
    for request in [write(8), fetch_add()] {
        let mut bench = Bench::new(256);
        bench.queue.read_behind(place, Local::NOTHING);
        bench.post(request).unwrap();
        bench.report(1, None);
        assert!(bench.queue.is_idle());
        assert_eq!(bench.queue.succeeded(), 0);
        for _ in 0..2 {
            bench.queue.ask_about(1).unwrap();
        }
        assert_eq!(bench.seen.borrow().reads, [(2, 0x77)], "once");
        assert_eq!(bench.queue.pending_read(), None, "atomics may overtake it");
        bench.post(request).unwrap();
        bench.report(3, None);
        assert_eq!(bench.queue.succeeded(), 2);
        bench.queue.ask_about(2).unwrap();
        assert_eq!(bench.seen.borrow().reads.len(), 1);
        bench.queue.ask_about(3).unwrap();
        bench.report(4, None);
        assert_eq!(bench.queue.succeeded(), 4);
    }
}

#[test]
fn any_read_that_will_report_is_a_trailing_read() {
    let mut bench = Bench::new(256);
    bench
        .queue
        .read_behind(RemoteAddress::default(), Local::NOTHING);
    // Only the first of them reports, until somebody asks.
    for request in [write(8), write(8), read(), write(64 << 10)] {
        bench.post(request).unwrap();
    }
    assert_eq!(bench.signalled(), [1, 4]);
    bench.queue.ask_about(3).unwrap();
    assert_eq!(
        bench.queue.posted(),
        4,
        "the fourth request covers the read"
    );
    bench.report(4, None);
    assert_eq!(bench.queue.succeeded(), 3);
    bench.post(read()).unwrap();
    bench.write(8).unwrap();
    bench.queue.ask_about(6).unwrap();
    assert_eq!(bench.queue.posted(), 7, "one behind the last write");
    // A failed read shows nothing.
    bench.report(7, Some((status::IBV_WC_RETRY_EXC_ERR, 0)));
    assert_eq!(bench.queue.succeeded(), 5);
}

/// Writes may overtake writes, so that only with nothing under way is a store a write.
#[test]
fn a_store_behind_anything_is_an_atomic() {
    let mut bench = Bench::new(256);
    bench.queue.inline = 8;
    bench.store(0, 7);
    assert_eq!(bench.adds(), []);
    assert_eq!(bench.seen.borrow().carried, 7_u64.to_ne_bytes()[..1]);
    bench.store(7, 9);
    assert_eq!(bench.adds(), [(2, 2)], "the first store is under way");
    bench.report(1, None);
    bench.store(9, 4);
    assert_eq!(bench.adds()[1..], [(3, 5_u64.wrapping_neg())]);
    assert_eq!(bench.flagged(Flags::IBV_SEND_FENCE), []);
    bench.post(read()).unwrap();
    bench.store(4, 5);
    assert_eq!(bench.adds()[2..], [(5, 1)]);
    assert_eq!(bench.flagged(Flags::IBV_SEND_FENCE), [5]);
    assert_eq!(bench.bells(), [1; 5], "somebody waits for each of them");
    bench.report(5, None);
    bench.store(5, 6);
    assert_eq!(bench.adds().len(), 3, "nothing is under way");
    assert_eq!(bench.signalled().last(), Some(&6), "so that this is known");
}

/// Also where requests cannot carry data themselves.
#[test]
fn a_store_without_inline_data_is_an_atomic() {
    let mut bench = Bench::new(256);
    bench.store(0, 7);
    assert_eq!(bench.adds(), [(1, 7)]);
}

#[test]
fn one_probe_is_posted_where_nothing_else_would_report() {
    let mut bench = Bench::new(8);
    bench.queue.ask().unwrap();
    assert_eq!(bench.signalled(), [1], "an idle connection is tried");
    bench.report(1, None);
    bench.write(8).unwrap();
    bench.write(8).unwrap();
    bench.queue.ask().unwrap();
    assert_eq!(bench.signalled(), [1, 2], "the first write reports");
    bench.report(2, None);
    assert!(!bench.queue.is_idle());
    bench.queue.ask().unwrap();
    bench.queue.ask().unwrap();
    assert_eq!(bench.signalled(), [1, 2, 4], "the second does not");
    bench.report(4, None);
    assert!(bench.queue.is_idle());
}

#[test]
fn the_first_failure_is_kept_and_ends_the_rest() {
    let mut bench = Bench::new(8);
    bench.seen.borrow_mut().flushes = true;
    for len in 1..=4 {
        bench.write(len).unwrap();
    }
    bench.report(2, Some((status::IBV_WC_REM_ACCESS_ERR, 9)));
    let queue = &bench.queue;
    let failure = queue.failure().unwrap();
    let (ticket, len) = (failure.ticket, failure.len);
    assert_eq!((ticket, len, failure.vendor), (2, 2, 9));
    assert_eq!(failure.status, status::IBV_WC_REM_ACCESS_ERR);
    assert_eq!(queue.succeeded(), 1, "what came before it did succeed");
    assert_eq!(failure.flushed, 2, "and what came behind it is counted");
    assert!(queue.is_idle());
    let seen = bench.seen.borrow();
    assert!(seen.failed && !seen.destroyed);
}

#[test]
fn a_device_that_keeps_requests_loses_its_queue_pair() {
    let mut bench = Bench::new(8);
    for len in 1..=4 {
        bench.write(len).unwrap();
    }
    bench.report(2, Some((status::IBV_WC_RETRY_EXC_ERR, 0)));
    assert!(bench.queue.is_idle());
    assert!(bench.seen.borrow().destroyed);
    assert_eq!(bench.queue.failure().unwrap().flushed, 2);
    assert_eq!(bench.queue.succeeded(), 1);
}

#[test]
fn after_a_refused_post_nothing_goes_on() {
    let mut bench = Bench::new(8);
    bench.write(1).unwrap();
    bench.write(2).unwrap();
    bench.report(1, None);
    bench.seen.borrow_mut().refuses = true;
    bench.write(3).unwrap_err();
    assert!(bench.seen.borrow().destroyed);
    assert!(bench.queue.is_idle());
    let failure = bench.queue.failure().unwrap();
    assert_eq!((failure.ticket, failure.len), (2, 2));
    assert_eq!(bench.queue.succeeded(), 1);
    bench.write(4).unwrap_err();
    bench.queue.poll().unwrap();
}

#[test]
fn a_device_that_says_nothing_is_taken_for_dead() {
    let mut bench = Bench::new(8);
    let (silence, start) = (Duration::from_secs(2), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    bench.write(8).unwrap();
    bench.write(3 * SLOWEST as u32).unwrap();
    bench.queue.watch(start, silence, None).unwrap();
    bench.queue.watch(after(20), silence, None).unwrap();
    bench.report(1, None);
    // The second write is the oldest now, which nothing reported so far would tell of.
    for seconds in [25, 25 + 10 + 16 + 3] {
        bench.queue.watch(after(seconds), silence, None).unwrap();
        assert!(bench.queue.failure().is_none(), "after {seconds} s");
    }
    assert_eq!(bench.signalled(), [1, 2]);
    bench.queue.watch(after(55), silence, None).unwrap();
    let failure = bench.queue.failure().unwrap();
    assert_eq!(
        (failure.ticket, failure.status),
        (2, status::IBV_WC_FATAL_ERR)
    );
    assert!(bench.seen.borrow().destroyed && bench.queue.is_idle());
}

#[test]
fn a_device_whose_port_is_down_is_waited_for_as_for_a_silent_peer() {
    let mut bench = Bench::new(8);
    let (silence, start) = (Duration::from_secs(4), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    bench.write(8).unwrap();
    let down = |seconds| Some(after(seconds));
    for (seconds, down_since) in [(0, None), (9, down(8)), (10, None), (19, down(15))] {
        let watched = bench.queue.watch(after(seconds), silence, down_since);
        watched.unwrap();
        assert!(bench.queue.failure().is_none(), "after {seconds} s");
    }
    // What it reports meanwhile begins the time anew.
    bench.report(1, None);
    bench.queue.poll().unwrap();
    bench.write(8).unwrap();
    for seconds in [20, 24] {
        let watched = bench.queue.watch(after(seconds), silence, down(15));
        watched.unwrap();
        assert!(bench.queue.failure().is_none(), "after {seconds} s");
    }
    let watched = bench.queue.watch(after(25), silence, down(15));
    watched.unwrap();
    let failure = bench.queue.failure().unwrap();
    assert_eq!(
        (failure.ticket, failure.status),
        (2, status::IBV_WC_LOC_QP_OP_ERR)
    );
    assert!(bench.seen.borrow().destroyed && bench.queue.is_idle());
}

#[test]
fn an_idle_device_may_be_silent() {
    let mut bench = Bench::new(8);
    let start = Instant::now();
    for hours in 0..3 {
        let now = start + Duration::from_secs(3600 * hours);
        bench.queue.watch(now, Duration::ZERO, None).unwrap();
    }
    assert!(bench.queue.failure().is_none() && bench.signalled().is_empty());
}

#[test]
fn a_queue_that_cannot_be_asked_is_destroyed() {
    let mut bench = Bench::new(8);
    bench.write(1).unwrap();
    bench.write(2).unwrap();
    let report = Report {
        ticket: 1,
        error: None,
    };
    bench.seen.borrow_mut().reports.push(report);
    bench.seen.borrow_mut().is_broken = true;
    bench.queue.poll().unwrap();
    assert_eq!(bench.queue.succeeded(), 1, "what was reported counts");
    bench.queue.poll().unwrap_err();
    assert!(bench.seen.borrow().destroyed);
    assert_eq!(bench.queue.succeeded(), 1);
    let failure = bench.queue.failure().unwrap();
    assert_eq!(failure.status, status::IBV_WC_FATAL_ERR);
}

/// A log of a program's that panics whatever it is told.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        panic!("{event:?}");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Whoever waits gives the buffers back as it unwinds.
#[test]
fn a_log_that_panics_finds_the_device_done_with_all_buffers() {
    for is_stubborn in [false, true] {
        let mut bench = Bench::after(5);
        bench.queue.ask().unwrap();
        bench.will_report(2, Some((status::IBV_WC_REM_ACCESS_ERR, 0)));
        {
            let mut seen = bench.seen.borrow_mut();
            (seen.is_stubborn, seen.is_broken) = (is_stubborn, true);
        }
        let poll = AssertUnwindSafe(|| bench.queue.poll());
        let unwound = tracing::subscriber::with_default(Panics, || catch_unwind(poll));
        assert!(unwound.is_err(), "it was told of the failure");
        assert!(bench.queue.is_idle(), "stubborn: {is_stubborn}");
        assert!(bench.seen.borrow().destroyed, "stubborn: {is_stubborn}");
    }
}
