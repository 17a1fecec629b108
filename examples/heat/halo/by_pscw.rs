//! Post, start, complete and wait: every step is an epoch of neighbours. A rank far away may be
//! several steps ahead.

use transom::Result;

use super::{Halo, step};
use crate::plate::Plate;

impl Halo<'_> {
    pub(super) fn by_pscw(&mut self, plate: &mut Plate, count: u64, tick: &dyn Fn()) -> Result<()> {
        let (neighbours, group) = (&self.neighbours, &self.group);
        for _ in 0..count {
            let field = plate.field();
            self.window.exchange(group, group, |epoch| {
                neighbours.iter().try_for_each(|neighbour| {
                    neighbour.put_edge(&epoch.target(neighbour.rank)?, field)
                })
            })??;
            step(plate, neighbours, self.window.local()?);
            tick();
        }
        Ok(())
    }
}
