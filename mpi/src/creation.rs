//! Windows come and go (MPI-4.1, section 12.2).

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::ptr;
use std::thread;
use std::time::Duration;

use mpi_sys::{MPI_Aint, MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Win};
use transom::lower::try_free_with;
use transom::raw::{Flavor, MemoryModel, Window};
use transom::{Communicator, ErrorClass, Info};

use crate::errors::{Result, bad, told, told_comm};
use crate::exported::{exported, on_windows};
use crate::host::{HostError, check, host};
use crate::process::{Process, Ranks, is_in_world, process};
use crate::windows::{self, Attributes, Ours};
use crate::{constants, info, report};

/// What a rank says before a window is made, so that all ranks decide alike.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Verdict {
    Ours = 1,
    /// It has no job, or the communicator has processes that are not of it.
    Host,
    /// Its arguments are wrong.
    Wrong,
}

/// What a program asks for. Sizes and units are wrong if they are negative.
struct Asked {
    kind: Kind,
    size: MPI_Aint,
    unit: i64,
    hints: MPI_Info,
    comm: MPI_Comm,
}

/// Which call it was, and what that one has more: the memory, or a place for its address.
enum Kind {
    Create(*mut c_void),
    Allocate(*mut c_void),
    AllocateShared(*mut c_void),
    Dynamic,
}

impl Asked {
    fn check(&self) -> Result<(usize, u64)> {
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
    /// The memory lasts as long as the window; a place is one for a pointer.
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
            Kind::AllocateShared(place) => {
                (Window::allocate_shared(comm, size, unit, info)?, place)
            }
        };
        // SAFETY: the caller's promise.
        unsafe { place.cast::<*mut u8>().write_unaligned(window.base()) };
        Ok(window)
    }
}

fn is_inter(comm: MPI_Comm) -> Result<bool> {
    let mut flag = 0;
    // SAFETY: a local; the host checks the handle.
    check(unsafe { host!(PMPI_Comm_test_inter(MPI_Comm, *mut c_int))(comm, &raw mut flag) })?;
    Ok(flag != 0)
}

/// Why the window has to be the host's, which each process of the communicator knows by itself. Processes of
/// another job must not be asked: they may run without this library.
fn foreign(comm: MPI_Comm) -> Result<Option<&'static str>> {
    if comm == constants::comm_null() {
        return Err(bad(ErrorClass::Comm, "the communicator is MPI_COMM_NULL"));
    }
    if is_inter(comm)? {
        return Ok(Some("the communicator is an intercommunicator"));
    }
    Ok(match is_in_world(group_of(comm)?.0)? {
        true => None,
        false => Some("the communicator has processes that are not of the job"),
    })
}

/// The ranks of a window.
enum Members<'p> {
    /// All of the job's, who wait for each other without the host, whose waits keep processors busy.
    World(&'p Communicator),
    Some(Communicator),
}

impl Deref for Members<'_> {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        match self {
            Self::World(comm) => comm,
            Self::Some(comm) => comm,
        }
    }
}

/// Fails if some rank passed arguments that are wrong, or says that it was this one.
fn all_right(verdicts: &[u8], is_right: bool) -> Result<bool> {
    let wrong = verdicts
        .iter()
        .position(|&verdict| verdict == Verdict::Wrong as u8);
    match wrong {
        // Those that are right must not wait for the others.
        Some(rank) if is_right => Err(bad(
            ErrorClass::Arg,
            format!("rank {rank} passed arguments that are wrong"),
        )),
        wrong => Ok(wrong.is_none()),
    }
}

/// The communicator of ours, if all of its ranks make the window ours, or why not.
fn joined(
    comm: MPI_Comm,
    process: Option<&Process>,
    is_right: bool,
) -> Result<std::result::Result<Members<'_>, String>> {
    let ranks = Ranks::of(comm)?;
    let group = match process {
        Some(process) => process.group(group_of(comm)?.0)?,
        None => None,
    };
    if let (Some(process), Some(group)) = (process, &group)
        && let Some(world) = process.world_for(group)
    {
        let mine = match is_right {
            true => Verdict::Ours,
            false => Verdict::Wrong,
        };
        return Ok(
            match all_right(&world.allgather(&[mine as u8])?, is_right)? {
                true => Ok(Members::World(world)),
                false => Err(String::new()),
            },
        );
    }
    let mine = match (is_right, &group) {
        (false, _) => Verdict::Wrong,
        (true, Some(_)) => Verdict::Ours,
        (true, None) => Verdict::Host,
    };
    let mut all = vec![0; transom::lower::Allgather::size(&ranks) as usize];
    ranks.allgather_bytes(&[mine as u8], &mut all)?;
    if !all_right(&all, is_right)? {
        return Ok(Err(String::new()));
    }
    let others = all.contains(&(Verdict::Host as u8));
    match (process, group) {
        (Some(process), Some(group)) if !others => {
            let comm = process.job.communicator(&group, ranks)?;
            Ok(Ok(Members::Some(comm)))
        }
        (None, _) => Ok(Err(report::why_no_job())),
        _ => Ok(Err(
            "another process of the communicator has no job".to_owned()
        )),
    }
}

/// A group that is given back.
struct HostGroup(MPI_Group);

impl Drop for HostGroup {
    fn drop(&mut self) {
        // SAFETY: made in `group_of`, for this alone.
        unsafe { host!(PMPI_Group_free(*mut MPI_Group))(&raw mut self.0) };
    }
}

fn group_of(comm: MPI_Comm) -> Result<HostGroup> {
    let mut group = constants::group_null();
    // SAFETY: a local; the host checks the handle.
    check(unsafe { host!(PMPI_Comm_group(MPI_Comm, *mut MPI_Group))(comm, &raw mut group) })?;
    Ok(HostGroup(group))
}

/// A window of the host's, without memory, whose handle the program gets.
fn carrier(comm: MPI_Comm, members: &Members<'_>) -> Result<MPI_Win> {
    match members {
        Members::Some(some) if constants::carriers_collide() != 0 && some.size() > 1 => {
            carrier_of_some(comm, some)
        }
        members => Ok(try_carrier(comm, members.size())?),
    }
}

fn try_carrier(comm: MPI_Comm, ranks: u32) -> std::result::Result<MPI_Win, HostError> {
    let mut win = constants::win_null();
    let mut base: *mut c_void = ptr::null_mut();
    let (info, place) = (constants::info_null(), &raw mut win);
    // SAFETY: no memory is exposed, and the places are locals.
    let code = unsafe {
        match ranks {
            // Open MPI 4 can make nothing else for one rank, and for several now and then not this.
            1 => host!(
                PMPI_Win_allocate(MPI_Aint, c_int, MPI_Info, MPI_Comm, *mut c_void, *mut MPI_Win)
            )(0, 1, info, comm, (&raw mut base).cast(), place),
            _ => host!(
                PMPI_Win_create(*mut c_void, MPI_Aint, c_int, MPI_Info, MPI_Comm, *mut MPI_Win)
            )(base, 0, 1, info, comm, place),
        }
    };
    check(code).map(|()| win)
}

/// Open MPI 4 names a file after the communicator's number, which others that have no rank in common with it
/// have, too: of windows that are made at once, some fail, on all of their ranks. Those try again.
fn carrier_of_some(comm: MPI_Comm, members: &Communicator) -> Result<MPI_Win> {
    const TRIES: u32 = 20;
    let mut quiet = constants::comm_null();
    // SAFETY: a local; the duplicate is freed below, and lives as long as the window needs it.
    unsafe {
        check(host!(PMPI_Comm_dup(MPI_Comm, *mut MPI_Comm))(
            comm,
            &raw mut quiet,
        ))?;
        check(host!(PMPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler))(
            quiet,
            constants::errors_return(),
        ))?;
    }
    let mut made = try_carrier(quiet, members.size());
    for again in 1..TRIES {
        if made.is_ok() {
            break;
        }
        // Not as long as those that it met.
        let first = members.group().world_rank(0).unwrap_or(0);
        thread::sleep(Duration::from_micros(u64::from(
            again * (1 + first % 7) * 100,
        )));
        made = try_carrier(quiet, members.size());
    }
    // SAFETY: made above.
    unsafe { host!(PMPI_Comm_free(*mut MPI_Comm))(&raw mut quiet) };
    made.map_err(|error| bad(ErrorClass::Win, error.text()))
}

/// Makes a window ours, or by the host's own call.
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
            return Err(bad(
                ErrorClass::Other,
                format!("the window cannot be Transom's: {why}"),
            ));
        }
        report::window_is_the_hosts(why);
        Ok(by_host())
    };
    if let Some(why) = foreign(asked.comm)? {
        return the_hosts(why);
    }
    let process = process();
    let arguments = asked
        .check()
        .and_then(|shape| Ok((shape, info::from_host(asked.hints)?)));
    let comm = match joined(asked.comm, process.as_deref(), arguments.is_ok())? {
        Ok(comm) => comm,
        Err(why) => {
            arguments?;
            return the_hosts(&why);
        }
    };
    let (shape, hints) = arguments?;
    let mut carrier = carrier(asked.comm, &comm)?;
    // SAFETY: the caller's promise.
    let window = match unsafe { asked.make(&comm, shape, &hints) } {
        Ok(window) => window,
        Err(error) => {
            // All ranks come here, or the job ends.
            // SAFETY: the program does not know of it.
            unsafe { host!(PMPI_Win_free(*mut MPI_Win))(&raw mut carrier) };
            return Err(error.into());
        }
    };
    report::window_is_ours();
    let attributes = attributes(asked, &window);
    windows::insert(carrier, window, attributes);
    // SAFETY: the caller's promise.
    unsafe { *win = carrier };
    Ok(0)
}

fn attributes(asked: &Asked, window: &Window) -> Attributes {
    let base = match asked.kind {
        // A window of no bytes has no address of its own.
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

/// Calls that create: what is asked for, by the names of the arguments.
macro_rules! creating {
    ($(fn $name:ident $second:ident($($arg:ident: $ty:ty),* $(,)?)
        asks $kind:expr, $size:expr, $unit:expr, $hints:ident, $comm:ident, $win:ident;)*) => {
        exported! {$(
            fn $name $second($($arg: $ty),*) {
                #[allow(clippy::unnecessary_cast, reason = "of what type it is, hosts differ")]
                let asked = Asked {
                    kind: $kind,
                    size: $size,
                    unit: $unit as i64,
                    hints: $hints,
                    comm: $comm,
                };
                // SAFETY: what the program passed goes on to where it would have gone without us.
                let by_host = || unsafe { host!($second($($ty),*))($($arg),*) };
                // SAFETY: the program keeps MPI's rules for memory, and passes places of its own.
                match unsafe { create(&asked, $win, by_host) } {
                    Ok(code) => code,
                    Err(failure) => told_comm(stringify!($name), $comm, Err(failure)),
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

exported! {
    fn MPI_Win_free PMPI_Win_free(win: *mut MPI_Win) {
        // SAFETY: the program's own handle.
        let handle = unsafe { *win };
        match windows::find(handle) {
            // SAFETY: as above.
            Some(ours) => told("MPI_Win_free", handle, unsafe { free(ours, win) }),
            // SAFETY: what the program passed goes on to where it would have gone without us.
            None => unsafe { host!(PMPI_Win_free(*mut MPI_Win))(win) },
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
    let carrier = unsafe { *win };
    // The host calls the attributes' functions: those may still look at the memory, and ask for what is
    // predefined.
    let by_host = |_, _| {
        // SAFETY: the caller's promise.
        check(unsafe { host!(PMPI_Win_free(*mut MPI_Win))(win) })
    };
    match try_free_with(window, by_host) {
        Ok(freed) => {
            ours.forget(carrier);
            Ok(freed?)
        }
        Err((window, error)) => {
            ours.put_back(carrier, *window);
            Err(error.into())
        }
    }
}

on_windows! {
    fn MPI_Win_attach PMPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) of win as ours {
        match usize::try_from(size) {
            // SAFETY: the program keeps the memory until it detaches it, as MPI asks.
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
/// All three are places for what they are told.
unsafe fn shared_query<U: TryFrom<u64>>(
    ours: &Ours,
    target: c_int,
    size: *mut MPI_Aint,
    unit: *mut U,
    base: *mut c_void,
) -> Result<()> {
    let rank = (target != constants::proc_null()).then_some(target as u32);
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
