//! Where an operation lands, or why it does not.

use std::ptr;

use rdma_sys_shim::RemoteAddress;

use crate::datatype::{AtomicWidths, Span};
use crate::error::{DatatypeMisuse, Error, Misuse, Result};
use crate::window::target::{Route, Target};
use crate::window::{Found, Window};

/// A checked place in a target's memory.
pub(crate) struct Place<'w> {
    pub(crate) route: &'w Route,
    pub(crate) at: RemoteAddress,
    /// Where it is mapped while this is kept, or null: then it has to be reached through the
    /// device. Only memory that is attached is found here; other mapped memory was before.
    pub(crate) there: *mut u8,
    /// Which elements single atomics update there.
    pub(crate) widths: AtomicWidths,
    /// Keeps a region that is attached mapped.
    _found: Option<Found<'w>>,
}

impl Window {
    /// Checks `len` bytes at displacement `disp` of an entered target against its own size and
    /// unit.
    #[inline(never)]
    pub(crate) fn place<'w>(
        &'w self,
        operation: &'static str,
        rank: u32,
        target: &'w Target,
        disp: u64,
        len: u64,
    ) -> Result<Place<'w>> {
        let route = self.route_of(operation, rank)?;
        if let Some(cache) = &route.attached
            && len > 0
        {
            let found = self.find_attached(operation, rank, cache, disp, len)?;
            return Ok(Place {
                route,
                at: found.at,
                there: found.there,
                widths: self.atomic_widths().where_atomic(found.has_atomics),
                _found: Some(found),
            });
        }
        let unit = target.unit();
        let end = disp
            .checked_mul(unit)
            .and_then(|offset| Some((offset, offset.checked_add(len)?)));
        match end {
            Some((offset, end)) if end <= route.size || route.attached.is_some() => Ok(Place {
                route,
                at: route.region.at(offset),
                there: ptr::null_mut(),
                widths: target.widths(),
                _found: None,
            }),
            _ => Err(Error::new(
                operation,
                Misuse::PastEnd {
                    rank,
                    disp,
                    unit,
                    len,
                    size: route.size,
                },
            )),
        }
    }
}

impl Window {
    /// Checks the bytes `span` round displacement `disp` of an entered target against its own size
    /// and unit. The place is the displacement's, wherever that lies.
    #[cold]
    pub(crate) fn place_span<'w>(
        &'w self,
        operation: &'static str,
        rank: u32,
        target: &'w Target,
        disp: u64,
        span: Span,
    ) -> Result<Place<'w>> {
        let route = self.route_of(operation, rank)?;
        let len = (span.hi - span.lo) as u64;
        if let Some(cache) = &route.attached
            && len > 0
        {
            // No region is at the addresses that do not exist.
            let first = disp.checked_add_signed(span.lo).unwrap_or(u64::MAX);
            let found = self.find_attached(operation, rank, cache, first, len)?;
            let there = match found.there.is_null() {
                true => ptr::null_mut(),
                false => found.there.wrapping_offset(-(span.lo as isize)),
            };
            let at = RemoteAddress {
                address: found.at.address.wrapping_sub(span.lo as u64),
                ..found.at
            };
            return Ok(Place {
                route,
                at,
                there,
                widths: self.atomic_widths().where_atomic(found.has_atomics),
                _found: Some(found),
            });
        }
        let unit = target.unit();
        let is_dynamic = route.attached.is_some();
        let inside = |offset: &u64| {
            let first = offset.checked_add_signed(span.lo);
            let end = offset.checked_add_signed(span.hi);
            is_dynamic || first.is_some() && end.is_some_and(|end| end <= route.size)
        };
        match disp.checked_mul(unit).filter(inside) {
            Some(offset) => Ok(Place {
                route,
                at: route.region.at(offset),
                there: ptr::null_mut(),
                widths: target.widths(),
                _found: None,
            }),
            None => Err(Error::new(
                operation,
                DatatypeMisuse::Outside {
                    rank,
                    disp,
                    unit,
                    lo: span.lo,
                    hi: span.hi,
                    size: route.size,
                },
            )),
        }
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
