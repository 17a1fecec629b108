//! Barriers: each rank takes its steps as far as it comes, again and again.

use super::simulation::Simulation;
use crate::comm::{Step, barrier_flags, barrier_step};

impl Simulation<'_> {
    /// `oversubscribed`: as in a window whose ranks are all oversubscribed.
    pub(super) fn barrier(&mut self, oversubscribed: bool) {
        let mut rings = self.model.rings.clone();
        let flags = barrier_flags(&rings) as usize;
        let size = self.size();
        let index = |rank: u32, number: u32| rank as usize * flags + number as usize;
        // The time at which each flag of each rank arrives; NaN before it is known.
        let mut arrived = vec![f64::NAN; size as usize * flags];
        // The step of each rank, and whether it has sent the flag of this step.
        let mut steps = vec![(0, false); size as usize];
        let mut under_way = size;
        let mut backwards = true;
        while under_way > 0 {
            let mut moved = false;
            for place in 0..size {
                // Flags from children come first from the last ranks, and those from parents from the first.
                let rank = if backwards { size - 1 - place } else { place };
                let (number, told) = &mut steps[rank as usize];
                if *number == u32::MAX {
                    continue;
                }
                rings.see_as(rank);
                loop {
                    let Some(Step { to, from }) = barrier_step(&rings, oversubscribed, *number)
                    else {
                        (*number, under_way, moved) = (u32::MAX, under_way - 1, true);
                        break;
                    };
                    if let Some(to) = to.filter(|_| !*told) {
                        arrived[index(to.rank, to.number)] = self.flag(rank, to.rank);
                        (*told, moved) = (true, true);
                    }
                    if let Some(from) = from {
                        let at = arrived[index(rank, from.number)];
                        if at.is_nan() {
                            break;
                        }
                        self.hear(rank, from.rank, at);
                    }
                    (*number, *told, moved) = (*number + 1, false, true);
                }
            }
            assert!(moved, "the ranks of a barrier wait for each other for ever");
            backwards = !backwards;
        }
    }
}
