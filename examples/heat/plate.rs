//! One rank's part of the plate, and time passing on it.

use crate::field::Field;
use crate::grid::Side;

pub(crate) struct Plate {
    now: Field,
    /// What `now` was before, and is written to next.
    other: Field,
    /// The sides where the plate ends.
    insulated: Vec<Side>,
    diffusivity: f64,
}

impl Plate {
    pub(crate) fn new(field: Field, insulated: Vec<Side>, diffusivity: f64) -> Self {
        Self {
            other: field.clone(),
            now: field,
            insulated,
            diffusivity,
        }
    }

    /// A whole plate, on one rank.
    pub(crate) fn whole(field: Field, diffusivity: f64) -> Self {
        Self::new(field, Side::ALL.to_vec(), diffusivity)
    }

    pub(crate) fn field(&self) -> &Field {
        &self.now
    }

    /// What is beyond a side that another rank has.
    pub(crate) fn set_frame(&mut self, side: Side, beyond: &[f64]) {
        self.now.set_frame(side, beyond);
    }

    /// Once the frame is set on all sides that are not insulated.
    pub(crate) fn step(&mut self) {
        for &side in &self.insulated {
            self.now.insulate(side);
        }
        self.now.step(self.diffusivity, &mut self.other);
        std::mem::swap(&mut self.now, &mut self.other);
    }
}
