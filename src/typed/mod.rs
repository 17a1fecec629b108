//! The typed interface over [`raw`](crate::raw): what the compiler can check, it does.
//!
//! # Why this is sound
//!
//! **Buffers in flight.** An operation may use its buffer until it is complete, at the latest when
//! its epoch closes. A guard could be forgotten and its buffer freed, so an epoch is a closure:
//! buffers are lent for `'op`, a lifetime that the closure cannot name, that contains the whole
//! epoch and that nothing made inside the closure can reach. (An operation that is complete when it
//! returns borrows its buffer for the call, and lends it for `'op` to itself only.)
//!
//! Locks and requests can be forgotten at will: whoever leaves the closure passes [`Window`]'s own code, which
//! completes every operation, gives every lock back, and only then returns. A [batch](Batch) is such a closure inside
//! of an epoch or a session, and its end completes what it began; a session's other operations are complete when they
//! return.
//!
//! A panic on the way waits for the device, too. If the body panics or the close fails, this code tells
//! the other ranks, waits until the device has done with every buffer, and kills the process if
//! the device does not say so.
//!
//! **Own memory.** Other ranks touch this rank's memory only from within an epoch's body. A body
//! runs on some rank only after every rank has come to the barrier that opens the epoch, and no
//! rank passes the barrier that closes it before every body has returned and its operations are
//! complete. The barriers also tell epochs of fences, passive epochs and `free` apart, so that all
//! ranks are in the same.
//!
//! Hence between a rank's epochs nobody writes to its memory: `local` and
//! `local_mut` borrow the window, as epochs do, and cannot be had inside one. A rank that fails to
//! get through either barrier does not know that, so its window is poisoned: both fail for ever.
//!
//! In an epoch of loads, no rank writes: it has no operations, and `local_mut` cannot be had. So each rank has slices of
//! all parts there, which last as long as the body. A rank that fails to get through the closing barrier
//! does not know whether others still read its part, and is poisoned.
//!
//! In an exchange no barrier is needed: a rank's part is accessed by its origins only, after it has
//! posted and, since it waits for their flags behind their operations, before its epoch closes; a
//! rank that fails to get that far is poisoned too. No exchange overlaps with another kind of
//! epoch, since all ranks come to that one's first barrier after their last exchange.
//!
//! In a passive epoch, all accesses of all ranks are made under a lock of their target, never
//! asserted away, so an exclusive lock of its own part gives a rank [`Lock::local_mut`]; it borrows
//! the lock, without which this rank cannot name that target.
//!
//! In a session, the barrier is the one of [`Window::open`], and its other end is the next call that brings all
//! ranks together: [`Window::close`], an epoch of all, or `free`. Each rank ends its `lock_all` before it comes there,
//! and from `open` until it is through, `local` and `local_mut` are refused, and so are exchanges, which bring only some
//! ranks together. So a session may be forgotten, and closed by its borrow's end alone. Its `lock_all` takes no locks:
//! epochs of locks, in which a lock could conflict, begin behind such a barrier only.
//!
//! A put from the own part ([`Target::put_own`]) reads memory of which there is no reference: before
//! `local_mut` lends it, such puts are completed, and from then until the unlock they are refused. So is
//! [`Epoch::read_own`], which copies it as a get does, without a lock.
//!
//! **Values.** An [`Element`](crate::Element) has no padding and no invalid values, so bytes that
//! ranks race on are unspecified elements, and nothing worse. Copies to and from window memory are
//! none that the compiler sees.
//!
//! **Lifetime of the memory.** A window's memory is the library's own, also where a vector was copied
//! there. Only [`Window::free`] and [`Window::into_vec`] free it, after all ranks have come there; a window
//! that is dropped leaks it.
//!
//! **The communicator and the job.** A window has a handle to its communicator, and so to the device and its
//! connections, for as long as it lives; nothing rests on the lifetime that [`Window`] names, by which the
//! compiler sees to it that the job is not left before. An [`OwnedWindow`] names none: after the job was left, its
//! collective calls are refused, and its memory is leaked as that of every window that is dropped.
//!
//! **Forks.** A child shares the memory of windows with its parent, and with the ranks that write there, so
//! every call that leads to it fails there.

mod batch;
mod buffer;
mod epoch;
mod lock;
mod own;
mod request;
mod session;
mod single;
mod strided;
mod target;
mod window;

pub use batch::{AllTargets, Batch};
pub use buffer::Buffer;
pub use epoch::{Active, Epoch, Exchange, Loads, Passive};
pub use lock::{Lock, LockAll, LockedTarget};
pub use request::Request;
pub use session::Session;
pub use strided::{Block2d, Region, Strided};
pub use target::Target;
pub use window::{OwnedWindow, Window};
