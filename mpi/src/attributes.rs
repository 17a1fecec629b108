//! A window's information for the program: the predefined attributes and the hints (MPI-4.1, sections 12.2.6 and
//! 12.2.7).

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::errors::null;
use crate::exported::in_front;
use crate::host::{self, Symbol, host};
use crate::mpi_h::{MPI_Aint, MPI_Info, MPI_Win};
use crate::on_windows::on_windows;
use crate::windows::{self, Attributes};
use crate::{constants, info};

/// The value of a predefined attribute.
enum Value<'a> {
    Base(*mut c_void),
    Size(&'a MPI_Aint),
    Int(&'a c_int),
}

impl Value<'_> {
    /// The value for C: a pointer to it, except for the base, which is itself a pointer.
    fn pointer(self) -> *const c_void {
        match self {
            Self::Base(base) => base,
            Self::Size(size) => ptr::from_ref(size).cast(),
            Self::Int(int) => ptr::from_ref(int).cast(),
        }
    }

    /// The value for Fortran.
    fn number(self) -> MPI_Aint {
        match self {
            Self::Base(base) => base.addr() as MPI_Aint,
            Self::Size(size) => *size,
            Self::Int(int) => *int as MPI_Aint,
        }
    }
}

fn predefined(attributes: &Attributes, keyval: c_int) -> Option<Value<'_>> {
    Some(if keyval == constants::win_base() {
        Value::Base(attributes.base)
    } else if keyval == constants::win_size() {
        Value::Size(&attributes.size)
    } else if keyval == constants::win_disp_unit() {
        Value::Int(&attributes.disp_unit)
    } else if keyval == constants::win_create_flavor() {
        Value::Int(&attributes.flavor)
    } else if keyval == constants::win_model() {
        Value::Int(&attributes.model)
    } else {
        return None;
    })
}

in_front! {
    fn MPI_Win_get_attr PMPI_Win_get_attr(win: MPI_Win, keyval: c_int, value: *mut c_void, flag: *mut c_int) or host {
        let attributes = windows::find_attributes(win);
        let places = !value.is_null() && !flag.is_null();
        if places && let Some(found) = attributes.and_then(|attributes| predefined(attributes, keyval)) {
            // SAFETY: the program's own places.
            unsafe {
                value.cast::<*const c_void>().write_unaligned(found.pointer());
                *flag = 1;
            }
            return 0;
        }
        // The carrier holds the program's attributes.
        host()
    }
}

on_windows! {
    fn MPI_Win_set_info PMPI_Win_set_info(win: MPI_Win, hints: MPI_Info) of win as ours {
        info::given(hints).and_then(|hints| Ok(ours.window().set_info(&hints)?))
    }

    fn MPI_Win_get_info PMPI_Win_get_info(win: MPI_Win, hints: *mut MPI_Info) of win as ours {
        match hints.is_null() {
            true => Err(null("info_used")),
            // SAFETY: the program's own place.
            false => info::to_host(&ours.window().info()).map(|made| unsafe { *hints = made }),
        }
    }
}

/// The Fortran wrappers of MPICH and Intel MPI call this. They pass keyvals of predefined attributes that are one more
/// than those of C, and want the values.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPII_Win_get_attr(
    win: MPI_Win,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
    kind: c_int,
) -> c_int {
    if let Some(attributes) = windows::find_attributes(win)
        && let Some(found) = predefined(attributes, keyval.wrapping_sub(1))
    {
        // SAFETY: the wrapper's own places.
        unsafe {
            value.cast::<MPI_Aint>().write_unaligned(found.number());
            *flag = 1;
        }
        return 0;
    }
    // SAFETY: the host's function gets what the wrapper passed, as it would without us. Only hosts that have the
    // function call this one.
    unsafe { host::MPII_Win_get_attr(win, keyval, value, flag, kind) }
}

/// The Fortran functions themselves: Open MPI's call no function that a library could define in front of it.
macro_rules! fortran {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            win: *const c_int,
            keyval: *const c_int,
            value: *mut MPI_Aint,
            flag: *mut c_int,
            code: *mut c_int,
        ) {
            // SAFETY: Fortran passes all arguments by their addresses.
            if let Some(found) = unsafe { value_for_fortran(*win, *keyval) } {
                // SAFETY: as above.
                unsafe {
                    *value = found;
                    *flag = 1;
                    *code = 0;
                }
                return;
            }
            type Arg = *const c_int;
            // SAFETY: the host's function gets what the program passed, as it would without us.
            unsafe { host!($name(Arg, Arg, *mut MPI_Aint, *mut c_int, *mut c_int))(win, keyval, value, flag, code) };
        }
    )*};
}

// `mpif.h` and the module `mpi` call the first, `mpi_f08` the second.
fortran! { mpi_win_get_attr_ pmpi_win_get_attr_ }

/// For hosts whose `MPI_Win_f2c` is a function: they have the same keyvals in Fortran as in C.
fn value_for_fortran(win: c_int, keyval: c_int) -> Option<MPI_Aint> {
    static F2C: Symbol = Symbol::new("PMPI_Win_f2c\0");
    let at = F2C.find()?;
    // SAFETY: the host has a function of this name and signature.
    let f2c =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> MPI_Win>(at) };
    // SAFETY: the host takes any number.
    let attributes = windows::find_attributes(unsafe { f2c(win) })?;
    predefined(attributes, keyval).map(Value::number)
}
