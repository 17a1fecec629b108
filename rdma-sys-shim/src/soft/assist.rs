//! A waiting thread reads and writes memory that peers cannot map. The slots contain the requests. If no thread takes a
//! request, the origin uses the kernel after a short time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::agent;
use super::segment::Segment;
use super::slots::{self, SLOTS, Slot, Slots as _};
use crate::assist::{Assisted, Attached};
use crate::guard;
use crate::primitive::milliseconds;

/// Lets waiting threads assist, for a region that peers cannot map.
pub(crate) fn attach(segment: &Arc<Segment>) -> Attached {
    guard::watch();
    Attached::new(segment.clone(), true)
}

impl Assisted for Segment {
    fn lend(&self) {
        self.assist().lend();
    }

    fn withdraw(&self) {
        self.assist().withdraw();
    }

    fn serve(&self) -> usize {
        let carry_out = |index: usize, slot: &Slot| agent::carry_out(self, index, slot);
        slots::serve_offered(self, 0..SLOTS, carry_out)
    }

    fn serve_in_passing(&self, _: Instant) -> usize {
        self.assist().note_passing(milliseconds());
        self.serve()
    }

    fn sleep(&self, limit: Duration) {
        self.assist().sleep(limit);
    }

    fn take_call(&self) -> bool {
        self.assist().take_call()
    }
}
