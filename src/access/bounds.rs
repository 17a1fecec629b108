//! Where an operation lands, or why it does not.

use std::ptr;

use rdma_sys_shim::RemoteAddress;

use crate::datatype::{AtomicWidths, Span};
use crate::error::{DatatypeMisuse, Error, ErrorKind, Misuse, Result};
use crate::memory::displacement::{Address, Displacement, Offset};
use crate::window::target::Route;
use crate::window::{Found, OnTarget, RegionCache};

/// A checked place in a target's memory.
pub(crate) struct Place<'w> {
    pub(crate) route: &'w Route,
    pub(crate) at: RemoteAddress,
    /// Where it is mapped while this is kept, or null: then it has to be reached through the
    /// device. Memory that is attached is found only here; other mapped memory was before, but in
    /// windows that count.
    pub(crate) there: *mut u8,
    /// Which elements single atomics update there.
    pub(crate) widths: AtomicWidths,
    /// Keeps a region that is attached mapped.
    _found: Option<Found<'w>>,
}

impl<'w> OnTarget<'w> {
    /// Checks `len` bytes at a displacement of the entered target against its own size and unit.
    #[inline(never)]
    pub(crate) fn place(self, disp: Displacement, len: u64) -> Result<Place<'w>> {
        let span = Span {
            lo: 0,
            hi: len as i64,
        };
        self.locate(disp, span, |unit, size| {
            let (rank, disp) = (self.aim.rank, disp.0);
            Misuse::PastEnd {
                rank,
                disp,
                unit,
                len,
                size,
            }
        })
    }

    /// Checks the bytes `span` round a displacement of the entered target against its own size and
    /// unit. The place is the displacement's, wherever that lies.
    #[cold]
    pub(crate) fn place_span(self, disp: Displacement, span: Span) -> Result<Place<'w>> {
        self.locate(disp, span, |unit, size| {
            let (rank, disp) = (self.aim.rank, disp.0);
            DatatypeMisuse::Outside {
                rank,
                disp,
                unit,
                lo: span.lo,
                hi: span.hi,
                size,
            }
        })
    }

    /// `refused`: what to say where it is outside, of the target's unit and size.
    #[inline(always)]
    fn locate<E: Into<ErrorKind>>(
        self,
        disp: Displacement,
        span: Span,
        refused: impl FnOnce(u64, u64) -> E,
    ) -> Result<Place<'w>> {
        let route = self.route()?;
        let attached = route.attached.as_ref();
        if let Some(cache) = attached
            && span.bytes() > 0
        {
            return self.place_attached(route, cache, disp, span);
        }
        let unit = self.target.unit();
        let is_inside = |offset: &Offset| {
            let start = offset.moved(span.lo);
            attached.is_some() || start.is_some_and(|start| start.fits(span.bytes(), route.size))
        };
        match disp.in_bytes(unit).filter(is_inside) {
            Some(offset) => Ok(Place {
                route,
                at: route.region.at(offset.0),
                there: mapped_at(route, offset, span),
                widths: self.target.widths(),
                _found: None,
            }),
            None => Err(Error::new(self.aim.operation, refused(unit, route.size))),
        }
    }

    /// In a dynamic window, whose displacements are addresses.
    fn place_attached(
        self,
        route: &'w Route,
        cache: &'w RegionCache,
        disp: Displacement,
        span: Span,
    ) -> Result<Place<'w>> {
        // No region is at the addresses that do not exist.
        let start = disp.as_address().moved(span.lo);
        let start = start.unwrap_or(Address(u64::MAX));
        let found = self.find_attached(cache, start, span.bytes())?;
        let there = match found.there.is_null() {
            true => ptr::null_mut(),
            false => found.there.wrapping_offset(-(span.lo as isize)),
        };
        Ok(Place {
            route,
            at: found.at.moved(span.lo.wrapping_neg()),
            there,
            widths: (self.window.atomic_widths()).where_atomic(found.has_atomics),
            _found: Some(found),
        })
    }
}

/// Where an offset of the target's memory is mapped, if all of `span` round it is; else null.
fn mapped_at(route: &Route, offset: Offset, span: Span) -> *mut u8 {
    let start = offset.moved(span.lo);
    let first = start.map_or(ptr::null_mut(), |start| {
        route.mapped.at(start, span.bytes())
    });
    match first.is_null() {
        true => first,
        false => first.wrapping_offset(-(span.lo as isize)),
    }
}

/// `count` elements of `element` bytes, in bytes.
#[inline]
pub(crate) fn byte_len(operation: &'static str, count: usize, element: usize) -> Result<usize> {
    match count.checked_mul(element) {
        Some(len) if len <= isize::MAX as usize => Ok(len),
        _ => Err(Error::new(
            operation,
            Misuse::CountOverflow {
                count: count as u64,
                element: element as u64,
            },
        )),
    }
}

#[cold]
pub(crate) fn null_buffer(operation: &'static str, len: usize) -> Error {
    Error::new(operation, Misuse::NullBuffer { len })
}
