//! Where an operation lands, or why it does not.

use crate::error::{Error, Misuse, Result};
use crate::window::Window;
use crate::window::target::{Route, Target};

/// A checked place in a target's memory that has to be reached through the device.
pub(crate) struct Place<'w> {
    pub(crate) route: &'w Route,
    /// Bytes from the start of the target's memory.
    pub(crate) offset: u64,
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
        let unit = u64::from(target.unit());
        let end = disp
            .checked_mul(unit)
            .and_then(|offset| Some((offset, offset.checked_add(len)?)));
        match end {
            Some((offset, end)) if end <= route.size => Ok(Place { route, offset }),
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
