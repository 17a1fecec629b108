//! Where a target's layout is placed.

use rdma_sys_shim::{Direction, Via};

use super::bounds::Place;
use super::put_get::{is_in_place, kind};
use crate::datatype::{AtomicWidths, BasicType, Piece, Span, Together};
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::window::OnTarget;
use crate::window::target::{Route, Target};

pub(super) enum Spot<'w> {
    /// The whole layout is mapped while this exists, and accessed there.
    Mapped(Place<'w>),
    /// It has to be accessed through the device.
    Device(Place<'w>),
    /// It is placed here, and has data in several regions.
    Apart(Displacement),
}

/// How an operation uses the bytes of a layout.
#[derive(Clone, Copy)]
pub(super) enum Use {
    Moved(Direction),
    /// As elements of this type, by an operation that is counted as this kind.
    Accumulated {
        ty: BasicType,
        kind: OperationKind,
    },
}

impl Use {
    /// Whether a loop accesses an element of a list that is mapped there: by a copy or a single atomic.
    #[inline]
    pub(super) fn is_in_loop(self, target: &Target, there: *mut u8) -> bool {
        let widths = target.widths();
        self.is_in_place(target, widths)
            && match self {
                Self::Moved(_) => true,
                Self::Accumulated { ty, .. } => widths.word(ty, there.addr() as u64).is_some(),
            }
    }

    /// Whether that is so anywhere in the target's mapped memory.
    pub(super) fn is_in_loop_anywhere(self, target: &Target) -> bool {
        let first_and_next = [0, 1].map(|disp| target.mapped_at(Displacement(disp)));
        first_and_next
            .into_iter()
            .all(|there| self.is_in_loop(target, there))
    }

    /// The unit that has to be in one region.
    pub(super) fn element(self) -> BasicType {
        match self {
            Self::Moved(_) => BasicType::Byte,
            Self::Accumulated { ty, .. } => ty,
        }
    }

    fn kind(self) -> OperationKind {
        match self {
            Self::Moved(direction) => kind(direction),
            Self::Accumulated { kind, .. } => kind,
        }
    }

    /// Whether it uses the device's atomics, if it goes through the device.
    fn is_atomic(self, place: &Place<'_>) -> bool {
        match self {
            Self::Moved(_) => false,
            Self::Accumulated { ty, .. } => place.widths.word(ty, place.at.address).is_some(),
        }
    }

    /// Whether it is done in the target's mapped memory, which has such atomics.
    fn is_in_place(self, target: &Target, widths: AtomicWidths) -> bool {
        match self {
            Self::Moved(direction) => is_in_place(direction, target),
            Self::Accumulated { ty, .. } => widths.are_accumulated_in_place(ty),
        }
    }
}

impl<'w> OnTarget<'w> {
    /// Checks the bytes `span` around a displacement of the entered target, and finds how to access them. `far` is the
    /// layout of the data; it may be in several regions, but each element is in one.
    #[inline]
    pub(super) fn spot(
        self,
        disp: Displacement,
        span: Span,
        far: Option<&Piece>,
        usage: Use,
    ) -> Result<Spot<'w>> {
        let (widths, route) = (self.target.widths(), self.route()?);
        match self.target.reach_span(disp, span) {
            // Mapped until the window is freed.
            Some(there) if self.stays_in_place(usage, widths, route) => Ok(Spot::Mapped(Place {
                route,
                at: route.region.at(self.offset(disp).0),
                there,
                widths,
                _kept: None,
            })),
            _ => self.find(disp, span, far, usage),
        }
    }

    /// Whether an operation on mapped memory of the target is done there. Elements of a type that single atomics update
    /// stay in place, since they are ordered by that; those of them that are not aligned are not.
    fn stays_in_place(self, usage: Use, widths: AtomicWidths, route: &Route) -> bool {
        usage.is_in_place(self.target, widths)
            && match usage {
                Use::Moved(_) => true,
                Use::Accumulated { ty, .. } => {
                    widths.word(ty, 0).is_some() || self.locks_mapped(route)
                }
            }
    }

    /// As [`OnTarget::spot`], for memory that `Target` does not show as mapped.
    #[inline]
    pub(super) fn find(
        self,
        disp: Displacement,
        span: Span,
        far: Option<&Piece>,
        usage: Use,
    ) -> Result<Spot<'w>> {
        let place = match self.place(disp, span) {
            Ok(place) => place,
            Err(error) => {
                self.check_apart(disp, far, usage.element(), error)?;
                return Ok(Spot::Apart(disp));
            }
        };
        let spot = self.spot_at(place, usage);
        if self.window.counters.is_some() {
            self.count_layout(&spot, span, far, usage);
        }
        Ok(spot)
    }

    /// How to access a place.
    #[inline]
    fn spot_at(self, place: Place<'w>, usage: Use) -> Spot<'w> {
        match !place.there.is_null() && self.stays_in_place(usage, place.widths, place.route) {
            true => Spot::Mapped(place),
            false => Spot::Device(place),
        }
    }

    /// How to access the elements of a list that were checked, placed at displacement 0. In a dynamic window, each may be
    /// in another region.
    pub(super) fn spot_of_list(self, usage: Use) -> Result<Spot<'w>> {
        let (first, route) = (Displacement(0), self.route()?);
        match route.attached {
            Some(_) => Ok(Spot::Apart(first)),
            None => Ok(self.spot_at(self.place(first, Span::of(route.size))?, usage)),
        }
    }

    #[cold]
    fn count_layout(self, spot: &Spot<'_>, span: Span, far: Option<&Piece>, usage: Use) {
        let bytes = match far {
            // Without the padding after the last element.
            Some(far) if far.as_run().is_none() => {
                Together::new([far]).map(|strip| strip.bytes()).sum()
            }
            _ => span.bytes(),
        };
        if bytes > 0 {
            self.count_at(spot, usage, bytes);
        }
    }

    /// Counts an operation of so many bytes. Each part of one in several regions is counted by itself.
    pub(super) fn count_at(self, spot: &Spot<'_>, usage: Use, bytes: u64) {
        match spot {
            Spot::Mapped(_) => self.count(usage.kind(), || Via::Mapped, bytes),
            Spot::Device(place) => {
                let via = || place.route.via(usage.is_atomic(place));
                self.count(usage.kind(), via, bytes);
            }
            Spot::Apart(_) => {}
        }
    }
}
