//! Put with notification: one epoch for all steps, in which nobody waits but for its data.
//!
//! Step `s` uses set `s % 2` of the slots. A neighbour's put for step `s + 2` cannot overwrite what
//! has not been read yet: the neighbour sends it when it has got this rank's edge for step `s + 1`,
//! which this rank sends when it is done with step `s`. Each side has a counter of its own, since a
//! neighbour on one side may be ahead of one on another.

use std::mem;

use transom::Result;

use super::{Halo, step};
use crate::plate::Plate;

impl Halo<'_> {
    pub(super) fn by_notify(
        &mut self,
        plate: &mut Plate,
        count: u64,
        tick: &dyn Fn(),
    ) -> Result<()> {
        let Self {
            window,
            slots,
            neighbours,
            steps,
            ..
        } = self;
        // The field changes while the epoch is open, so that no put may borrow it. What is sent
        // travels in vectors, which requests give back.
        let mut edges = vec![Vec::new(); neighbours.len()];
        window.passive(|epoch| -> Result<()> {
            let everyone = epoch.lock_all()?;
            for number in *steps..*steps + count {
                let set = (number % 2) as usize;
                let mut requests = Vec::with_capacity(edges.len());
                for (neighbour, edge) in neighbours.iter().zip(&mut edges) {
                    let mut edge = mem::take(edge);
                    edge.clear();
                    edge.extend(plate.field().along(neighbour.side));
                    let target = everyone.target(neighbour.rank)?;
                    let at = set * neighbour.slots + neighbour.slot;
                    requests.push(target.rput_owned(at, edge)?);
                    // A notification says that all earlier puts have arrived.
                    target.put_notify(0, &[], neighbour.side.opposite() as u32)?;
                }
                for neighbour in neighbours.iter() {
                    epoch.wait_notify(neighbour.side as u32, number + 1)?;
                }
                let arrived = set * slots.len()..(set + 1) * slots.len();
                let arrived = epoch.read_own(arrived)?;
                for (request, edge) in requests.into_iter().zip(&mut edges) {
                    *edge = request.wait()?;
                }
                step(plate, neighbours, &arrived);
                tick();
            }
            everyone.unlock()
        })?
    }
}
