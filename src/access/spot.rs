//! Where a target's layout is placed.

use rdma_sys_shim::Via;

use super::apart::Grain;
use super::bounds::Place;
use super::put_get::Way;
use crate::datatype::{AtomicWidths, BasicType, Piece, Span, Together};
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::window::OnTarget;
use crate::window::target::Target;

pub(super) enum Spot<'w> {
    /// All of the layout is mapped while this is kept, and is used there; the pointer is to where it is placed.
    Mapped(*mut u8, Option<Place<'w>>),
    /// It has to be reached through the device.
    Device(Place<'w>),
    /// It is placed here, and has data in several regions.
    Apart(Displacement),
}

/// What is done with the bytes of a layout.
#[derive(Clone, Copy)]
pub(super) enum Use {
    Moved(Way),
    /// As elements of this type, with or without fetching what was there.
    Combined {
        ty: BasicType,
        fetches: bool,
    },
}

impl Use {
    fn grain(self) -> Grain {
        match self {
            Self::Moved(_) => Grain::BYTE,
            Self::Combined { ty, .. } => Grain::of(ty),
        }
    }

    fn kind(self) -> OperationKind {
        match self {
            Self::Moved(way) => way.kind(),
            Self::Combined { fetches: true, .. } => OperationKind::Fetch,
            Self::Combined { .. } => OperationKind::Accumulate,
        }
    }

    /// Whether it goes by the device's atomics, where it goes by the device.
    fn is_atomic(self, widths: AtomicWidths) -> bool {
        match self {
            Self::Moved(_) => false,
            Self::Combined { ty, .. } => widths.word(ty, 0).is_some(),
        }
    }

    /// Whether it is done where memory of the target, with such atomics, is mapped.
    fn is_in_place(self, target: &Target, widths: AtomicWidths) -> bool {
        match self {
            Self::Moved(way) => way.is_in_place(target),
            Self::Combined { ty, .. } => widths.are_combined_in_place(ty),
        }
    }
}

impl<'w> OnTarget<'w> {
    /// Checks the bytes `span` round a displacement of the entered target, and finds the way to them.
    /// `far` is the layout in there, which may be in several regions, but no element of it.
    #[inline]
    pub(super) fn spot(
        self,
        disp: Displacement,
        span: Span,
        far: Option<&Piece>,
        usage: Use,
    ) -> Result<Spot<'w>> {
        // Mapped until the window is freed.
        if let Some(base) = self.target.reach_span(disp, span)
            && usage.is_in_place(self.target, self.target.widths())
        {
            return Ok(Spot::Mapped(base, None));
        }
        let place = match (self.place(disp, span), far) {
            (Ok(place), _) => place,
            (Err(error), Some(far)) => {
                self.check_apart(disp, far, usage.grain(), error)?;
                return Ok(Spot::Apart(disp));
            }
            (Err(error), None) => return Err(error),
        };
        let mapped = !place.there.is_null() && usage.is_in_place(self.target, place.widths);
        if self.window.counters().is_some() {
            self.count_layout(&place, mapped, span, far, usage);
        }
        Ok(match mapped {
            true => Spot::Mapped(place.there, Some(place)),
            false => Spot::Device(place),
        })
    }

    #[cold]
    fn count_layout(
        self,
        place: &Place<'_>,
        mapped: bool,
        span: Span,
        far: Option<&Piece>,
        usage: Use,
    ) {
        let bytes = match far {
            Some(far) => Together::new([far]).map(|strip| strip.bytes()).sum(),
            None => span.bytes(),
        };
        if bytes == 0 {
            return;
        }
        let via = || match mapped {
            true => Via::Mapped,
            false => place.route.via(usage.is_atomic(place.widths)),
        };
        self.count(usage.kind(), via, bytes);
    }
}
