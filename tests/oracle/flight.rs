//! An operation that was posted, and its buffers.

use std::mem;
use std::thread;
use std::time::Duration;

use transom::Op;
use transom::raw::{Committed, Layout as Placed, Request, Window};

use crate::access::{Access, Kind, Layout};
use crate::buffers::Buffer;
use crate::execute::Result;
use crate::sabotage::Sabotage;
use crate::shapes::Shape;

pub(crate) struct Flight<'a> {
    pub(crate) access: &'a Access,
    origin: Buffer,
    compare: Buffer,
    pub(crate) result: Buffer,
    pub(crate) request: Option<Request>,
    /// What the result was when the access was complete.
    fetched: Option<Vec<u8>>,
}

impl<'a> Flight<'a> {
    pub(crate) fn new(access: &'a Access) -> Self {
        let blank = |index| Access::blank(access.id, index);
        let blank: Vec<u8> = match access.fetches() {
            true => (0..access.back.len()).map(blank).collect(),
            false => Vec::new(),
        };
        let shift = access.id as usize;
        Self {
            access,
            origin: Buffer::new(&access.operands, shift),
            compare: Buffer::new(&access.compare, shift * 5),
            result: Buffer::new(&blank, shift * 3),
            request: None,
            fetched: None,
        }
    }

    /// What a load found.
    pub(crate) fn set_loaded(&mut self, bytes: &[u8]) {
        let loaded = Buffer::new(bytes, self.access.id as usize);
        mem::replace(&mut self.result, loaded).release();
    }

    pub(crate) fn post(
        &mut self,
        window: &Window,
        disp: u64,
        sabotage: Option<Sabotage>,
    ) -> transom::Result<()> {
        self.request = match (self.access.derived, self.access.notifies) {
            (true, _) => self.post_layouts(window, disp)?,
            (false, Some(counter)) => {
                self.notify(window, disp, counter, sabotage)?;
                None
            }
            (false, None) => self.post_dense(window, disp)?,
        };
        Ok(())
    }

    /// Null where nothing is read.
    fn origin(&mut self) -> *const u8 {
        match self.access.op {
            Op::NoOp if self.access.id.is_multiple_of(2) => std::ptr::null(),
            _ => self.origin.pointer(),
        }
    }

    fn notify(
        &mut self,
        window: &Window,
        disp: u64,
        counter: u32,
        sabotage: Option<Sabotage>,
    ) -> transom::Result<()> {
        let Access { target, .. } = *self.access;
        let (origin, len) = (self.origin(), self.access.count());
        // SAFETY: the buffer has `len` bytes, is kept until the epoch is over, and is touched only
        // after the operation's completion.
        unsafe {
            match sabotage {
                Some(Sabotage::EarlyNotification) if len > 0 => {
                    window.put_notify(origin, 0, target, disp, counter)?;
                    thread::sleep(Duration::from_millis(2));
                    window.put(origin, len, target, disp)
                }
                Some(Sabotage::LostNotification) => window.put(origin, len, target, disp),
                // For the others it would tell of data too early.
                Some(Sabotage::SecondNotification) if !counter.is_multiple_of(2) => {
                    window.put_notify(origin, len, target, disp, counter)?;
                    window.put_notify(origin, 0, target, disp, counter)
                }
                _ => window.put_notify(origin, len, target, disp, counter),
            }
        }
    }

    fn post_dense(&mut self, window: &Window, disp: u64) -> transom::Result<Option<Request>> {
        let Access {
            request,
            target,
            ty,
            op,
            ..
        } = *self.access;
        let count = self.access.count();
        let origin = self.origin();
        let (compare, result) = (self.compare.pointer(), self.result.pointer());
        // SAFETY: the buffers have `count` elements, are kept until the epoch is over, and are
        // touched only after the operation's completion.
        unsafe {
            match (self.access.kind, request) {
                (Kind::Put | Kind::Store, false) => window.put(origin, count, target, disp),
                (Kind::Get | Kind::Load, false) => window.get(result, count, target, disp),
                (Kind::Accumulate, false) => window.accumulate(origin, count, ty, target, disp, op),
                (Kind::GetAccumulate, false) => {
                    window.get_accumulate(origin, result, count, ty, target, disp, op)
                }
                (Kind::FetchAndOp, _) => window.fetch_and_op(origin, result, ty, target, disp, op),
                (Kind::CompareAndSwap, _) => {
                    window.compare_and_swap(origin, compare, result, ty, target, disp)
                }
                (kind, true) => {
                    let request = match kind {
                        Kind::Put => window.rput(origin, count, target, disp),
                        Kind::Get => window.rget(result, count, target, disp),
                        Kind::Accumulate => window.raccumulate(origin, count, ty, target, disp, op),
                        Kind::GetAccumulate => {
                            window.rget_accumulate(origin, result, count, ty, target, disp, op)
                        }
                        _ => unreachable!("{kind:?} with a request"),
                    };
                    return request.map(Some);
                }
            }
        }?;
        Ok(None)
    }

    fn post_layouts(&mut self, window: &Window, disp: u64) -> transom::Result<Option<Request>> {
        let Access {
            id,
            request,
            target,
            op,
            ..
        } = *self.access;
        let far = Typed::new(&self.access.far)?;
        let back = Typed::new(&self.access.back)?;
        let result = self.result.placed(&self.access.back);
        let mut origin = self.origin.placed(&self.access.near).cast_const();
        // Where there are no operands, their layout does not matter either; and some are at absolute
        // addresses.
        let near = match op {
            Op::NoOp if id.is_multiple_of(2) => {
                origin = std::ptr::null();
                Typed::new(&Layout::dense(transom::BasicType::I16, 3))?
            }
            _ if id.is_multiple_of(5) => {
                let there = origin.addr() as i64;
                origin = std::ptr::null();
                Typed::absolute(&self.access.near, there)?
            }
            _ => Typed::new(&self.access.near)?,
        };
        let (near, back, far) = (near.placed(), back.placed(), far.placed());
        // SAFETY: the buffers have all bytes of their layouts, are kept until the epoch is over, and
        // are touched only after the operation's completion.
        unsafe {
            match (self.access.kind, request) {
                (Kind::Put, false) => window.put_layout(origin, near, target, disp, far),
                (Kind::Get, false) => window.get_layout(result, back, target, disp, far),
                (Kind::Accumulate, false) => {
                    window.accumulate_layout(origin, near, target, disp, far, op)
                }
                (Kind::GetAccumulate, false) => {
                    window.get_accumulate_layout(origin, near, result, back, target, disp, far, op)
                }
                (kind, true) => {
                    let request = match kind {
                        Kind::Put => window.rput_layout(origin, near, target, disp, far),
                        Kind::Get => window.rget_layout(result, back, target, disp, far),
                        Kind::Accumulate => {
                            window.raccumulate_layout(origin, near, target, disp, far, op)
                        }
                        Kind::GetAccumulate => window.rget_accumulate_layout(
                            origin, near, result, back, target, disp, far, op,
                        ),
                        _ => unreachable!("{kind:?} with a request and layouts"),
                    };
                    return request.map(Some);
                }
                (kind, false) => unreachable!("{kind:?} with layouts"),
            }
        }?;
        Ok(None)
    }

    /// To be called when the buffers are this rank's again: takes the result, and spoils what must
    /// not be read any more.
    pub(crate) fn complete(&mut self) {
        if self.fetched.is_none() {
            self.fetched = Some(self.result.content().to_vec());
            self.origin.scribble();
            self.compare.scribble();
        }
    }

    /// What was fetched, after the epoch. Nobody may have touched the buffers since.
    pub(crate) fn inspect(self) -> Result<Option<Vec<u8>>> {
        let buffers = [&self.origin, &self.compare, &self.result];
        if !buffers.iter().all(|buffer| buffer.is_guarded()) {
            return Err(format!(
                "bytes beside a buffer of {} were written to",
                self.access
            ));
        }
        let spoilt = |buffer: &Buffer| buffer.content().iter().all(|byte| *byte == 0x5a);
        if !spoilt(&self.origin) || !spoilt(&self.compare) {
            return Err(format!(
                "an origin buffer of {} was written to",
                self.access
            ));
        }
        let fetched = self.fetched.unwrap_or_default();
        if fetched != self.result.content() {
            return Err(format!(
                "the result of {} changed after its completion",
                self.access
            ));
        }
        for buffer in [self.origin, self.compare, self.result] {
            buffer.release();
        }
        Ok(self.access.fetches().then_some(fetched))
    }
}

/// A layout as the library takes it. It goes as soon as its operation was called.
struct Typed {
    ty: Committed,
    count: u64,
}

impl Typed {
    fn new(layout: &Layout) -> transom::Result<Self> {
        Ok(Self {
            ty: layout.shape.commit()?,
            count: layout.count,
        })
    }

    /// With the displacement `there` in it.
    fn absolute(layout: &Layout, there: i64) -> transom::Result<Self> {
        let all = Shape::Contiguous(layout.count as i64, layout.shape.clone().boxed());
        let shape = Shape::Struct(vec![(1, there, all)]);
        Ok(Self {
            ty: shape.commit()?,
            count: 1,
        })
    }

    fn placed(&self) -> Placed<'_> {
        self.ty.times(self.count)
    }
}
