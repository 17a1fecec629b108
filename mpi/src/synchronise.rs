//! Synchronisation (MPI-4.1, section 12.5).

use std::ffi::c_int;

use transom::lower::at_once;
use transom::raw::Assert;
use transom::{ErrorClass, LockKind};

use crate::errors::{Result, bad, null};
use crate::mpi_h::{MPI_Group, MPI_Win};
use crate::on_windows::{on_windows, quick_on_windows};
use crate::process::{self, rank};
use crate::{constants, groups};

/// The assertions in an `int`.
#[inline(always)]
fn asserts(bits: c_int) -> Result<Assert> {
    match bits {
        0 => Ok(Assert::NONE),
        bits => some_asserts(bits),
    }
}

#[cold]
fn some_asserts(bits: c_int) -> Result<Assert> {
    let mut rest = bits;
    let mut assert = Assert::NONE;
    for (bit, promise) in [
        (constants::mode_nocheck(), Assert::NO_CHECK),
        (constants::mode_nostore(), Assert::NO_STORE),
        (constants::mode_noput(), Assert::NO_PUT),
        (constants::mode_noprecede(), Assert::NO_PRECEDE),
        (constants::mode_nosucceed(), Assert::NO_SUCCEED),
    ] {
        if rest & bit != 0 {
            assert = assert | promise;
            rest &= !bit;
        }
    }
    match rest {
        0 => Ok(assert),
        rest => Err(bad(
            ErrorClass::Assert,
            format!("{rest:#x} is no assertion"),
        )),
    }
}

#[inline(always)]
fn known_kind(number: c_int) -> Option<LockKind> {
    if number == constants::lock_exclusive() {
        Some(LockKind::Exclusive)
    } else if number == constants::lock_shared() {
        Some(LockKind::Shared)
    } else {
        None
    }
}

fn kind(number: c_int) -> Result<LockKind> {
    known_kind(number).ok_or_else(|| {
        let text = format!("{number} is no kind of lock");
        bad(ErrorClass::LockType, text)
    })
}

/// `MPI_PROC_NULL` is always locked, and all its operations are complete.
#[inline(always)]
fn on_somebody(target: c_int, call: impl FnOnce(u32) -> transom::Result<()>) -> Result<()> {
    match target == constants::proc_null() {
        true => Ok(()),
        false => Ok(call(rank(target)?)?),
    }
}

on_windows! {
    fn MPI_Win_fence PMPI_Win_fence(assert: c_int, win: MPI_Win) of win as ours {
        asserts(assert).and_then(|assert| Ok(ours.window().fence(assert)?))
    }

    fn MPI_Win_start PMPI_Win_start(targets: MPI_Group, assert: c_int, win: MPI_Win) of win as ours {
        groups::find(targets).and_then(|group| Ok(ours.window().start(&group, asserts(assert)?)?))
    }

    fn MPI_Win_complete PMPI_Win_complete(win: MPI_Win) of win as ours {
        ours.window().complete().map_err(Into::into)
    }

    fn MPI_Win_post PMPI_Win_post(origins: MPI_Group, assert: c_int, win: MPI_Win) of win as ours {
        groups::find(origins).and_then(|group| Ok(ours.window().post(&group, asserts(assert)?)?))
    }

    fn MPI_Win_wait PMPI_Win_wait(win: MPI_Win) of win as ours {
        ours.window().wait().map_err(Into::into)
    }

    fn MPI_Win_test PMPI_Win_test(win: MPI_Win, flag: *mut c_int) of win as ours {
        if flag.is_null() {
            Err(null("flag"))
        } else {
            let done = ours.window().test();
            if let Ok(false) = done {
                process::let_host_go_on();
            }
            // SAFETY: the program's own place for the flag.
            done.map(|done| unsafe { *flag = done.into() }).map_err(Into::into)
        }
    }

    fn MPI_Win_sync PMPI_Win_sync(win: MPI_Win) of win as ours {
        process::now_and_then();
        ours.window().sync().map_err(Into::into)
    }
}

quick_on_windows! {
    fn MPI_Win_lock PMPI_Win_lock(kind_of_lock: c_int, target: c_int, assert: c_int, win: MPI_Win)
        of win as ours at_once window {
        if assert == 0 && let Some(kind) = known_kind(kind_of_lock)
            && at_once::lock(window, kind, target as u32) { return 0; }
    } else {
        kind(kind_of_lock).and_then(|kind| {
            let assert = asserts(assert)?;
            on_somebody(target, |target| ours.window().lock(kind, target, assert))
        })
    }

    fn MPI_Win_lock_all PMPI_Win_lock_all(assert: c_int, win: MPI_Win) of win as ours at_once window {
        if assert == 0 && at_once::lock_all(window) { return 0; }
    } else {
        asserts(assert).and_then(|assert| Ok(ours.window().lock_all(assert)?))
    }

    fn MPI_Win_unlock PMPI_Win_unlock(target: c_int, win: MPI_Win) of win as ours at_once window {
        if at_once::unlock(window, target as u32) { return 0; }
    } else {
        process::after_quick_ones();
        on_somebody(target, |target| ours.window().unlock(target))
    }

    fn MPI_Win_flush PMPI_Win_flush(target: c_int, win: MPI_Win) of win as ours at_once window {
        if at_once::flush(window, target as u32) { return 0; }
    } else {
        process::after_quick_ones();
        on_somebody(target, |target| ours.window().flush(target))
    }

    fn MPI_Win_flush_local PMPI_Win_flush_local(target: c_int, win: MPI_Win) of win as ours at_once window {
        if at_once::flush_local(window, target as u32) { return 0; }
    } else {
        process::after_quick_ones();
        on_somebody(target, |target| ours.window().flush_local(target))
    }

    fn MPI_Win_unlock_all PMPI_Win_unlock_all(win: MPI_Win) of win as ours at_once window {
        if !process::is_due() && at_once::unlock_all(window) { return 0; }
    } else {
        process::let_host_go_on();
        ours.window().unlock_all().map_err(Into::into)
    }
}

on_windows! {
    fn MPI_Win_flush_all PMPI_Win_flush_all(win: MPI_Win) of win as ours {
        process::now_and_then();
        ours.window().flush_all().map_err(Into::into)
    }

    fn MPI_Win_flush_local_all PMPI_Win_flush_local_all(win: MPI_Win) of win as ours {
        process::now_and_then();
        ours.window().flush_local_all().map_err(Into::into)
    }
}
