//! A stand-in for a connection, for tests of what asks one.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rdma_sys_shim::{Direction, Endpoint, Fetch, RemoteAddress, Ticket, Update, Width};

use crate::wait::lock;

/// An endpoint of which a test says how it answers.
#[derive(Default)]
pub(crate) struct Scripted {
    /// How often it was asked whether an operation is complete, and after how many times one is, or
    /// fails.
    pub(crate) asked: AtomicU32,
    pub(crate) done_after: u32,
    pub(crate) fails: bool,
    /// The words that are read, one after the other.
    pub(crate) words: Mutex<VecDeque<u64>>,
    /// What every word holds that is swapped.
    pub(crate) held: AtomicU64,
}

type Posted = rdma_sys_shim::Result<Ticket>;

impl Endpoint for Scripted {
    fn completed(&self, _: Ticket) -> rdma_sys_shim::Result<bool> {
        let done = self.asked.fetch_add(1, Ordering::Relaxed) >= self.done_after;
        match done && self.fails {
            true => Err(rdma_sys_shim::Error::PeerGone { pid: 1 }),
            false => Ok(done),
        }
    }

    unsafe fn transfer(
        &self,
        direction: Direction,
        to: *mut u8,
        len: usize,
        _: RemoteAddress,
    ) -> Posted {
        assert_eq!((direction, len), (Direction::Read, 8));
        let word = lock(&self.words).pop_front().expect("a word to read");
        // SAFETY: eight bytes, by the caller's promise.
        unsafe { to.cast::<u64>().write_unaligned(word) };
        Ok(Ticket(1))
    }

    unsafe fn fetch(&self, _: RemoteAddress, width: Width, fetch: Fetch, old: *mut u64) -> Posted {
        assert_eq!(width, Width::W8);
        let Fetch::CompareSwap { expect, new } = fetch else {
            unreachable!();
        };
        let order = Ordering::Relaxed;
        let (Ok(found) | Err(found)) = self.held.compare_exchange(expect, new, order, order);
        // SAFETY: writable, by the caller's promise.
        unsafe { old.write(found) };
        Ok(Ticket(1))
    }

    unsafe fn update_each(
        &self,
        _: RemoteAddress,
        _: Width,
        _: Update,
        _: *const u8,
        _: usize,
    ) -> Posted {
        unreachable!()
    }

    fn store(&self, _: RemoteAddress, _: u64, _: u64) -> Posted {
        unreachable!()
    }

    fn intact(&self) -> rdma_sys_shim::Result<()> {
        Err(rdma_sys_shim::Error::PeerGone { pid: 2 })
    }

    fn liveness(&self) -> rdma_sys_shim::Result<()> {
        unreachable!()
    }

    fn known_liveness(&self) -> rdma_sys_shim::Result<()> {
        unreachable!()
    }
}
