//! Operations: put, get and the accumulates (MPI-4.1, section 12.3).

use std::ffi::{c_int, c_void};

use transom::lower::at_once::{self, InPlace};
use transom::raw::{Flavor, Layout, PROC_NULL, Request, Window};
use transom::{BasicType, ErrorClass, Op};

use crate::errors::{Result, bad, null};
use crate::mpi_h::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op, MPI_Request, MPI_Win};
use crate::on_windows::{on_windows, quick_on_windows};
use crate::process::{rank, somebody};
use crate::types::{self, Dense, Known};
use crate::{constants, requests};

/// Some elements: how many, and of which type.
#[derive(Clone, Copy)]
struct Elements {
    count: i64,
    ty: MPI_Datatype,
}

/// Elements in this process.
#[derive(Clone, Copy)]
struct Near {
    at: *mut c_void,
    elements: Elements,
}

/// Elements in the target's memory.
#[derive(Clone, Copy)]
struct Far {
    rank: c_int,
    disp: MPI_Aint,
    elements: Elements,
}

#[inline(always)]
fn near(at: *const c_void, count: impl Into<i64>, ty: MPI_Datatype) -> Near {
    let count = count.into();
    Near {
        at: at.cast_mut(),
        elements: Elements { count, ty },
    }
}

#[inline(always)]
fn far(rank: c_int, disp: MPI_Aint, count: impl Into<i64>, ty: MPI_Datatype) -> Far {
    let count = count.into();
    Far {
        rank,
        disp,
        elements: Elements { count, ty },
    }
}

impl Elements {
    #[inline(always)]
    fn dense(self) -> Option<Dense> {
        types::dense(self.ty)
    }

    /// The number of bytes, for a type whose elements have this size.
    #[inline(always)]
    fn bytes(self, Dense { size, .. }: Dense) -> Option<u64> {
        u64::try_from(self.count).ok()?.checked_mul(size.into())
    }

    fn check(self, whose: &str) -> Result<u64> {
        u64::try_from(self.count).map_err(|_| {
            bad(
                ErrorClass::Count,
                format!("the {whose} count is {}", self.count),
            )
        })
    }

    fn find(self, whose: &str) -> Result<Found> {
        let count = self.check(whose)?;
        let ty = types::find(self.ty)?;
        Ok(Found { ty, count })
    }
}

/// Whether this is an address: neither null nor `MPI_IN_PLACE`, which is 1 or -1 in every host (`constants.c`).
#[inline(always)]
fn is_address(buffer: *const c_void) -> bool {
    buffer.addr().wrapping_add(1) > 2
}

/// Fails for `MPI_IN_PLACE`, which only collective calls take. Whether null is right depends on the datatype.
fn check_buffer(buffer: *const c_void, whose: &str) -> Result<()> {
    match buffer.is_null() || is_address(buffer) {
        true => Ok(()),
        false => Err(bad(
            ErrorClass::Buffer,
            format!("the {whose} buffer is MPI_IN_PLACE, which operations of windows do not take"),
        )),
    }
}

impl Near {
    fn find(self, whose: &str) -> Result<Found> {
        check_buffer(self.at, whose)?;
        self.elements.find(whose)
    }
}

impl Far {
    /// The target and the displacement. The displacement is an address only in dynamic windows.
    fn place(self, window: &Window) -> Result<(u32, u64)> {
        let target = rank(self.rank)?;
        if self.disp < 0 && target != PROC_NULL && window.flavor() != Flavor::Dynamic {
            let text = format!("the displacement is {}", self.disp);
            return Err(bad(ErrorClass::Disp, text));
        }
        Ok((target, self.disp as u64))
    }

    /// The target, if neither it nor the displacement is negative. The slow path interprets negative values.
    #[inline(always)]
    fn somebody(self) -> Option<u32> {
        (self.disp >= 0).then(|| somebody(self.rank)).flatten()
    }
}

/// The number and the type of elements, if both sides have the same dense type, and `to`, the receiving side, has
/// room for them.
#[inline(always)]
fn alike(from: Elements, to: Elements) -> Option<(u32, Dense)> {
    let dense = types::quick(from.ty)?;
    // A negative count becomes a large number.
    let fits =
        from.ty == to.ty && from.count <= to.count && from.count as u64 <= u64::from(u32::MAX);
    fits.then_some((from.count as u32, dense))
}

/// As [`put_bytes`], if both sides have elements of the same type.
#[inline(always)]
fn bytes_alike(from: Elements, to: Elements) -> Option<usize> {
    let (count, dense) = alike(from, to)?;
    Some(count as usize * dense.size as usize)
}

/// A put that is only a copy, but too long to be inlined. Its caller does nothing after it: so it saves no registers
/// for it, and reaches the slow path by a jump. With other calls beside this one it would not.
///
/// # Safety
/// As for [`InPlace::put`].
#[inline(never)]
unsafe extern "C" fn put_in_place(there: InPlace<'_>, origin: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { there.put(origin, len) };
}

/// A get that is only a copy, as [`put_in_place`].
///
/// # Safety
/// As for [`InPlace::get`].
#[inline(never)]
unsafe extern "C" fn get_in_place(there: InPlace<'_>, origin: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { there.get(origin, len) };
}

/// How many bytes are put, if neither side has padding and the receiving side has room for them.
#[inline(always)]
fn put_bytes(from: Elements, to: Elements) -> Option<usize> {
    let dense = from.dense()?;
    let len = from.bytes(dense)?;
    let fits = match from.ty == to.ty {
        true => from.count <= to.count,
        false => len <= to.bytes(to.dense()?)?,
    };
    fits.then_some(len as usize)
}

/// The same for a get, whose receiving side is the origin.
#[inline(always)]
fn get_bytes(to: Elements, from: Elements) -> Option<usize> {
    put_bytes(from, to)
}

/// Elements whose type is known.
struct Found {
    ty: Known,
    count: u64,
}

impl Found {
    fn bytes(&self) -> Layout<'_> {
        self.ty.bytes.times(self.count)
    }

    /// The size in bytes.
    fn size(&self) -> u64 {
        self.ty.bytes.datatype().size().saturating_mul(self.count)
    }

    fn describe(&self, elements: Elements) -> String {
        let name = types::name(elements.ty);
        format!("{} × {name} ({} bytes)", self.count, self.size())
    }

    fn elements(&self) -> Layout<'_> {
        self.ty.elements.times(self.count)
    }
}

fn put_sides(near: Near, far: Far) -> Result<(Found, Found)> {
    check_buffer(near.at, "origin")?;
    move_sides((near.elements, "origin"), (far.elements, "target"), far)
}

fn get_sides(near: Near, far: Far) -> Result<(Found, Found)> {
    check_buffer(near.at, "origin")?;
    // The origin's count is the first argument.
    near.elements.check("origin")?;
    let (from, to) = move_sides((far.elements, "target"), (near.elements, "origin"), far)?;
    Ok((to, from))
}

/// Both sides of a move; the side that receives bytes must have room for them. Nothing is moved to or from
/// `MPI_PROC_NULL`. The names are the program's terms for the sides; for the window, all types are bytes.
fn move_sides(from: (Elements, &str), to: (Elements, &str), far: Far) -> Result<(Found, Found)> {
    let ((from, from_whose), (to, to_whose)) = (from, to);
    let (there, room) = (from.find(from_whose)?, to.find(to_whose)?);
    match far.rank == constants::proc_null() || there.size() <= room.size() {
        true => Ok((there, room)),
        false => Err(bad(
            ErrorClass::Type,
            format!(
                "{} of the {from_whose} do not fit into {} of the {to_whose}",
                there.describe(from),
                room.describe(to)
            ),
        )),
    }
}

/// Functions that move bytes: by the window's method of this name if neither side has padding, otherwise by the one for
/// layouts.
macro_rules! moving {
    ($($name:ident $layouts:ident($bytes:ident, $sides:ident) -> $out:ty;)+) => {$(
        /// # Safety
        /// As for the call of the window.
        unsafe fn $name(window: &Window, near: Near, far: Far) -> Result<$out> {
            if let Some((target, len)) = plain(near, far, $bytes(near.elements, far.elements)) {
                // SAFETY: the caller's promise.
                return Ok(unsafe { window.$name(near.at.cast(), len, target, far.disp as u64) }?);
            }
            let ((here, there), (target, disp)) = ($sides(near, far)?, far.place(window)?);
            let (here, there) = (here.bytes(), there.bytes());
            // SAFETY: the caller's promise.
            Ok(unsafe { window.$layouts(near.at.cast(), here, target, disp, there) }?)
        }
    )+};
}

moving! {
    put put_layout(put_bytes, put_sides) -> ();
    get get_layout(get_bytes, get_sides) -> ();
    rput rput_layout(put_bytes, put_sides) -> Request;
    rget rget_layout(get_bytes, get_sides) -> Request;
}

/// The same for elements that are combined.
macro_rules! combining {
    ($($name:ident $layouts:ident -> $out:ty;)+) => {$(
        /// # Safety
        /// As for the call of the window.
        unsafe fn $name(window: &Window, near: Near, far: Far, op: Op) -> Result<$out> {
            if let Some((target, (count, ty))) = plain(near, far, elements(near.elements, far.elements)) {
                // SAFETY: the caller's promise.
                return Ok(unsafe { window.$name(near.at.cast(), count, ty, target, far.disp as u64, op) }?);
            }
            let (here, there) = (near.find("origin")?, far.elements.find("target")?);
            let (here, there) = (here.elements(), there.elements());
            let (target, disp) = far.place(window)?;
            // SAFETY: the caller's promise.
            Ok(unsafe { window.$layouts(near.at.cast(), here, target, disp, there, op) }?)
        }
    )+};
}

combining! {
    accumulate accumulate_layout -> ();
    raccumulate raccumulate_layout -> Request;
}

/// The same for calls that return the old values.
macro_rules! fetching {
    ($($name:ident $layouts:ident -> $out:ty;)+) => {$(
        /// # Safety
        /// As for the call of the window.
        unsafe fn $name(window: &Window, near: Near, result: Near, far: Far, op: Op) -> Result<$out> {
            if let Some((target, (count, ty))) = fetched_elements(near, result, far, op) {
                let (near, result, disp) = (near.at.cast(), result.at.cast(), far.disp as u64);
                // SAFETY: the caller's promise.
                return Ok(unsafe { window.$name(near, result, count, ty, target, disp, op) }?);
            }
            // For NoOp, MPI ignores the origin's buffer, count and type.
            let (near, whose) = match op {
                Op::NoOp => (result, "result"),
                _ => (near, "origin"),
            };
            let from = near.find(whose)?;
            let at = far.elements.find("target")?;
            let into = result.find("result")?;
            let (from, at, into) = (from.elements(), at.elements(), into.elements());
            let (target, disp) = far.place(window)?;
            let (near, result) = (near.at.cast(), result.at.cast());
            // SAFETY: the caller's promise.
            Ok(unsafe { window.$layouts(near, from, result, into, target, disp, at, op) }?)
        }
    )+};
}

fetching! {
    get_accumulate get_accumulate_layout -> ();
    rget_accumulate rget_accumulate_layout -> Request;
}

#[inline(always)]
fn op(handle: MPI_Op) -> Result<Op> {
    match constants::op(handle) {
        Some(op) => Ok(op),
        None => Err(bad(
            ErrorClass::Op,
            "accumulates take predefined operations only",
        )),
    }
}

/// The number and the type of accumulated elements, if both sides have elements of one type without padding.
#[inline(always)]
fn elements(near: Elements, far: Elements) -> Option<(usize, BasicType)> {
    let here = near.dense()?;
    let same = near.ty == far.ty || far.dense().is_some_and(|there| here.ty == there.ty);
    (same && near.count <= far.count && near.count >= 0).then_some((near.count as usize, here.ty))
}

/// What is moved or combined and the target, if the call needs no layouts and no argument is one of MPI's constants.
#[inline(always)]
fn plain<T>(near: Near, far: Far, what: Option<T>) -> Option<(u32, T)> {
    far.somebody().filter(|_| is_address(near.at)).zip(what)
}

/// The same for calls that return the old values of all elements at the target. For NoOp, MPI ignores the origin.
#[inline(always)]
fn fetched_elements(
    near: Near,
    result: Near,
    far: Far,
    op: Op,
) -> Option<(u32, (usize, BasicType))> {
    let is_whole = op == Op::NoOp
        || (near.elements.count == far.elements.count
            && is_address(near.at)
            && (near.elements.ty == far.elements.ty
                || elements(near.elements, far.elements).is_some()));
    plain(result, far, elements(far.elements, result.elements)).filter(|_| is_whole)
}

/// The type of a call on one element.
#[inline(always)]
fn single(ty: MPI_Datatype) -> Result<BasicType> {
    types::single_of_any(ty).ok_or_else(|| {
        let takes = "the call takes a predefined datatype of those that windows hold";
        bad(ErrorClass::Type, takes)
    })
}

/// The target and the displacement of a call on one element.
fn place(window: &Window, target: c_int, disp: MPI_Aint) -> Result<(u32, u64)> {
    far(target, disp, 1, constants::byte()).place(window)
}

/// The host's request for an operation.
///
/// # Safety
/// `request` is writable.
unsafe fn with_request(
    call: &'static str,
    carrier: MPI_Win,
    request: *mut MPI_Request,
    make: impl FnOnce() -> Result<Request>,
) -> Result<()> {
    if request.is_null() {
        return Err(null("request"));
    }
    // SAFETY: the caller's promise.
    unsafe { requests::lend(call, carrier, make()?, request) }
}

/// Both forms of a call: with counts of `int`, and of `MPI_Count`.
macro_rules! operations {
    ($($first:ident $second:ident $large:ident $large_second:ident ($count:ident $($arg:ident: $ty:ty),*)
        of $win:ident as $ours:ident $(at_once $window:ident $at_once:block else)? $body:block)*) => {$(
        operations!(@one $first $second c_int, ($($arg: $ty),*) $count $win $ours
            $(at_once $window $at_once)? $body);
        operations!(@one $large $large_second MPI_Count, ($($arg: $ty),*) $count $win $ours
            $(at_once $window $at_once)? $body);
    )*};
    (@one $name:ident $second:ident $int:ty, ($($arg:ident: $ty:ty),*) $count:ident $win:ident $ours:ident
        at_once $window:ident $at_once:block $body:block) => {
        const _: () = {
            type $count = $int;
            quick_on_windows! {
                fn $name $second($($arg: $ty),*) of $win as $ours at_once $window $at_once else $body
            }
        };
    };
    (@one $name:ident $second:ident $int:ty, ($($arg:ident: $ty:ty),*) $count:ident $win:ident $ours:ident
        $body:block) => {
        const _: () = {
            type $count = $int;
            on_windows! {
                fn $name $second($($arg: $ty),*) of $win as $ours $body
            }
        };
    };
}

operations! {
    MPI_Put PMPI_Put MPI_Put_c PMPI_Put_c(N origin: *const c_void, origin_count: N, origin_type: MPI_Datatype,
        target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype, win: MPI_Win) of win as ours at_once window {
        let (from, to) = (near(origin, origin_count, origin_type), far(target, disp, count, ty));
        if let Some(len) = bytes_alike(from.elements, to.elements)
            && let Some(there) = at_once::to_put(window, len, target as u32, disp as u64)
            && is_address(origin) {
            // SAFETY: the program keeps MPI's rules for buffers.
            unsafe {
                match len {
                    8 => there.put(origin.cast(), 8),
                    _ => put_in_place(there, origin.cast(), len),
                }
            }
            return 0;
        }
    } else {
        let from = near(origin, origin_count, origin_type);
        // SAFETY: the program keeps MPI's rules for buffers.
        unsafe { put(ours.window(), from, far(target, disp, count, ty)) }
    }

    MPI_Get PMPI_Get MPI_Get_c PMPI_Get_c(N origin: *mut c_void, origin_count: N, origin_type: MPI_Datatype,
        target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype, win: MPI_Win) of win as ours at_once window {
        let (to, from) = (near(origin, origin_count, origin_type), far(target, disp, count, ty));
        if let Some(len) = bytes_alike(to.elements, from.elements)
            && let Some(there) = at_once::to_get(window, len, target as u32, disp as u64)
            && is_address(origin) {
            // SAFETY: the program keeps MPI's rules for buffers.
            unsafe {
                match len {
                    8 => there.get(origin.cast(), 8),
                    _ => get_in_place(there, origin.cast(), len),
                }
            }
            return 0;
        }
    } else {
        let to = near(origin, origin_count, origin_type);
        // SAFETY: the program keeps MPI's rules for buffers.
        unsafe { get(ours.window(), to, far(target, disp, count, ty)) }
    }

    MPI_Accumulate PMPI_Accumulate MPI_Accumulate_c PMPI_Accumulate_c(N origin: *const c_void, origin_count: N,
        origin_type: MPI_Datatype, target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype, handle: MPI_Op,
        win: MPI_Win) of win as ours at_once window {
        let (from, to) = (near(origin, origin_count, origin_type), far(target, disp, count, ty));
        if let Some((1, dense)) = alike(from.elements, to.elements)
            && constants::quick_op(handle) == Some(Op::Sum) && is_address(origin)
            // SAFETY: the program keeps MPI's rules for buffers.
            && unsafe { at_once::add(window, origin.cast(), dense.ty, target as u32, disp as u64) } {
            return 0;
        }
    } else {
        let from = near(origin, origin_count, origin_type);
        // SAFETY: the program keeps MPI's rules for buffers.
        op(handle).and_then(|op| unsafe { accumulate(ours.window(), from, far(target, disp, count, ty), op) })
    }

    MPI_Get_accumulate PMPI_Get_accumulate MPI_Get_accumulate_c PMPI_Get_accumulate_c(N origin: *const c_void,
        origin_count: N, origin_type: MPI_Datatype, result: *mut c_void, result_count: N,
        result_type: MPI_Datatype, target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype, handle: MPI_Op,
        win: MPI_Win) of win as ours {
        let from = near(origin, origin_count, origin_type);
        let into = near(result, result_count, result_type);
        let (at, window) = (far(target, disp, count, ty), ours.window());
        // SAFETY: the program keeps MPI's rules for buffers.
        op(handle).and_then(|op| unsafe { get_accumulate(window, from, into, at, op) })
    }

    MPI_Rput PMPI_Rput MPI_Rput_c PMPI_Rput_c(N origin: *const c_void, origin_count: N, origin_type: MPI_Datatype,
        target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype, win: MPI_Win, request: *mut MPI_Request)
        of win as ours {
        let from = near(origin, origin_count, origin_type);
        let window = ours.window();
        // SAFETY: the program keeps MPI's rules for buffers.
        unsafe { with_request("MPI_Rput", win, request, || rput(window, from, far(target, disp, count, ty))) }
    }

    MPI_Rget PMPI_Rget MPI_Rget_c PMPI_Rget_c(N origin: *mut c_void, origin_count: N, origin_type: MPI_Datatype,
        target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype, win: MPI_Win, request: *mut MPI_Request)
        of win as ours {
        let to = near(origin, origin_count, origin_type);
        let window = ours.window();
        // SAFETY: the program keeps MPI's rules for buffers.
        unsafe { with_request("MPI_Rget", win, request, || rget(window, to, far(target, disp, count, ty))) }
    }

    MPI_Raccumulate PMPI_Raccumulate MPI_Raccumulate_c PMPI_Raccumulate_c(N origin: *const c_void,
        origin_count: N, origin_type: MPI_Datatype, target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype,
        handle: MPI_Op, win: MPI_Win, request: *mut MPI_Request) of win as ours {
        let from = near(origin, origin_count, origin_type);
        let (window, at) = (ours.window(), far(target, disp, count, ty));
        // SAFETY: the program keeps MPI's rules for buffers.
        op(handle).and_then(|op| unsafe {
            with_request("MPI_Raccumulate", win, request, || raccumulate(window, from, at, op))
        })
    }

    MPI_Rget_accumulate PMPI_Rget_accumulate MPI_Rget_accumulate_c PMPI_Rget_accumulate_c(N origin: *const c_void,
        origin_count: N, origin_type: MPI_Datatype, result: *mut c_void, result_count: N,
        result_type: MPI_Datatype, target: c_int, disp: MPI_Aint, count: N, ty: MPI_Datatype, handle: MPI_Op,
        win: MPI_Win, request: *mut MPI_Request) of win as ours {
        let from = near(origin, origin_count, origin_type);
        let into = near(result, result_count, result_type);
        let (window, at) = (ours.window(), far(target, disp, count, ty));
        // SAFETY: the program keeps MPI's rules for buffers.
        op(handle).and_then(|op| unsafe {
            with_request("MPI_Rget_accumulate", win, request, || rget_accumulate(window, from, into, at, op))
        })
    }
}

quick_on_windows! {
    fn MPI_Fetch_and_op PMPI_Fetch_and_op(origin: *const c_void, result: *mut c_void, ty: MPI_Datatype,
        target: c_int, disp: MPI_Aint, handle: MPI_Op, win: MPI_Win) of win as ours at_once window {
        if let Some((dense, op)) = types::quick(ty).zip(constants::quick_op(handle))
            && (is_address(origin) || op == Op::NoOp) && is_address(result) {
            let (origin, result) = (origin.cast(), result.cast());
            let (ty, target, disp) = (dense.ty, target as u32, disp as u64);
            // SAFETY: the program keeps MPI's rules for buffers.
            if unsafe { at_once::fetch_and_op(window, origin, result, ty, target, disp, op) } {
                return 0;
            }
        }
    } else {
        op(handle).and_then(|op| {
            if op != Op::NoOp {
                check_buffer(origin, "origin")?;
            }
            check_buffer(result, "result")?;
            let (ty, origin, result) = (single(ty)?, origin.cast(), result.cast());
            let (target, disp) = place(ours.window(), target, disp)?;
            // SAFETY: the program keeps MPI's rules for buffers.
            Ok(unsafe { ours.window().fetch_and_op(origin, result, ty, target, disp, op) }?)
        })
    }

    fn MPI_Compare_and_swap PMPI_Compare_and_swap(origin: *const c_void, compare: *const c_void,
        result: *mut c_void, ty: MPI_Datatype, target: c_int, disp: MPI_Aint, win: MPI_Win) of win as ours at_once window {
        if let Some(dense) = types::quick(ty)
            && is_address(origin) && is_address(compare) && is_address(result) {
            let (new, expect, old) = (origin.cast(), compare.cast(), result.cast());
            let (ty, target, disp) = (dense.ty, target as u32, disp as u64);
            // SAFETY: the program keeps MPI's rules for buffers.
            if unsafe { at_once::compare_and_swap(window, new, expect, old, ty, target, disp) } {
                return 0;
            }
        }
    } else {
        single(ty).and_then(|ty| {
            for (buffer, whose) in [(origin, "origin"), (compare, "compare"), (result.cast_const(), "result")] {
                check_buffer(buffer, whose)?;
            }
            let (new, expect, old) = (origin.cast(), compare.cast(), result.cast());
            let (target, disp) = place(ours.window(), target, disp)?;
            // SAFETY: the program keeps MPI's rules for buffers.
            Ok(unsafe { ours.window().compare_and_swap(new, expect, old, ty, target, disp) }?)
        })
    }
}
