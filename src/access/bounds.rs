//! Where an operation lands, or why it does not.

use std::ptr;

use rdma_sys_shim::RemoteAddress;

use crate::datatype::{AtomicWidths, Span};
use crate::error::{DatatypeMisuse, Error, Misuse, Result};
use crate::memory::displacement::{Address, Displacement, Offset};
use crate::terms::Aim;
use crate::window::target::Route;
use crate::window::{KeptMapped, OnTarget, RegionCache};

/// A checked place in a target's memory.
pub(crate) struct Place<'w> {
    pub(crate) route: &'w Route,
    pub(crate) at: RemoteAddress,
    /// The address at which it is mapped while this exists; or null: then the device has to be used. Attached memory is
    /// found only here. Other mapped memory was found earlier, except in windows that count.
    pub(crate) there: *mut u8,
    /// The elements that single atomics update there.
    pub(crate) widths: AtomicWidths,
    /// Keeps an attached region mapped.
    pub(super) _kept: Option<KeptMapped<'w>>,
}

impl<'w> OnTarget<'w> {
    /// Checks the bytes `span` around a displacement of the entered target against the target's size and unit. The
    /// place is that of the displacement, even if `span` does not include it.
    #[inline(never)]
    pub(crate) fn place(self, disp: Displacement, span: Span) -> Result<Place<'w>> {
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
                there: (route.mapped.around(offset, span.lo, span.bytes()))
                    .unwrap_or(ptr::null_mut()),
                widths: self.target.widths(),
                _kept: None,
            }),
            None => Err(self.outside(disp, unit, span, route.size)),
        }
    }

    #[cold]
    fn outside(self, disp: Displacement, unit: u64, span: Span, size: u64) -> Error {
        let Aim { operation, rank } = self.aim;
        let (disp, Span { lo, hi }) = (disp.0, span);
        if lo == 0 {
            let len = span.bytes();
            let misuse = Misuse::PastEnd {
                rank,
                disp,
                unit,
                len,
                size,
            };
            return Error::new(operation, misuse);
        }
        let misuse = DatatypeMisuse::Outside {
            rank,
            disp,
            unit,
            lo,
            hi,
            size,
        };
        Error::new(operation, misuse)
    }

    /// The same in a dynamic window, where displacements are addresses.
    fn place_attached(
        self,
        route: &'w Route,
        cache: &'w RegionCache,
        disp: Displacement,
        span: Span,
    ) -> Result<Place<'w>> {
        // No region is at an address that does not exist.
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
            widths: (self.window.atomic_widths).where_atomic(found.has_atomics),
            _kept: Some(found.kept),
        })
    }
}

/// The size of `count` elements of `element` bytes each.
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

/// Addresses below this are not memory. A layout that is placed at null may have data at higher addresses, if its type
/// has absolute displacements (`MPI_BOTTOM`).
const FIRST_ADDRESS: usize = 4096;

/// Checks that the data of `size` bytes in `span` around `buffer` is not at the null pointer.
#[inline]
pub(super) fn check_buffer(
    operation: &'static str,
    buffer: *const u8,
    span: Span,
    size: u64,
) -> Result<()> {
    let first = buffer.wrapping_offset(span.lo as isize);
    if buffer.is_null() && size > 0 && first.addr() < FIRST_ADDRESS {
        return Err(null_buffer(operation, size as usize));
    }
    Ok(())
}

#[cold]
pub(crate) fn null_buffer(operation: &'static str, len: usize) -> Error {
    Error::new(operation, Misuse::NullBuffer { len })
}
