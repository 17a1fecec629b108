//! What a window says of itself: the predefined attributes and the hints (MPI-4.1, sections 12.2.6 and 12.2.7).

use std::ffi::{c_int, c_void};
use std::ptr;

use mpi_sys::{MPI_Info, MPI_Win};

use crate::errors::Result;
use crate::exported::on_windows;
use crate::host::{check, host};
use crate::windows::Ours;
use crate::{constants, info};

/// What a predefined attribute's value is: a pointer to it, but the base itself.
fn predefined(ours: &Ours, keyval: c_int) -> Option<*const c_void> {
    let attributes = ours.attributes();
    Some(if keyval == constants::win_base() {
        attributes.base
    } else if keyval == constants::win_size() {
        (&raw const attributes.size).cast()
    } else if keyval == constants::win_disp_unit() {
        (&raw const attributes.disp_unit).cast()
    } else if keyval == constants::win_create_flavor() {
        (&raw const attributes.flavor).cast()
    } else if keyval == constants::win_model() {
        (&raw const attributes.model).cast()
    } else {
        return None;
    })
}

on_windows! {
    fn MPI_Win_get_attr PMPI_Win_get_attr(win: MPI_Win, keyval: c_int, value: *mut c_void, flag: *mut c_int)
        of win as ours {
        match predefined(ours, keyval) {
            Some(found) => {
                // SAFETY: the program's own places.
                unsafe {
                    value.cast::<*const c_void>().write_unaligned(found);
                    *flag = 1;
                }
                Ok(())
            }
            // SAFETY: the program's own places; the carrier has the program's attributes.
            None => check(unsafe {
                host!(PMPI_Win_get_attr(MPI_Win, c_int, *mut c_void, *mut c_int))(win, keyval, value, flag)
            })
            .map_err(Into::into),
        }
    }

    fn MPI_Win_set_info PMPI_Win_set_info(win: MPI_Win, hints: MPI_Info) of win as ours {
        info::from_host(hints).and_then(|hints| Ok(ours.window().set_info(&hints)?))
    }

    fn MPI_Win_get_info PMPI_Win_get_info(win: MPI_Win, hints: *mut MPI_Info) of win as ours {
        // SAFETY: the program's own place.
        unsafe { get_info(ours, hints) }
    }
}

/// # Safety
/// `place` is writable.
unsafe fn get_info(ours: &Ours, place: *mut MPI_Info) -> Result<()> {
    let made = info::to_host(&ours.window().info())?;
    debug_assert!(!ptr::eq(place, ptr::null()));
    // SAFETY: the caller's promise.
    unsafe { *place = made };
    Ok(())
}
