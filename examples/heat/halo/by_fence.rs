//! Fences: every step is an epoch of all ranks.

use transom::Result;

use super::{Halo, step};
use crate::plate::Plate;

impl Halo<'_> {
    pub(super) fn by_fence(
        &mut self,
        plate: &mut Plate,
        count: u64,
        tick: &dyn Fn(),
    ) -> Result<()> {
        let neighbours = &self.neighbours;
        for _ in 0..count {
            let field = plate.field();
            self.window.fence(|epoch| {
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
