//! The raw operations on slices and values, blocking where that is simplest to check.

use transom::raw::Window;
use transom::{Accumulate, Op, Result};

/// From a copy that is kept for ever, so that cases may hand in what they like.
pub(crate) fn put(window: &Window, bytes: &[u8], target: u32, disp: u64) -> Result<()> {
    put_from(window, kept(bytes), target, disp)
}

/// From where the bytes are, for cases that are about origin buffers.
pub(crate) fn put_from(window: &Window, bytes: &[u8], target: u32, disp: u64) -> Result<()> {
    // SAFETY: every case that calls this completes the operation before its buffers go.
    unsafe { window.put(bytes.as_ptr(), bytes.len(), target, disp) }
}

fn kept(bytes: &[u8]) -> &'static [u8] {
    Vec::leak(bytes.to_vec())
}

pub(crate) fn get(window: &Window, bytes: &mut [u8], target: u32, disp: u64) -> Result<()> {
    // SAFETY: every case completes the operation before its buffers go.
    unsafe { window.get(bytes.as_mut_ptr(), bytes.len(), target, disp) }
}

/// The old value, which is there after the flush.
pub(crate) fn fetch_and_op<T: Accumulate>(
    window: &Window,
    value: T,
    target: u32,
    disp: u64,
    op: Op,
) -> Result<T> {
    let mut old = T::zeroed();
    // SAFETY: both are locals; the flush completes the operation.
    unsafe {
        let (from, to) = ((&raw const value).cast(), (&raw mut old).cast());
        window.fetch_and_op(from, to, T::TYPE, target, disp, op)?;
    }
    window.flush(target)?;
    Ok(old)
}

/// Adds to an element by one kind of single atomic or another, as `way` says. `next` is what swaps make of it.
pub(crate) fn add_one<T: Accumulate + PartialEq>(
    window: &Window,
    way: u64,
    target: u32,
    disp: u64,
    one: T,
    next: impl Fn(T) -> T,
) -> Result<()> {
    match way % 3 {
        0 => fetch_and_op(window, one, target, disp, Op::Sum).map(drop),
        1 => accumulate(window, &[one], target, disp, Op::Sum),
        _ => replace_by_swaps(window, target, disp, next),
    }
}

/// Replaces an element by what `next` makes of it, by swaps until one succeeds.
pub(crate) fn replace_by_swaps<T: Accumulate + PartialEq>(
    window: &Window,
    target: u32,
    disp: u64,
    next: impl Fn(T) -> T,
) -> Result<()> {
    let mut seen = fetch_and_op(window, T::zeroed(), target, disp, Op::NoOp)?;
    loop {
        let old = compare_and_swap(window, seen, next(seen), target, disp)?;
        if old == seen {
            return Ok(());
        }
        seen = old;
    }
}

pub(crate) fn compare_and_swap<T: Accumulate>(
    window: &Window,
    expect: T,
    new: T,
    target: u32,
    disp: u64,
) -> Result<T> {
    let mut old = T::zeroed();
    // SAFETY: all three are locals; the flush completes the operation.
    unsafe {
        let (new, expect) = ((&raw const new).cast(), (&raw const expect).cast());
        window.compare_and_swap(new, expect, (&raw mut old).cast(), T::TYPE, target, disp)?;
    }
    window.flush(target)?;
    Ok(old)
}

pub(crate) fn accumulate<T: Accumulate>(
    window: &Window,
    values: &[T],
    target: u32,
    disp: u64,
    op: Op,
) -> Result<()> {
    let from = kept(bytemuck::cast_slice(values)).as_ptr();
    // SAFETY: the copy is kept.
    unsafe { window.accumulate(from, values.len(), T::TYPE, target, disp, op) }
}
