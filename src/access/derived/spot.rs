//! Where a target's layout is placed.

use super::super::apart::Grain;
use super::super::bounds::Place;
use crate::datatype::{Piece, Span};
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::window::OnTarget;

pub(super) enum Spot<'w> {
    /// All of the layout is mapped while this is kept; the pointer is to where it is placed.
    Mapped(*mut u8, Option<Place<'w>>),
    /// It has to be reached through the device.
    Device(Place<'w>),
    /// It is placed here, and has data in several regions.
    Apart(Displacement),
}

impl<'w> OnTarget<'w> {
    /// Checks the bytes `span` round a displacement of the entered target, and finds the way to them.
    /// `far` is the layout in there, which may be in several regions, but none of its grains.
    #[inline]
    pub(super) fn spot(
        self,
        disp: Displacement,
        span: Span,
        far: Option<&Piece>,
        grain: Grain,
    ) -> Result<Spot<'w>> {
        // Mapped until the window is freed.
        if let Some(base) = self.target.reach_span(disp, span) {
            return Ok(Spot::Mapped(base, None));
        }
        let place = match (self.place_span(disp, span), far) {
            (Ok(place), _) => place,
            (Err(error), Some(far)) => {
                self.check_apart(disp, far, grain, error)?;
                return Ok(Spot::Apart(disp));
            }
            (Err(error), None) => return Err(error),
        };
        Ok(match place.there.is_null() {
            true => Spot::Device(place),
            false => Spot::Mapped(place.there, Some(place)),
        })
    }
}
