//! What the device announces by itself: ports that go down, devices that go away.

use std::ffi::CStr;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibverbs_sys as ffi;

use super::adapter::Adapter;
use super::connect::Watch;
use super::objects::Context;

/// What is wrong with this process's own port, as far as the device has said.
#[derive(Default)]
pub(super) struct Trouble {
    words: Mutex<Option<Arc<str>>>,
    fatal: AtomicBool,
}

impl Trouble {
    pub(super) fn get(&self) -> Option<Arc<str>> {
        self.words().clone()
    }

    /// Whether the device is gone: what was posted to it will never be reported.
    #[inline]
    pub(super) fn is_fatal(&self) -> bool {
        self.fatal.load(Ordering::Acquire)
    }

    fn set(&self, words: Option<String>) {
        *self.words() = words.map(Into::into);
    }

    fn words(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn port_is_down(port: u8, device: &str) -> String {
    format!("port {port} of {device} is down here")
}

pub(super) fn device_is_gone(device: &str) -> String {
    format!("RDMA device {device} is gone or has failed here")
}

/// Has the events of the adapter's device taken, logged, and kept for error messages.
pub(super) fn watch(adapter: &Arc<Adapter>) -> Watch {
    let fd = adapter.context.async_fd();
    // SAFETY: the context's own descriptor, which lives as long as the adapter. Where this is
    // refused, the calls below could block: the events are then left alone.
    let quiet = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    let adapter = adapter.clone();
    Watch {
        fd: fd.as_raw_fd(),
        ready: Box::new(move || match quiet && take(&adapter) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }),
    }
}

/// False if there will be no more events.
fn take(adapter: &Adapter) -> bool {
    let context = &adapter.context;
    let mut event = ffi::ibv_async_event {
        element: ffi::ibv_async_event__bindgen_ty_1 { port_num: 0 },
        event_type: 0,
    };
    // SAFETY: an open context and a place for the answer; the descriptor does not block.
    if unsafe { ffi::ibv_get_async_event(context.raw(), &mut event) } != 0 {
        let error = std::io::Error::last_os_error();
        return error.kind() == std::io::ErrorKind::WouldBlock;
    }
    note(adapter, context, &event);
    // SAFETY: the event that was just taken; nothing refers to what it names.
    unsafe { ffi::ibv_ack_async_event(&mut event) };
    event.event_type != ffi::IBV_EVENT_DEVICE_FATAL
}

fn note(adapter: &Adapter, context: &Context, event: &ffi::ibv_async_event) {
    // SAFETY: the library has a constant string for every number.
    let words = unsafe { CStr::from_ptr(ffi::ibv_event_type_str(event.event_type)) };
    let (words, device) = (words.to_string_lossy(), context.name());
    let ours = adapter.port.number;
    match event.event_type {
        ffi::IBV_EVENT_PORT_ERR | ffi::IBV_EVENT_PORT_ACTIVE => {
            // SAFETY: events of ports carry the port's number.
            let port = unsafe { event.element.port_num };
            let down = event.event_type == ffi::IBV_EVENT_PORT_ERR;
            if port == i32::from(ours) {
                let trouble = down.then(|| port_is_down(ours, device));
                adapter.trouble.set(trouble);
            }
            tracing::warn!(device, port, event = %words, "RDMA port");
        }
        ffi::IBV_EVENT_DEVICE_FATAL => {
            adapter.trouble.set(Some(device_is_gone(device)));
            adapter.trouble.fatal.store(true, Ordering::Release);
            tracing::error!(device, event = %words, "RDMA device");
        }
        _ => tracing::debug!(device, event = %words, "RDMA device"),
    }
}
