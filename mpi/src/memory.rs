//! Memory of MPI_Alloc_mem, which windows access fastest (MPI-4.1, section 9.2).

mod slabs;

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use transom::{ErrorClass, Info};

use crate::errors::{Result, bad, null, told_comm};
use crate::exported::in_front;
use crate::mpi_h::{MPI_Aint, MPI_Info};
use crate::process::{Process, process};
use crate::windows::lock;
use crate::{constants, info};
use slabs::Slabs;

/// The memory that was allocated here.
static OURS: Mutex<Option<Ours>> = Mutex::new(None);

#[derive(Default)]
struct Ours {
    small: Slabs,
    large: HashSet<usize>,
}

in_front! {
    fn MPI_Alloc_mem PMPI_Alloc_mem(size: MPI_Aint, hints: MPI_Info, base: *mut c_void) or host {
        let Some(process) = process() else { return host() };
        let allocated = match base.is_null() {
            true => Err(null("baseptr")),
            // SAFETY: the program's own place for the address.
            false => allocate(&process, size, hints)
                .map(|found| unsafe { base.cast::<*mut u8>().write_unaligned(found) }),
        };
        told_comm("MPI_Alloc_mem", constants::comm_world(), allocated)
    }

    fn MPI_Free_mem PMPI_Free_mem(base: *mut c_void) or host {
        match forget(base.addr()) {
            Freed::Small => 0,
            // SAFETY: it was allocated here, and the program no longer uses it.
            Freed::Large => told_comm("MPI_Free_mem", constants::comm_world(), unsafe { free(base) }),
            Freed::Hosts => host(),
        }
    }
}

/// Where freed memory came from.
enum Freed {
    Small,
    Large,
    Hosts,
}

fn allocate(process: &Process, size: MPI_Aint, hints: MPI_Info) -> Result<*mut u8> {
    let Ok(size) = usize::try_from(size) else {
        return Err(bad(ErrorClass::Size, format!("the size is {size}")));
    };
    if size == 0 {
        return Ok(ptr::null_mut());
    }
    if hints == constants::info_null()
        && let Some(class) = slabs::class(size)
    {
        let more = |size| process.job.alloc_mem(size, &Info::new());
        let piece = lock(&OURS).get_or_insert_default().small.take(class, more);
        return Ok(piece?.as_ptr());
    }
    let base = process.job.alloc_mem(size, &info::from_host(hints)?)?;
    let address = base.addr().get();
    lock(&OURS).get_or_insert_default().large.insert(address);
    Ok(base.as_ptr())
}

fn forget(address: usize) -> Freed {
    let mut ours = lock(&OURS);
    let Some(ours) = &mut *ours else {
        return Freed::Hosts;
    };
    if ours.small.give_back(address) {
        Freed::Small
    } else if ours.large.remove(&address) {
        Freed::Large
    } else {
        Freed::Hosts
    }
}

/// Call it before the job ends, because the memory ends with it.
pub(crate) fn end() {
    *lock(&OURS) = None;
}

/// # Safety
/// As for [`transom::Job::free_mem`].
unsafe fn free(base: *mut c_void) -> Result<()> {
    if let (Some(process), Some(base)) = (process(), NonNull::new(base.cast())) {
        // SAFETY: the caller's promise.
        unsafe { process.job.free_mem(base) }?;
    }
    Ok(())
}
