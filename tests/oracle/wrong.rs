//! Making the calls that break a rule.

use transom::raw::{Assert, Window};
use transom::{BasicType, ErrorClass, Op};

use crate::buffers::Buffer;
use crate::exposed::Exposed;
use crate::program::{Fault, Wrong};
use crate::shapes::Shape;

/// Bytes that a wrong operation would move.
pub(crate) const MOVED: usize = 32;

/// The class of the error that it ends in.
pub(crate) fn attempt(exposed: &Exposed<'_>, wrong: &Wrong) -> std::result::Result<(), ErrorClass> {
    let Wrong { fault, target, .. } = *wrong;
    let (window, first) = (&exposed.window, exposed.disp(target, 0));
    // Bytes that would show: no part of a program puts them anywhere.
    let mut buffer = Buffer::new(&[0xee; MOVED], 0);
    let mut result = Buffer::new(&[0xee; MOVED], 0);
    let (origin, fetched) = (buffer.pointer(), result.pointer());
    let int = BasicType::I32;
    let nobody = window.ranks() + target;
    // By as little as the displacement unit allows; 2^63 units also overflow.
    let past = |which: u8| match target % 4 {
        3 => 1 << 63,
        _ => exposed.past(target, if which < 2 { MOVED } else { size_of::<i32>() }),
    };
    // SAFETY: the buffers are longer than what is asked for; where a pointer is null or a count is
    // too large, the call must refuse it.
    let operation = |which: u8, target, disp, origin: *mut u8, fetched| unsafe {
        match which {
            0 => window.put(origin, MOVED, target, disp),
            1 => window.get(origin, MOVED, target, disp),
            2 => window.accumulate(origin, 1, int, target, disp, Op::Sum),
            3 => window.get_accumulate(origin, fetched, 1, int, target, disp, Op::Max),
            4 => window.fetch_and_op(origin, fetched, int, target, disp, Op::Sum),
            _ => window.compare_and_swap(origin, origin, fetched, int, target, disp),
        }
    };
    let none = |window: &Window| window.group().include(&[]);
    let outcome = match fault {
        Fault::NoRank(which) => operation(which, nobody, first, origin, fetched),
        Fault::PastEnd(which) => operation(which, target, past(which), origin, fetched),
        Fault::Closed(which) => operation(which, target, first, origin, fetched),
        Fault::NullBuffer(which) => operation(which, target, first, std::ptr::null_mut(), fetched),
        // SAFETY: as above.
        Fault::NoOperation(op, ty) => unsafe {
            window.accumulate(origin, 1, ty, target, first, op)
        },
        // SAFETY: as above.
        Fault::NoSwap(ty) => unsafe {
            window.compare_and_swap(origin, origin, fetched, ty, target, first)
        },
        // SAFETY: as above.
        Fault::TooMany => unsafe {
            window.accumulate(origin, usize::MAX, int, target, first, Op::Sum)
        },
        // SAFETY: as above.
        Fault::Signatures | Fault::Mixed | Fault::LayoutOutside { .. } => {
            // SAFETY: as above.
            unsafe { layouts(exposed, fault, target, origin) }
        }
        // SAFETY: as above.
        Fault::NotifyCounter(counter) => unsafe {
            window.put_notify(origin, 0, target, first, counter)
        },
        Fault::AwaitCounter(counter) => window.wait_notify(counter, 0),
        // SAFETY: the memory of this window, or memory that is gone only if this succeeds.
        Fault::AttachAgain => unsafe { window.attach(exposed.last(), 1) },
        Fault::Detach => window.detach(buffer.content().as_ptr()),
        Fault::Query => window.shared_query(Some(nobody)).map(drop),
        // SAFETY: as above.
        Fault::Request => unsafe { window.rput(origin, MOVED, target, first).map(drop) },
        Fault::Fence => window.fence(Assert::NONE),
        Fault::Lock(kind) => window.lock(kind, target, Assert::NONE),
        Fault::LockAll => window.lock_all(Assert::NONE),
        Fault::Unlock => window.unlock(target),
        Fault::UnlockAll => window.unlock_all(),
        Fault::Flush => window.flush(target),
        Fault::FlushAll => window.flush_all(),
        Fault::FlushLocal => window.flush_local(target),
        Fault::Start => none(window).and_then(|group| window.start(&group, Assert::NONE)),
        Fault::Complete => window.complete(),
        Fault::Post => none(window).and_then(|group| window.post(&group, Assert::NONE)),
        Fault::Wait => window.wait(),
        Fault::Test => window.test().map(drop),
    };
    outcome.map_err(|error| error.class())
}

/// Operations with layouts that do not fit.
///
/// # Safety
/// `origin` is valid for [`MOVED`] bytes.
unsafe fn layouts(
    exposed: &Exposed<'_>,
    fault: Fault,
    target: u32,
    origin: *mut u8,
) -> transom::Result<()> {
    let (window, first) = (&exposed.window, exposed.disp(target, 0));
    let (int, float) = (Shape::Basic(BasicType::I32), Shape::Basic(BasicType::F32));
    let ints = int.commit()?;
    match fault {
        Fault::Signatures => {
            let floats = float.commit()?;
            let (near, far) = (ints.times(4), floats.times(4));
            // SAFETY: the caller's promise.
            unsafe { window.put_layout(origin, near, target, first, far) }
        }
        Fault::Mixed => {
            let mixed = Shape::Struct(vec![(1, 0, int), (1, 4, float)]).commit()?;
            let both = mixed.times(1);
            // SAFETY: the caller's promise.
            unsafe { window.accumulate_layout(origin, both, target, first, both, Op::Replace) }
        }
        Fault::LayoutOutside { below } => {
            // From the first or last byte of the target's memory on, one of two is inside.
            let blocks = if below { vec![0, -1] } else { vec![0, 1] };
            let (at, unit) = match below {
                true => (first, 1),
                false => (exposed.past(target, 1) - 1, exposed.unit(target) as i64),
            };
            let pair = Shape::IndexedBlock {
                len: 1,
                at: blocks.iter().map(|block| block * unit).collect(),
                bytes: true,
                of: Shape::Basic(BasicType::Byte).boxed(),
            };
            let (bytes, pair) = (Shape::Basic(BasicType::Byte).commit()?, pair.commit()?);
            // SAFETY: the caller's promise.
            unsafe { window.get_layout(origin, bytes.times(2), target, at, pair.times(1)) }
        }
        _ => unreachable!("{fault:?} has no layouts"),
    }
}
