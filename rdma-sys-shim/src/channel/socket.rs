//! Descriptors that a forked child closes: its copy of a socket would keep the connection open after the rank has
//! ended.

use std::net::TcpStream;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each open descriptor. Forked children keep descriptors beyond the last bit.
static OPEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
const WORDS: usize = 1 << 10;
static WATCHES_FORKS: Once = Once::new();

/// A descriptor that forked children close.
pub(crate) struct OwnDescriptor<T: AsRawFd>(T);

pub(crate) type Stream = OwnDescriptor<TcpStream>;

impl<T: AsRawFd> OwnDescriptor<T> {
    pub(crate) fn new(inner: T) -> Self {
        WATCHES_FORKS.call_once(|| {
            // SAFETY: the handler makes only calls that are allowed there, and uses atomics.
            let rc = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            if rc != 0 {
                tracing::warn!(
                    rc,
                    "pthread_atfork failed: a forked child may keep connections"
                );
            }
        });
        if let Some((word, bit)) = place(inner.as_raw_fd()) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Self(inner)
    }
}

impl<T: AsRawFd> Deref for OwnDescriptor<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: AsRawFd> Drop for OwnDescriptor<T> {
    fn drop(&mut self) {
        if let Some((word, bit)) = place(self.0.as_raw_fd()) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((OPEN.get(fd / 64)?, 1 << (fd % 64)))
}

/// Replaces the file of each such descriptor, so that dropping a copy of the owner closes the replacement. Without a free
/// descriptor, the first one is closed to open the replacement in its place.
extern "C" fn in_child() {
    // SAFETY: only calls on descriptors. The replaced ones belong to owners here, and nothing in the child uses them.
    unsafe {
        let open = || libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let (mut null, mut is_in_place) = (open(), false);
        for (index, word) in OPEN.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let fd = (index * 64) as RawFd + bits.trailing_zeros() as RawFd;
                bits &= bits - 1;
                if null < 0 {
                    libc::close(fd);
                    null = open();
                    is_in_place = null == fd;
                }
                if null >= 0 && null != fd {
                    libc::dup3(null, fd, libc::O_CLOEXEC);
                }
            }
        }
        if null >= 0 && !is_in_place {
            libc::close(null);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_forked_child_keeps_no_connection() {
        let _alone = crate::guard::alone();
        ends_beside_a_child(false);
        // In a process of its own: other tests need descriptors.
        let full = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "channel::socket::tests::a_full_process",
                "--ignored",
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&full.stdout);
        assert!(full.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    #[ignore = "the test before it runs this in a process of its own"]
    fn a_full_process() {
        ends_beside_a_child(true);
    }

    /// Whether other open files leave no descriptor for the child: `is_full`.
    fn ends_beside_a_child(is_full: bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let own = OwnDescriptor::new(stream);
        let (mut peer, _) = listener.accept().unwrap();
        let second = OwnDescriptor::new(own.try_clone().unwrap());
        let mut files = Vec::new();
        while is_full && let Ok(file) = std::fs::File::open("/dev/null") {
            files.push(file);
        }
        // SAFETY: the child makes one call that waits, until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        drop((own, second, files));
        let mut byte = [0];
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10)))
            .unwrap();
        let got = peer.read(&mut byte);
        // SAFETY: the child of this test.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(got.unwrap(), 0, "the connection has ended");
    }
}
