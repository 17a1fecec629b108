//! What the device reports by itself: ports that go down, devices that go away.

use std::collections::HashMap;
use std::ffi::CStr;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;

use super::objects::Context;

/// The longest delay of an event after the end of the work that it explains.
const LONGEST_DELAY: Duration = Duration::from_millis(100);
/// The interval of checks whether another thread has taken the event.
const POLL_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// A fault of this process's own queue pair, or of its port or device, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Pair(Arc<str>),
    Port(Arc<str>),
}

impl Fault {
    pub(super) fn words(&self) -> Arc<str> {
        let (Self::Pair(words) | Self::Port(words)) = self;
        words.clone()
    }
}

/// The faults of this process's own port and queue pairs that the device has reported.
#[derive(Default)]
pub(super) struct Trouble {
    said: Mutex<Said>,
    fatal: AtomicBool,
    /// Whether events can be taken without blocking.
    is_heard: AtomicBool,
}

#[derive(Default)]
struct Said {
    port: Option<Arc<str>>,
    /// The time at which the port went down, if it is down.
    down: Option<Instant>,
    /// By queue pair number.
    pairs: HashMap<u32, Arc<str>>,
}

impl Trouble {
    /// The fault of a queue pair, otherwise that of the port.
    pub(super) fn of(&self, pair: u32) -> Option<Fault> {
        let said = self.said();
        let of_pair = said.pairs.get(&pair).cloned().map(Fault::Pair);
        of_pair.or_else(|| said.port.clone().map(Fault::Port))
    }

    /// Drops the fault of a queue pair that is gone: a new one may have its number.
    pub(super) fn forget(&self, pair: u32) {
        self.said().pairs.remove(&pair);
    }

    /// Whether the device is gone; it will never report what was posted to it.
    #[inline]
    pub(super) fn is_fatal(&self) -> bool {
        self.fatal.load(Ordering::Acquire)
    }

    /// The time at which the port went down, if it is down.
    pub(super) fn down_since(&self) -> Option<Instant> {
        self.said().down
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the fault that an event reports. `ours` is the port in use.
    fn note(&self, device: &str, ours: u8, event: &ffi::ibv_async_event) {
        // SAFETY: the library has a constant string for every number.
        let words = unsafe { CStr::from_ptr(ffi::ibv_event_type_str(event.event_type)) };
        let words = words.to_string_lossy();
        match event.event_type {
            ffi::IBV_EVENT_PORT_ERR | ffi::IBV_EVENT_PORT_ACTIVE => {
                // SAFETY: events of ports carry the port's number.
                let port = unsafe { event.element.port_num };
                let down = event.event_type == ffi::IBV_EVENT_PORT_ERR;
                if port == i32::from(ours) {
                    let mut said = self.said();
                    said.port = down.then(|| port_is_down(ours, device).into());
                    said.down = down.then(|| said.down.unwrap_or_else(Instant::now));
                }
                tracing::warn!(device, port, event = %words, "RDMA port");
            }
            ffi::IBV_EVENT_DEVICE_FATAL => {
                self.said().port = Some(device_is_gone(device).into());
                self.fatal.store(true, Ordering::Release);
                tracing::error!(device, event = %words, "RDMA device");
            }
            ffi::IBV_EVENT_QP_FATAL | ffi::IBV_EVENT_QP_REQ_ERR | ffi::IBV_EVENT_QP_ACCESS_ERR => {
                // SAFETY: events of queue pairs carry the queue pair, which is not destroyed before
                // they are acknowledged.
                let pair = unsafe { (*event.element.qp).qp_num };
                let cause = match event.event_type {
                    ffi::IBV_EVENT_QP_ACCESS_ERR => {
                        "the peer asked for memory of this process that it may not use"
                    }
                    ffi::IBV_EVENT_QP_REQ_ERR => "the peer sent a request that makes no sense here",
                    _ => "the device failed while it served the connection",
                };
                self.said().pairs.insert(pair, cause.into());
                tracing::warn!(device, pair, event = %words, "RDMA connection");
            }
            _ => tracing::debug!(device, event = %words, "RDMA device"),
        }
    }
}

pub(super) fn port_is_down(port: u8, device: &str) -> String {
    format!("port {port} of {device} is down here")
}

pub(super) fn device_is_gone(device: &str) -> String {
    format!("RDMA device {device} is gone or has failed here")
}

/// A descriptor for a thread to watch. `ready` is called when it is readable or broken; `Break` ends the watch.
pub(super) struct EventSource {
    context: Arc<Context>,
    pub(super) ready: Box<dyn FnMut() -> ControlFlow<()> + Send>,
}

impl EventSource {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.context.async_fd()
    }
}

/// Makes the agent take and log the device's events, which are kept for error messages. `port` is the one in use.
pub(super) fn watch(trouble: &Arc<Trouble>, context: &Arc<Context>, port: u8) -> EventSource {
    // If this is refused, the calls below could block: then no events are taken.
    let quiet = ioctl_fionbio(context.async_fd(), true).is_ok();
    trouble.is_heard.store(quiet, Ordering::Relaxed);
    let (trouble, context) = (trouble.clone(), context.clone());
    EventSource {
        context: context.clone(),
        ready: Box::new(move || match quiet && take(&trouble, &context, port) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }),
    }
}

/// Takes one event. False if there will be no more.
fn take(trouble: &Trouble, context: &Context, port: u8) -> bool {
    let mut event = ffi::ibv_async_event {
        element: ffi::ibv_async_event__bindgen_ty_1 { port_num: 0 },
        event_type: 0,
    };
    // SAFETY: an open context and a place for the answer; the descriptor does not block.
    if unsafe { ffi::ibv_get_async_event(context.raw(), &mut event) } != 0 {
        let error = std::io::Error::last_os_error();
        return error.kind() == std::io::ErrorKind::WouldBlock;
    }
    trouble.note(context.name(), port, &event);
    // SAFETY: the event that was just taken; nothing refers to the objects that it names.
    unsafe { ffi::ibv_ack_async_event(&mut event) };
    event.event_type != ffi::IBV_EVENT_DEVICE_FATAL
}

/// Takes the available events, and waits briefly for one about this queue pair or the port, which may explain the end
/// of the pair's work.
#[cold]
pub(super) fn hear_of(trouble: &Trouble, context: &Context, port: u8, pair: u32) {
    if !trouble.is_heard.load(Ordering::Relaxed) {
        return;
    }
    let end = Instant::now() + LONGEST_DELAY;
    while trouble.of(pair).is_none() && Instant::now() < end {
        let mut watched = [PollFd::from_borrowed_fd(context.async_fd(), PollFlags::IN)];
        let found = poll(&mut watched, Some(&POLL_EVERY));
        if found.is_ok_and(|found| found > 0) && !take(trouble, context, port) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_and_a_port_have_troubles_of_their_own() {
        let trouble = Trouble::default();
        let mut pair = ffi::ibv_qp {
            qp_num: 7,
            // SAFETY: numbers and pointers, of which no event's receiver reads another.
            ..unsafe { std::mem::zeroed() }
        };
        trouble.note(
            "rxe0",
            1,
            &ffi::ibv_async_event {
                element: ffi::ibv_async_event__bindgen_ty_1 { qp: &mut pair },
                event_type: ffi::IBV_EVENT_QP_ACCESS_ERR,
            },
        );
        let words = |pair| match trouble.of(pair) {
            Some(fault) => fault.words().to_string(),
            None => String::new(),
        };
        assert!(words(7).contains("may not use"), "{}", words(7));
        assert_eq!(words(8), "");
        let of_segment = |event_type| ffi::ibv_async_event {
            element: ffi::ibv_async_event__bindgen_ty_1 { port_num: 1 },
            event_type,
        };
        assert!(trouble.down_since().is_none());
        trouble.note("rxe0", 1, &of_segment(ffi::IBV_EVENT_PORT_ERR));
        assert!(words(7).contains("may not use"), "{}", words(7));
        assert_eq!(words(8), "port 1 of rxe0 is down here");
        assert!(trouble.down_since().is_some());
        trouble.note("rxe0", 2, &of_segment(ffi::IBV_EVENT_PORT_ACTIVE));
        assert!(trouble.down_since().is_some(), "another port");
        trouble.forget(7);
        assert_eq!(words(7), words(8));
        assert!(matches!(trouble.of(7), Some(Fault::Port(_))));
        trouble.note("rxe0", 1, &of_segment(ffi::IBV_EVENT_PORT_ACTIVE));
        assert_eq!((words(8), trouble.down_since()), (String::new(), None));
        assert!(!trouble.is_fatal());
    }
}
