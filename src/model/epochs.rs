//! Epochs of windows between ranks that have met before.

use super::simulation::Simulation;
use crate::peers::around;

impl Simulation<'_> {
    /// Post, start, complete and wait with the `near` ranks before this one and the `near` ranks after it.
    pub(super) fn pscw(&mut self, near: u32) {
        let size = self.size();
        let behind = near.min((size - 1) / 2);
        // With two ranks, the rank before is also the rank after.
        let before = if size == 2 { near.min(1) } else { behind };
        // In the order of groups: by distance from this rank.
        let distances: Vec<u32> = (1..=before)
            .rev()
            .map(|far| size - far)
            .chain(1..=behind)
            .collect();
        let count = distances.len();
        let index = |rank: u32, which: usize| rank as usize * count + which;
        let mut posts = vec![0.0; size as usize * count];
        for rank in 0..size {
            for (which, &distance) in distances.iter().enumerate() {
                let other = around(rank, distance, size);
                // In the other direction, this rank has the same distance from the other one.
                posts[index(other, count - 1 - which)] = self.flag(rank, other);
            }
        }
        let mut completions = posts.clone();
        for rank in 0..size {
            for (which, &distance) in distances.iter().enumerate() {
                let other = around(rank, distance, size);
                self.hear(rank, other, posts[index(rank, which)]);
                completions[index(other, count - 1 - which)] = self.flag(rank, other);
            }
        }
        for rank in 0..size {
            for (which, &distance) in distances.iter().enumerate() {
                let other = around(rank, distance, size);
                self.hear(rank, other, completions[index(rank, which)]);
            }
        }
    }

    /// A put to each of the `targets` ranks after this one, in an epoch of `lock_all`: the locks are taken one after
    /// the other, and released together.
    pub(super) fn lock_all(&mut self, targets: u32) {
        let size = self.size();
        for rank in 0..size {
            let others = || (1..=targets.min(size - 1)).map(|far| around(rank, far, size));
            let (mut complete, mut released) = (0.0_f64, 0.0_f64);
            for other in others() {
                let link = self.link(rank, other);
                let locked = self.post(rank, link) + link.latency;
                self.wait_until(rank, locked);
                complete = complete.max(self.post(rank, link) + link.latency);
            }
            self.wait_until(rank, complete);
            for other in others() {
                let link = self.link(rank, other);
                released = released.max(self.post(rank, link) + link.latency);
            }
            self.wait_until(rank, released);
        }
    }
}
