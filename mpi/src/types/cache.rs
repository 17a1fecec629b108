//! Derived datatypes that were analysed once. They are kept until the host deletes them, which an attribute reports.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use transom::ErrorClass;

use super::{Type, build, predefined};
use crate::constants;
use crate::errors::{Result, bad};
use crate::host::{self, check};
use crate::keyval::not_copied;
use crate::mpi_h::{MPI_Datatype, Number};
use crate::process::process;

static DERIVED: RwLock<Option<HashMap<Number, Arc<Type>>>> = RwLock::new(None);
/// The attribute of types in the map, once it exists.
static KEYVAL: AtomicI32 = AtomicI32::new(0);

/// Call it when the host has begun.
pub(crate) fn begin() {
    predefined::begin();
    let mut keyval = constants::keyval_invalid();
    // SAFETY: both functions have the types that MPI demands, and live as long as the process.
    let code = unsafe {
        host::PMPI_Type_create_keyval(not_copied, deleted, &raw mut keyval, ptr::null_mut())
    };
    if code == 0 {
        KEYVAL.store(keyval, Ordering::Release);
        *DERIVED.write().unwrap_or_else(PoisonError::into_inner) = Some(HashMap::new());
    }
}

/// Call it before the host ends.
pub(crate) fn end() {
    let known = DERIVED
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if known.is_some() {
        let mut keyval = KEYVAL.load(Ordering::Acquire);
        // SAFETY: the place is a local, and contains a keyval that was created.
        unsafe { host::PMPI_Type_free_keyval(&raw mut keyval) };
    }
}

/// The host may reuse the handle for another type.
unsafe extern "C" fn deleted(
    datatype: MPI_Datatype,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    if let Some(known) = &mut *DERIVED.write().unwrap_or_else(PoisonError::into_inner) {
        known.remove(&datatype.number());
    }
    0
}

pub(super) fn find(datatype: MPI_Datatype) -> Result<Arc<Type>> {
    let handle = datatype.number();
    {
        let known = DERIVED.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(ty) = known.as_ref().and_then(|known| known.get(&handle)) {
            return Ok(ty.clone());
        }
    }
    if datatype == constants::datatype_null() || handle == 0 {
        return Err(bad(ErrorClass::Type, "the datatype is MPI_DATATYPE_NULL"));
    }
    if process().is_some_and(|process| !process.is_committed(datatype)) {
        return Err(bad(
            ErrorClass::Type,
            "the datatype is not committed, or freed",
        ));
    }
    let ty = Arc::new(build::build(datatype)?.commit());
    // Without an attribute, this map would not learn when the host reuses the handle. SAFETY: the type was just
    // analysed, so it exists; the value is not used.
    check(unsafe {
        host::PMPI_Type_set_attr(datatype, KEYVAL.load(Ordering::Acquire), ptr::null_mut())
    })?;
    if let Some(known) = &mut *DERIVED.write().unwrap_or_else(PoisonError::into_inner) {
        known.insert(handle, ty.clone());
    }
    Ok(ty)
}
