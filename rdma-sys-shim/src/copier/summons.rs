//! Calling a thread to the processor of one that waits for it: where it ran, others may have come before it, while
//! that of a waiting thread is free.

use std::io;
use std::mem;

use libc::{c_int, cpu_set_t, pid_t};

/// A thread of this process, by the kernel's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread(pid_t);

/// A thread that is bound to one processor until this is dropped.
#[derive(Debug)]
pub(super) struct Summoned {
    thread: Thread,
    /// Where it may run else.
    before: cpu_set_t,
}

impl Thread {
    pub(super) fn current() -> Self {
        // SAFETY: the call takes nothing.
        Self(unsafe { libc::gettid() })
    }

    /// Has this thread, which has not ended, run on the processor of the calling one.
    pub(super) fn summon(self) -> io::Result<Summoned> {
        // SAFETY: an empty set is all zeros, and the call changes it alone; any number names a thread, or none.
        let before = unsafe {
            let mut before: cpu_set_t = mem::zeroed();
            check(libc::sched_getaffinity(
                self.0,
                size_of::<cpu_set_t>(),
                &raw mut before,
            ))?;
            before
        };
        // SAFETY: the call takes nothing.
        let here = unsafe { libc::sched_getcpu() };
        check(here)?;
        // SAFETY: an empty set is all zeros; CPU_SET looks at its bounds.
        let only = unsafe {
            let mut only: cpu_set_t = mem::zeroed();
            libc::CPU_SET(here as usize, &mut only);
            only
        };
        self.bind(&only)?;
        Ok(Summoned {
            thread: self,
            before,
        })
    }

    fn bind(self, to: &cpu_set_t) -> io::Result<()> {
        // SAFETY: the kernel reads the set, which is that large.
        check(unsafe { libc::sched_setaffinity(self.0, size_of::<cpu_set_t>(), to) })
    }
}

impl Drop for Summoned {
    fn drop(&mut self) {
        if let Err(error) = self.thread.bind(&self.before) {
            tracing::debug!(%error, "the second thread stays where it was called to");
        }
    }
}

fn check(rc: c_int) -> io::Result<()> {
    match rc {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// Where the calling thread may run.
    fn allowed() -> usize {
        // SAFETY: an empty set is all zeros, and the call changes it alone; 0 is the calling thread.
        unsafe {
            let mut set: cpu_set_t = mem::zeroed();
            let rc = libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set);
            assert_eq!(rc, 0);
            libc::CPU_COUNT(&set) as usize
        }
    }

    #[test]
    fn who_is_summoned_runs_here_and_nowhere_else_until_released() {
        let (ask, asked) = channel::<()>();
        let (answer, answered) = channel();
        let second = thread::spawn(move || {
            let tell = || {
                // SAFETY: the call takes nothing.
                let at = unsafe { libc::sched_getcpu() };
                answer.send((Thread::current(), allowed(), at)).unwrap();
            };
            tell();
            asked.iter().for_each(|()| tell());
        });
        let (thread, all, _) = answered.recv().unwrap();
        let summoned = thread.summon().unwrap();
        ask.send(()).unwrap();
        let (_, one, at) = answered.recv().unwrap();
        assert_eq!(one, 1);
        // SAFETY: the set was filled by `summon`; CPU_ISSET looks at its bounds.
        assert!(unsafe { libc::CPU_ISSET(at as usize, &summoned.before) });
        drop(summoned);
        ask.send(()).unwrap();
        assert_eq!(answered.recv().unwrap().1, all);
        drop(ask);
        second.join().unwrap();
    }
}
