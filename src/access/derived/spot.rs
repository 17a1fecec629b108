//! Where a target's layout is placed.

use super::super::bounds::Place;
use crate::datatype::Span;
use crate::error::Result;
use crate::window::Window;
use crate::window::target::Target;

pub(super) enum Spot<'w> {
    /// All of the layout is mapped while this is kept; the pointer is to where it is placed.
    Mapped(*mut u8, Option<Place<'w>>),
    /// It has to be reached through the device.
    Device(Place<'w>),
}

impl Window {
    /// Checks the bytes `span` round displacement `disp` of an entered target, and finds the way
    /// to them.
    #[inline]
    pub(super) fn spot<'w>(
        &'w self,
        operation: &'static str,
        rank: u32,
        target: &'w Target,
        disp: u64,
        span: Span,
    ) -> Result<Spot<'w>> {
        // Mapped until the window is freed.
        if let Some(base) = target.reach_span(disp, span) {
            return Ok(Spot::Mapped(base, None));
        }
        let place = self.place_span(operation, rank, target, disp, span)?;
        Ok(match place.there.is_null() {
            true => Spot::Device(place),
            false => Spot::Mapped(place.there, Some(place)),
        })
    }
}
