//! Completion queues and the channels that report their entries.

use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ibverbs_sys as ffi;

use super::{Context, Handle, check, never_blocks};
use crate::{Error, Result};

/// Where a thread can sleep until a completion queue has an entry.
pub(crate) struct CompletionChannel {
    raw: Handle<ffi::ibv_comp_channel>,
    _context: Arc<Context>,
}

impl CompletionChannel {
    /// A channel whose descriptor does not block.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>> {
        // SAFETY: an open context, kept alive by the result, which alone destroys the channel.
        let raw = unsafe {
            let made = ffi::ibv_create_comp_channel(context.raw());
            Handle::new(made, ffi::ibv_destroy_comp_channel)
        };
        let raw = raw.ok_or_else(|| Error::last_os("creating a completion channel"))?;
        let channel = Self {
            raw,
            _context: context.clone(),
        };
        if !never_blocks(channel.fd()) {
            return Err(Error::last_os("fcntl of a completion channel"));
        }
        Ok(Arc::new(channel))
    }

    /// Readable when there is an event.
    pub(crate) fn fd(&self) -> RawFd {
        // SAFETY: a live channel, whose descriptor libibverbs does not change.
        unsafe { (*self.raw.raw()).fd }
    }

    /// Takes the events that are there. Each says that the queue has entries since it was armed;
    /// which queue, this crate's one queue per channel makes clear.
    pub(crate) fn take_events(&self) {
        loop {
            let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: a live channel, and places for the answer.
            if unsafe { ffi::ibv_get_cq_event(self.raw.raw(), &mut queue, &mut context) } != 0 {
                return;
            }
            // SAFETY: the queue that the event came from, which is alive: destroying it waits for
            // acknowledgements.
            unsafe { ffi::ibv_ack_cq_events(queue, 1) };
        }
    }
}

pub(crate) struct CompletionQueue {
    raw: Handle<ffi::ibv_cq>,
    entries: u32,
    _channel: Option<Arc<CompletionChannel>>,
    context: Arc<Context>,
}

/// All completion queue entries of this process, for reports.
static ENTRIES: AtomicU32 = AtomicU32::new(0);

impl CompletionQueue {
    /// At least `entries` long.
    pub(crate) fn new(
        context: &Arc<Context>,
        entries: u32,
        channel: Option<&Arc<CompletionChannel>>,
    ) -> Result<Arc<Self>> {
        let raw_channel = channel.map_or(ptr::null_mut(), |channel| channel.raw.raw());
        let (context_raw, tag) = (context.raw(), ptr::null_mut());
        // SAFETY: an open context and a live channel or none, kept alive by the result, which alone destroys the queue.
        let raw = unsafe {
            let made = ffi::ibv_create_cq(context_raw, entries as i32, tag, raw_channel, 0);
            Handle::new(made, ffi::ibv_destroy_cq)
        };
        let raw = raw.ok_or_else(|| {
            Error::last_os(format!("creating a completion queue of {entries} entries"))
        })?;
        // SAFETY: a live queue, whose size libibverbs does not change.
        let entries = unsafe { (*raw.raw()).cqe } as u32;
        ENTRIES.fetch_add(entries, Ordering::Relaxed);
        Ok(Arc::new(Self {
            raw,
            entries,
            _channel: channel.cloned(),
            context: context.clone(),
        }))
    }

    /// Entries of all completion queues of this process.
    pub(crate) fn entries_in_use() -> u32 {
        ENTRIES.load(Ordering::Relaxed)
    }

    pub(crate) fn raw(&self) -> *mut ffi::ibv_cq {
        self.raw.raw()
    }

    /// Takes entries; says how many.
    #[inline]
    pub(crate) fn poll(&self, entries: &mut [ffi::ibv_wc]) -> Result<usize> {
        let queue = self.raw();
        // SAFETY: a live queue of a live context, whose table of operations the driver has filled;
        // the driver writes no more entries than there is room for.
        let found = unsafe {
            let poll = (*(*queue).context).ops.poll_cq;
            poll.map_or(-libc::ENOSYS, |poll| {
                poll(queue, entries.len() as i32, entries.as_mut_ptr())
            })
        };
        usize::try_from(found).map_err(|_| {
            // Drivers answer with numbers of their own.
            let what = format!(
                "polling a completion queue of {} ({found})",
                self.context.name()
            );
            Error::os(what, std::io::Error::from_raw_os_error(libc::EIO))
        })
    }

    /// Asks for an event at the next entry.
    pub(crate) fn arm(&self) -> Result<()> {
        let queue = self.raw();
        // SAFETY: as in `poll`.
        let code = unsafe {
            let arm = (*(*queue).context).ops.req_notify_cq;
            arm.map_or(libc::ENOSYS, |arm| arm(queue, 0))
        };
        check(|| "arming a completion queue".to_owned(), code)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        ENTRIES.fetch_sub(self.entries, Ordering::Relaxed);
    }
}
