//! The typed interface over [`raw`](crate::raw): the compiler checks whatever it can.
//!
//! # Why this is sound
//!
//! **Buffers in flight.** An operation may use its buffer until it is complete, at the latest when its epoch
//! closes. A program could forget a guard (`mem::forget`) and free its buffer, so an epoch is a closure.
//! Buffers are lent for `'op`, a lifetime that the closure cannot name. `'op` contains the whole epoch, so
//! nothing that is made inside the closure lives long enough. (An operation that is complete when it returns
//! borrows its buffer only for the call, and extends this to `'op` only internally.)
//!
//! Locks and requests may be forgotten: when the closure ends, [`Window`]'s own code completes every
//! operation and releases every lock, and only then returns. A [batch](Batch) is such a closure inside an
//! epoch or a session, and its end completes its operations. A session's other operations are complete when
//! they return.
//!
//! A panic also waits for the device. If the body panics or the close fails, this code tells the other ranks,
//! and waits until the device no longer uses any buffer. If the device does not report this, the code kills
//! the process.
//!
//! **Registered buffers.** The device finds a registration by addresses, so it must not outlive its buffer.
//! A [`Registered`] owns its buffer, and [`Job::while_registered`](crate::Job::while_registered) has a
//! closure: neither can be forgotten without the buffer.
//!
//! **Own memory.** Other ranks access this rank's memory only from within an epoch's body. A body runs on any
//! rank only after every rank has entered the barrier that opens the epoch. No rank passes the barrier that
//! closes it before every body has returned and its operations are complete. The barriers also distinguish
//! fence epochs, passive epochs and `free`, so that all ranks are in the same kind.
//!
//! Hence between a rank's epochs nobody writes to its memory: `local` and `local_mut` borrow the window, as
//! epochs do, so they cannot be called inside one. If a rank fails in either barrier, it cannot know this, so
//! its window is poisoned: both calls fail for ever.
//!
//! In an epoch of loads, no rank writes: the epoch has no operations, and `local_mut` cannot be called. So
//! each rank can have slices of all parts for as long as the body runs. If a rank fails in the closing
//! barrier, it does not know whether others still read its part, so its window is poisoned.
//!
//! An exchange needs no barrier. Only a rank's origins access its part, and only after the rank has posted.
//! The rank waits for their flags, which follow their operations, so they access it only before its epoch
//! closes. If a rank fails before that, its window is poisoned too. No exchange overlaps with another kind of
//! epoch, since all ranks enter that epoch's first barrier after their last exchange.
//!
//! In a passive epoch, all ranks access a target only under its lock, and `NO_CHECK` is never asserted. So a
//! rank with an exclusive lock of its own part may use [`Lock::local_mut`]. This borrows the lock, and the
//! rank cannot name itself as a target without the lock.
//!
//! A session begins with the barrier of [`Window::open`]. It ends with the next call that synchronises all
//! ranks: [`Window::close`], a fence or passive epoch, or `free`. Each rank ends its `lock_all` before it
//! enters that barrier. From `open` until the barrier is complete, `local` and `local_mut` are refused, and
//! so are exchanges, which synchronise only some ranks. So a session may be forgotten, or closed merely by
//! the end of its borrow. Its `lock_all` takes no locks, because lock epochs, which could conflict, begin
//! only after such a barrier.
//!
//! A put from this rank's own part ([`Target::put_own`]) reads memory to which no reference exists: such puts
//! are completed before `local_mut` lends the memory, and refused from then until the unlock.
//! [`Epoch::read_own`], which copies the memory as a get does, without a lock, is refused in the same way.
//! [`Window::read_own`] copies it too, but needs no refusal: an epoch, which alone lends such a slice, borrows
//! the window uniquely. That others may write meanwhile, for example after this rank's epoch has failed, only
//! makes the elements unspecified.
//!
//! **Values.** An [`Element`](crate::Element) has no padding and no invalid values, so a data race between
//! ranks only results in unspecified elements. The compiler does not see the copies to and from window
//! memory.
//!
//! **Lifetime of the memory.** A window's memory is the library's own, even if a vector was copied into it.
//! Only [`Window::free`] and [`Window::into_vec`] free it, after all ranks have called them. A window that is
//! dropped leaks it.
//!
//! **The communicator and the job.** A window has a handle to its communicator, and so to the device and its
//! connections, for as long as it exists. Soundness does not depend on the lifetime that [`Window`] names;
//! with it, the compiler only ensures that the program does not leave the job earlier. An [`OwnedWindow`]
//! names none: after the program has left the job, its collective calls are refused, and its memory is
//! leaked, as with every window that is dropped.
//!
//! **Forks.** A forked child shares the memory of windows with its parent, and with the ranks that write
//! there, so every call that would access it fails in the child.

mod batch;
mod buffer;
mod epoch;
mod lock;
mod own;
mod registered;
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
pub use registered::Registered;
pub(crate) use registered::{while_registered, while_registered_mut};
pub use request::Request;
pub use session::Session;
pub use strided::{Block2d, Region, Strided};
pub use target::Target;
pub use window::{OwnedWindow, Window};
