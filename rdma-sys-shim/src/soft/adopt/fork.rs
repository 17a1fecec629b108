//! What `fork` does to adopted pages: the child gets private copies of them.
//!
//! Adopted pages are shared mappings, which `fork` would leave shared between parent and child.
//! So the child, before its `fork` returns, replaces them by private copies, and the parent's
//! `fork` waits for that. The table is held from before the fork, so no page is being moved.
//!
//! What this cannot do: other threads of the parent run on while the child copies, so what they
//! write in these milliseconds may be in the copy; handlers of `fork` that were registered
//! before these (`watch_forks`, or the first adoption), and glibc itself, run in the child before it has its copies (the
//! pages that glibc may write then are never adopted as edges, but for the lock of a `FILE`);
//! `_Fork` and a raw `clone` run no handlers, and leave adopted pages shared. `vfork` and
//! `posix_spawn` run none either and need none: their child borrows the parent's memory. A signal
//! handler that forks while its thread adopts would wait for itself.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::{MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use super::direct;
use super::maps::{Reader, Vma};
use super::stretch::{Attributes, Stretch};
use super::sys::{self, Refusal, SignalsBlocked};
use super::table::{self, Table};

/// A fork in progress: from the parent's side before, to both sides after.
struct Fork {
    table: MutexGuard<'static, Table>,
    link: Option<Link>,
}

/// How the child tells the parent that it has its copies. Its end does so by itself.
#[derive(Clone, Copy)]
struct Link {
    parent: RawFd,
    child: RawFd,
    deadline: Instant,
}

struct Slot(UnsafeCell<Option<Fork>>);

// SAFETY: only the thread that forks touches the slot, and while it does it holds the table's
// lock, which a second forking thread would have to take first.
unsafe impl Sync for Slot {}

static SLOT: Slot = Slot(UnsafeCell::new(None));

/// Registers the handlers, once.
pub(super) fn install() -> Result<(), Refusal> {
    static INSTALLED: OnceLock<Result<(), Refusal>> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: the handlers stay valid, as this code is never unloaded.
        match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
            0 => Ok(()),
            errno => Err(Refusal {
                call: "pthread_atfork",
                errno,
            }),
        }
    })
}

extern "C" fn prepare() {
    let table = table::lock();
    let link = if table.is_empty() { None } else { link(&table) };
    // SAFETY: this thread forks and holds the table's lock.
    unsafe { *SLOT.0.get() = Some(Fork { table, link }) };
}

fn link(table: &Table) -> Option<Link> {
    /// A stopped child must not stop the parent for good.
    const AT_LEAST: Duration = Duration::from_secs(10);
    const BYTES_PER_SECOND: u64 = 128 << 20;

    let bytes: usize = table.iter().map(|(range, _)| range.len()).sum();
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        let cause = Refusal::of("socketpair");
        tracing::warn!(%cause, "fork cannot wait for the child's copy of window memory");
        return None;
    }
    Some(Link {
        parent: ends[0],
        child: ends[1],
        deadline: Instant::now() + AT_LEAST + Duration::from_secs(bytes as u64 / BYTES_PER_SECOND),
    })
}

extern "C" fn parent() {
    // Until the child has its copies nothing is written here: the slot itself may be on an
    // adopted page, where the child still reads it.
    // SAFETY: this thread forked and holds the table's lock.
    let link = unsafe { (*SLOT.0.get()).as_ref() }.and_then(|fork| fork.link);
    let in_time = link.is_none_or(|link| {
        sys::close(link.child);
        let in_time = wait(link.parent, link.deadline);
        sys::close(link.parent);
        in_time
    });
    // SAFETY: as above.
    drop(unsafe { (*SLOT.0.get()).take() });
    if !in_time {
        tracing::warn!("a forked child did not copy window memory in time; it may see later data");
    }
}

/// Waits until something comes through the link, or its other end is gone.
fn wait(fd: RawFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = libc::timespec {
            tv_sec: left.as_secs() as libc::time_t,
            tv_nsec: left.subsec_nanos() as _,
        };
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: both structures are this frame's; the signal mask stays as it is.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                &raw mut poll,
                1,
                &raw const timeout,
                std::ptr::null::<u64>(),
                size_of::<u64>(),
            )
        };
        if ready >= 0 {
            return ready > 0;
        }
        if Refusal::of("ppoll").errno != libc::EINTR {
            return false;
        }
    }
}

extern "C" fn child() {
    // A forked child of a process with threads may make async-signal-safe calls only. Until it
    // has its copies it writes to its stack alone: all else may still be the parent's as well.
    let blocked = SignalsBlocked::new();
    // SAFETY: this is the thread that forked, and it holds the table's lock.
    if let Some(fork) = unsafe { (*SLOT.0.get()).as_ref() }
        && !fork.table.is_empty()
    {
        copy_adopted(&fork.table);
    }
    drop(blocked);
    // SAFETY: as above.
    let Some(mut fork) = (unsafe { (*SLOT.0.get()).take() }) else {
        return;
    };
    if let Some(link) = fork.link {
        sys::close(link.parent);
        // SAFETY: the byte is a constant. The parent may have given up: no SIGPIPE then.
        unsafe {
            libc::syscall(
                libc::SYS_sendto,
                link.child,
                c"".as_ptr(),
                1,
                libc::MSG_NOSIGNAL,
                std::ptr::null::<u8>(),
                0,
            )
        };
        sys::close(link.child);
    }
    let mut latest = -1;
    for (_, extent) in fork.table.iter() {
        // Extents of one memfd mostly follow each other; closing twice what is closed, while
        // this child has opened nothing, is harmless.
        if extent.memfd().raw() != latest {
            latest = extent.memfd().raw();
            sys::close(latest);
        }
    }
    fork.table.start_anew();
}

/// Replaces every mapping of an adopting memfd by a private copy. The mappings, not the table,
/// are what counts: memory whose last region is gone may have been unmapped or moved since.
fn copy_adopted(table: &Table) {
    let copied = (|| {
        let mut maps = Reader::maps()?;
        while let Some(vma) = maps.next_mapping()? {
            let Some((_, extent)) = table
                .iter()
                .find(|(_, extent)| extent.memfd().id() == vma.file)
            else {
                continue;
            };
            copy_mapping(table, &vma, extent.memfd().raw());
        }
        Ok::<(), Refusal>(())
    })();
    if copied.is_err() {
        // Without /proc the table has to do.
        for (range, _) in table.iter() {
            if let Some(stretch) = table.stretch(&range) {
                copy(&stretch);
            }
        }
    }
}

fn copy_mapping(table: &Table, vma: &Vma, fd: RawFd) {
    let mut at = vma.range.start;
    while at < vma.range.end {
        let rest = at..vma.range.end;
        // Up to where the attributes may change.
        let (end, attributes) = match table.within(&rest).next() {
            Some((part, extent)) if part.start == at => (part.end, extent.attributes()),
            Some((part, _)) => (part.start, Attributes::default()),
            None => (rest.end, Attributes::default()),
        };
        copy(&Stretch {
            addr: at,
            len: end - at,
            fd,
            offset: vma.offset + (at - vma.range.start) as u64,
            attributes,
        });
        at = end;
    }
}

fn copy(stretch: &Stretch) {
    for chunk in stretch.chunks() {
        // SAFETY: a forked child has one thread, whose stack and storage are never adopted; the
        // parent's thread that forked waits. What its other threads and peers write meanwhile
        // may be in the copy or not.
        let copied = unsafe { direct::give_back(&chunk) };
        if copied.is_err() {
            // To go on would be to write to the parent's memory.
            sys::complain("transom: no memory for a forked child's copy of window memory\n");
            std::process::abort();
        }
    }
}
