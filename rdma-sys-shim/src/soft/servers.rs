//! Threads of this process that carry out peers' requests. A thread that withdraws a region waits for those that are
//! carrying out a request.
//!
//! A request takes only a fraction of a microsecond, so the serving thread issues no fence. The waiting thread issues
//! one on all threads, which takes microseconds. If the kernel does not support this, each serving thread issues its
//! own.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::fences::{fence_all, light_fence, take_fences};

static SERVERS: Mutex<Vec<Arc<AtomicU32>>> = Mutex::new(Vec::new());

fn servers() -> MutexGuard<'static, Vec<Arc<AtomicU32>>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether `wait_for_all` makes the expensive fences, and servers only light ones.
fn is_fenced() -> bool {
    static IS_FENCED: OnceLock<bool> = OnceLock::new();
    *IS_FENCED.get_or_init(|| take_fences() && fence_all())
}

thread_local! {
    static OWN: Server = Server::new();
}

/// The state of a thread that serves.
struct Server {
    /// Odd while the thread serves a request; only the thread writes it. If it wraps between two looks of a thread that
    /// waits for the request to end, that thread waits for a later request, too.
    turn: Arc<AtomicU32>,
    is_fenced: bool,
    process: u32,
}

impl Server {
    fn new() -> Self {
        let turn = Arc::new(AtomicU32::new(0));
        servers().push(turn.clone());
        Self {
            turn,
            is_fenced: is_fenced(),
            process: std::process::id(),
        }
    }

    fn begin(&self) -> Serving<'_> {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        match self.is_fenced {
            true => light_fence(),
            false => fence(Ordering::SeqCst),
        }
        Serving(&self.turn)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In a forked child, another thread of the parent may hold the lock for ever.
        if self.process == std::process::id() {
            servers().retain(|turn| !Arc::ptr_eq(turn, &self.turn));
        }
    }
}

/// The thread is serving a request.
struct Serving<'a>(&'a AtomicU32);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let turn = self.0.load(Ordering::Relaxed);
        self.0.store(turn.wrapping_add(1), Ordering::Release);
    }
}

/// Checks and carries out a request. No region that `request` looks up is withdrawn meanwhile. `None` if the calling
/// thread is about to end, and serves no more.
pub(crate) fn serve<T>(request: impl FnOnce() -> T) -> Option<T> {
    let serve = |server: &Server| {
        let _serving = server.begin();
        request()
    };
    OWN.try_with(serve).ok()
}

/// Waits for all requests whose checks came before this thread's last action.
pub(crate) fn wait_for_all() {
    let servers = servers();
    if servers.is_empty() {
        return;
    }
    fence(Ordering::SeqCst);
    if is_fenced() {
        // `is_fenced` tested that it works.
        let _ = fence_all();
    }
    for turn in servers.iter() {
        let seen = turn.load(Ordering::Acquire);
        while !seen.is_multiple_of(2) && turn.load(Ordering::Acquire) == seen {
            std::thread::yield_now();
        }
    }
}
