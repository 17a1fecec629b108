//! Completion queues.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ibverbs_sys as ffi;

use super::{Context, Handle, queue_refusal};
use crate::{Error, Result};

pub(crate) struct CompletionQueue {
    raw: Handle<ffi::ibv_cq>,
    entries: u32,
    context: Arc<Context>,
}

/// The entries of all completion queues of this process, for reports.
static ENTRIES: AtomicU32 = AtomicU32::new(0);

impl CompletionQueue {
    /// A queue of at least `entries` entries.
    pub(crate) fn new(context: &Arc<Context>, entries: u32) -> Result<Arc<Self>> {
        let (tag, channel) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: an open context, kept alive by the result, which alone destroys the queue.
        let raw = unsafe {
            let made = ffi::ibv_create_cq(context.raw(), entries as i32, tag, channel, 0);
            Handle::new(made, ffi::ibv_destroy_cq)
        };
        let raw = raw.ok_or_else(|| {
            let call = format!("creating a completion queue of {entries} entries");
            queue_refusal(call, entries.saturating_sub(1), context.name())
        })?;
        // SAFETY: a live queue, whose size libibverbs does not change.
        let entries = unsafe { (*raw.raw()).cqe } as u32;
        ENTRIES.fetch_add(entries, Ordering::Relaxed);
        Ok(Arc::new(Self {
            raw,
            entries,
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

    /// Takes entries, and returns their number.
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
            // Drivers return error numbers of their own.
            let what = format!(
                "polling a completion queue of {} ({found})",
                self.context.name()
            );
            Error::os(what, std::io::Error::from_raw_os_error(libc::EIO))
        })
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        ENTRIES.fetch_sub(self.entries, Ordering::Relaxed);
    }
}
