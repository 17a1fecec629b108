//! Making and freeing windows (MPI-4.1, section 12.2).

use std::ffi::{c_int, c_void};

use transom::lower::{tolerate_any_epoch, tolerate_locks, try_free_after};
use transom::raw::{Flavor, MemoryModel, PROC_NULL, Window};
use transom::{Communicator, ErrorClass, Group, Info};

use crate::carrier::{self, Carrier};
use crate::errors::{self, Failure, Handler, Result, bad, null, told, told_comm};
use crate::exported::in_front;
use crate::groups::HostGroup;
use crate::host::{self, check};
use crate::mpi_h::{MPI_Aint, MPI_Comm, MPI_Info, MPI_Win};
use crate::on_windows::on_windows;
use crate::process::{self, Process, process};
use crate::windows::{self, Attributes, Ours};
use crate::world::{self, Ranks};
use crate::{constants, info, report};

/// What a rank tells the others before a window is made, so that all ranks decide alike.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Verdict {
    Ours = 1,
    /// The rank has no job, or no carrier.
    Host,
    /// The rank's arguments are wrong.
    Wrong,
}

/// A program's request for a window. Negative sizes and units are wrong.
struct Asked {
    call: &'static str,
    kind: Kind,
    size: MPI_Aint,
    unit: i64,
    hints: MPI_Info,
    comm: MPI_Comm,
}

/// The call, with its additional argument: the memory, or a place for its address.
enum Kind {
    Create(*mut c_void),
    Allocate(*mut c_void),
    AllocateShared(*mut c_void),
    Dynamic,
}

impl Asked {
    /// `win` is the place for the handle.
    fn check(&self, win: *mut MPI_Win) -> Result<(usize, u64)> {
        if win.is_null() {
            return Err(null("win"));
        }
        if let Kind::Allocate(place) | Kind::AllocateShared(place) = self.kind
            && place.is_null()
        {
            return Err(null("baseptr"));
        }
        let size = usize::try_from(self.size)
            .map_err(|_| bad(ErrorClass::Size, format!("the size is {}", self.size)))?;
        match u64::try_from(self.unit) {
            Ok(unit @ 1..) => Ok((size, unit)),
            _ => Err(bad(
                ErrorClass::Disp,
                format!("the displacement unit is {}", self.unit),
            )),
        }
    }

    /// # Safety
    /// The memory lasts as long as the window; a place has room for a pointer.
    unsafe fn make(
        &self,
        comm: &Communicator,
        (size, unit): (usize, u64),
        info: &Info,
    ) -> transom::Result<Window> {
        let (window, place) = match self.kind {
            Kind::Create(base) => {
                // SAFETY: the caller's promise.
                return unsafe { Window::create(comm, base.cast(), size, unit, info) };
            }
            Kind::Dynamic => return Window::create_dynamic(comm, info),
            Kind::Allocate(place) => (Window::allocate(comm, size, unit, info)?, place),
            Kind::AllocateShared(place) => (allocate_shared(comm, size, unit, info)?, place),
        };
        // SAFETY: the caller's promise.
        unsafe { place.cast::<*mut u8>().write_unaligned(window.base()) };
        Ok(window)
    }
}

/// Where the job's device maps no memory, the ranks of one host still reach each other by the host's memory, as a part
/// of the communicator. The communicators of `MPI_Comm_split_type` consist of such ranks only.
fn allocate_shared(
    comm: &Communicator,
    size: usize,
    unit: u64,
    info: &Info,
) -> transom::Result<Window> {
    match Window::allocate_shared(comm, size, unit, info) {
        // All ranks get this error.
        Err(error) if error.class() == ErrorClass::RmaShared => {
            let part = comm.split_shared(0)?;
            match part.size() == comm.size() {
                true => Window::allocate_shared(&part, size, unit, info),
                false => Err(error),
            }
        }
        made => made,
    }
}

fn is_inter(comm: MPI_Comm) -> Result<bool> {
    let mut flag = 0;
    // SAFETY: a local; the host checks the handle.
    check(unsafe { host::PMPI_Comm_test_inter(comm, &raw mut flag) })?;
    Ok(flag != 0)
}

/// The group of the job's ranks for the window, in processes with a job, or why the window has to be the host's. Each
/// process of the communicator knows this by itself. Processes of another job must not be asked: they may run without
/// this library.
fn ranks_of(
    call: &str,
    comm: MPI_Comm,
    process: Option<&Process>,
) -> Result<std::result::Result<Option<Group>, &'static str>> {
    if comm == constants::comm_null() {
        return Err(bad(ErrorClass::Comm, "the communicator is MPI_COMM_NULL"));
    }
    if is_inter(comm)? {
        // MPICH would crash.
        let why = "the communicator is an intercommunicator, and those have no windows";
        return Err(bad(ErrorClass::Comm, why));
    }
    if process.is_none() && !world::has_begun() {
        return Ok(Err(report::ONLY_SESSIONS));
    }
    let theirs = HostGroup::of(comm)?;
    let (group, is_ours) = match process {
        Some(process) => {
            let group = theirs.in_job(process)?;
            let is_ours = group.is_some();
            (group, is_ours)
        }
        None => (None, theirs.is_in_world()?),
    };
    if is_ours {
        return Ok(Ok(group));
    }
    let why = "the communicator has processes that are not of the job";
    // Processes of another job may be without this library: they would wait in the host's call for ranks that get an
    // error.
    if report::strict() {
        errors::end_all(call, &not_ours(why), comm);
    }
    Ok(Err(why))
}

/// Fails if another rank passed wrong arguments. Returns false if this one did.
fn all_right(verdicts: &[u8], is_right: bool) -> Result<bool> {
    let wrong = verdicts
        .iter()
        .position(|&verdict| verdict == Verdict::Wrong as u8);
    match wrong {
        // Ranks whose arguments are right must not wait for the others.
        Some(rank) if is_right => Err(bad(
            ErrorClass::Arg,
            format!("rank {rank} passed arguments that are wrong"),
        )),
        wrong => Ok(wrong.is_none()),
    }
}

/// The communicator for the window, if all ranks make the window ours, or the reason why not. Processes without a job
/// have no communicator of ours.
fn joined(
    comm: MPI_Comm,
    ours: Option<(&Process, Group)>,
    mine: Verdict,
) -> Result<std::result::Result<Communicator, String>> {
    let ranks = Ranks::of(comm)?;
    // All of the job's ranks wait for each other without the host, whose waits keep processors busy.
    let world = ours
        .as_ref()
        .and_then(|(process, group)| process.world_for(group));
    let all = match world {
        Some(world) => world.allgather(&[mine as u8])?,
        None => ranks.allgather_bytes(&[mine as u8])?,
    };
    if !all_right(&all, mine != Verdict::Wrong)? {
        return Ok(Err(String::new()));
    }
    Ok(match (ours, world) {
        (None, _) => Err(report::why_no_job()),
        _ if all.contains(&(Verdict::Host as u8)) => {
            Err("another process of the communicator has no job, or no carrier".to_owned())
        }
        (Some(_), Some(world)) => Ok(world.clone()),
        (Some((process, group)), None) => Ok(process.job.communicator(&group, ranks)?),
    })
}

fn not_ours(why: &str) -> Failure {
    bad(
        ErrorClass::Other,
        format!("the window cannot be Transom's: {why}"),
    )
}

/// Makes a window of ours, or has the host make one.
///
/// # Safety
/// `win` is writable, and the rest as for [`Asked::make`].
unsafe fn create(
    asked: &Asked,
    win: *mut MPI_Win,
    by_host: impl FnOnce() -> c_int,
) -> Result<c_int> {
    let the_hosts = |why: &str| {
        if report::strict() {
            return Err(not_ours(why));
        }
        report::window_is_the_hosts(why);
        Ok(by_host())
    };
    let process = process();
    let group = match ranks_of(asked.call, asked.comm, process.as_deref())? {
        Ok(group) => group,
        Err(why) => return the_hosts(why),
    };
    let arguments = asked
        .check(win)
        .and_then(|shape| Ok((shape, info::from_host(asked.hints)?)));
    let ours = process.as_deref().zip(group);
    let carrier = match ours {
        Some(_) => Carrier::new(),
        None => Err(report::why_no_job()),
    };
    let mine = match (&arguments, &carrier) {
        (Err(_), _) => Verdict::Wrong,
        (Ok(_), Ok(_)) => Verdict::Ours,
        (Ok(_), Err(_)) => Verdict::Host,
    };
    let joined = joined(asked.comm, ours, mine)?;
    let (shape, hints) = arguments?;
    let (comm, carrier) = match (joined, carrier) {
        (Ok(comm), Ok(carrier)) => (comm, carrier),
        (_, Err(why)) | (Err(why), _) => return the_hosts(&why),
    };
    // If this fails, it fails on all ranks, or the job ends. SAFETY: the caller's promise.
    let mut window = unsafe { asked.make(&comm, shape, &hints) }?;
    // As the hosts do: the hint only concerns speed, and programs do lock windows with it.
    tolerate_locks(&mut window);
    if !report::strict() {
        tolerate_any_epoch(&mut window);
    }
    report::window_is_ours();
    let attributes = attributes(asked, &window);
    let handle = carrier.into_handle();
    windows::insert(handle, window, attributes);
    // SAFETY: the caller's promise.
    unsafe { *win = handle };
    Ok(0)
}

fn attributes(asked: &Asked, window: &Window) -> Attributes {
    let base = match asked.kind {
        // An empty window has no address of its own.
        Kind::Create(base) => base,
        _ => window.base().cast(),
    };
    Attributes {
        base,
        size: window.size() as MPI_Aint,
        disp_unit: c_int::try_from(window.disp_unit()).unwrap_or(c_int::MAX),
        flavor: match window.flavor() {
            Flavor::Create => constants::win_flavor_create(),
            Flavor::Allocate => constants::win_flavor_allocate(),
            Flavor::Dynamic => constants::win_flavor_dynamic(),
            Flavor::Shared => constants::win_flavor_shared(),
        },
        model: match window.model() {
            MemoryModel::Unified => constants::win_unified(),
        },
    }
}

/// The calls that create windows, each with its request, in terms of its arguments.
macro_rules! creating {
    ($(fn $name:ident $second:ident($($arg:ident: $ty:ty),* $(,)?)
        asks $kind:expr, $size:expr, $unit:expr, $hints:ident, $comm:ident, $win:ident;)*) => {
        in_front! {$(
            fn $name $second($($arg: $ty),*) or host {
                #[allow(clippy::unnecessary_cast, reason = "of what type it is, hosts differ")]
                let asked = Asked {
                    call: stringify!($name),
                    kind: $kind,
                    size: $size,
                    unit: $unit as i64,
                    hints: $hints,
                    comm: $comm,
                };
                // SAFETY: the program keeps MPI's rules for memory, and passes places of its own.
                match unsafe { create(&asked, $win, host) } {
                    Ok(code) => code,
                    Err(failure) => told_comm(asked.call, $comm, Err(failure)),
                }
            }
        )*}
    };
}

creating! {
    fn MPI_Win_create PMPI_Win_create(base: *mut c_void, size: MPI_Aint, unit: c_int, hints: MPI_Info,
        comm: MPI_Comm, win: *mut MPI_Win) asks Kind::Create(base), size, unit, hints, comm, win;
    fn MPI_Win_create_c PMPI_Win_create_c(base: *mut c_void, size: MPI_Aint, unit: MPI_Aint, hints: MPI_Info,
        comm: MPI_Comm, win: *mut MPI_Win) asks Kind::Create(base), size, unit, hints, comm, win;
    fn MPI_Win_allocate PMPI_Win_allocate(size: MPI_Aint, unit: c_int, hints: MPI_Info, comm: MPI_Comm,
        base: *mut c_void, win: *mut MPI_Win) asks Kind::Allocate(base), size, unit, hints, comm, win;
    fn MPI_Win_allocate_c PMPI_Win_allocate_c(size: MPI_Aint, unit: MPI_Aint, hints: MPI_Info, comm: MPI_Comm,
        base: *mut c_void, win: *mut MPI_Win) asks Kind::Allocate(base), size, unit, hints, comm, win;
    fn MPI_Win_allocate_shared PMPI_Win_allocate_shared(size: MPI_Aint, unit: c_int, hints: MPI_Info,
        comm: MPI_Comm, base: *mut c_void, win: *mut MPI_Win)
        asks Kind::AllocateShared(base), size, unit, hints, comm, win;
    fn MPI_Win_allocate_shared_c PMPI_Win_allocate_shared_c(size: MPI_Aint, unit: MPI_Aint, hints: MPI_Info,
        comm: MPI_Comm, base: *mut c_void, win: *mut MPI_Win)
        asks Kind::AllocateShared(base), size, unit, hints, comm, win;
    fn MPI_Win_create_dynamic PMPI_Win_create_dynamic(hints: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win)
        asks Kind::Dynamic, 0, 1, hints, comm, win;
}

in_front! {
    fn MPI_Win_free PMPI_Win_free(win: *mut MPI_Win) or host {
        if win.is_null() {
            return told_comm("MPI_Win_free", constants::comm_self(), Err(null("win")));
        }
        // SAFETY: the program's own handle.
        let handle = unsafe { *win };
        match windows::find(handle) {
            Some(ours) => {
                // SAFETY: as above.
                let freed = unsafe { free(ours, win) };
                // SAFETY: as above. The handle may have changed.
                told("MPI_Win_free", unsafe { *win }, freed)
            }
            None => host(),
        }
    }
}

/// # Safety
/// `win` is a place with the handle of this window.
unsafe fn free(ours: &'static Ours, win: *mut MPI_Win) -> Result<()> {
    let Some(window) = ours.take() else {
        return Err(bad(ErrorClass::Win, "the window is freed already"));
    };
    // SAFETY: the caller's promise.
    let handle = unsafe { *win };
    let (attributes, handler) = (ours.attributes(), Handler::of(handle));
    let mut is_carried = true;
    // The host calls the attributes' functions. They may refuse, so no rank may wait for this one yet. They may also
    // access the memory, and ask for predefined attributes.
    let delete = || {
        // SAFETY: the caller's promise.
        check(unsafe { carrier::free(win) })?;
        // The host may reuse the handle for a window of another thread.
        ours.forget(handle);
        is_carried = false;
        Ok(())
    };
    let Err((window, failure)) = try_free_after(window, delete) else {
        return Ok(());
    };
    if is_carried {
        ours.put_back(handle, *window);
    } else if let Ok(carrier) = Carrier::new() {
        let handle = carrier.into_handle();
        handler.give_to(handle);
        windows::insert(handle, *window, attributes);
        // SAFETY: the caller's promise.
        unsafe { *win = handle };
    }
    Err(failure)
}

on_windows! {
    fn MPI_Win_attach PMPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) of win as ours {
        match usize::try_from(size) {
            // SAFETY: the program keeps the memory until it detaches it, as MPI requires.
            Ok(size) => unsafe { ours.window().attach(base.cast(), size) }.map_err(Into::into),
            Err(_) => Err(bad(ErrorClass::Size, format!("the size is {size}"))),
        }
    }

    fn MPI_Win_detach PMPI_Win_detach(win: MPI_Win, base: *const c_void) of win as ours {
        ours.window().detach(base.cast()).map_err(Into::into)
    }

    fn MPI_Win_shared_query PMPI_Win_shared_query(win: MPI_Win, target: c_int, size: *mut MPI_Aint,
        unit: *mut c_int, base: *mut c_void) of win as ours {
        // SAFETY: the program's own places.
        unsafe { shared_query(ours, target, size, unit, base) }
    }

    fn MPI_Win_shared_query_c PMPI_Win_shared_query_c(win: MPI_Win, target: c_int, size: *mut MPI_Aint,
        unit: *mut MPI_Aint, base: *mut c_void) of win as ours {
        // SAFETY: the program's own places.
        unsafe { shared_query(ours, target, size, unit, base) }
    }
}

/// # Safety
/// All three are places for the results.
unsafe fn shared_query<U: TryFrom<u64>>(
    ours: &Ours,
    target: c_int,
    size: *mut MPI_Aint,
    unit: *mut U,
    base: *mut c_void,
) -> Result<()> {
    for (what, is_null) in [
        ("size", size.is_null()),
        ("disp_unit", unit.is_null()),
        ("baseptr", base.is_null()),
    ] {
        if is_null {
            return Err(null(what));
        }
    }
    let rank = Some(process::rank(target)?).filter(|&rank| rank != PROC_NULL);
    let part = ours.window().shared_query(rank)?;
    let disp_unit = U::try_from(part.disp_unit).map_err(|_| {
        bad(
            ErrorClass::Disp,
            "the displacement unit is more than an int holds",
        )
    })?;
    // SAFETY: the caller's promise.
    unsafe {
        *size = part.size as MPI_Aint;
        *unit = disp_unit;
        base.cast::<*mut u8>().write_unaligned(part.base);
    }
    Ok(())
}
