//! As whom a case runs, and what the kernel lets it do.

use std::io::Error;

/// Whose process a rank is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// Whoever runs the tests.
    Caller,
    /// Somebody without privileges, also where root runs the tests.
    Ordinary,
    /// `userfaultfd` is forbidden, as containers forbid it.
    Filtered,
}

pub(crate) const ALL: &[Setting] = &[Setting::Caller, Setting::Ordinary, Setting::Filtered];

impl Setting {
    /// Before the job begins.
    pub(crate) fn enter(self) {
        match self {
            Self::Caller => {}
            Self::Ordinary => become_ordinary(),
            Self::Filtered => forbid(libc::SYS_userfaultfd),
        }
    }
}

fn become_ordinary() {
    const NOBODY: u32 = 65534;
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    // SAFETY: these take integers, and no groups at all. Dumpable again, for its peers.
    let results = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setresgid(NOBODY, NOBODY, NOBODY),
            libc::setresuid(NOBODY, NOBODY, NOBODY),
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0),
        ]
    };
    assert_eq!(results, [0; 4], "{}", Error::last_os_error());
}

/// Makes a system call fail with EPERM, from now on and in this process alone.
fn forbid(call: libc::c_long) {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load_number = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut steps = [
        step(load_number, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            call as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, refusal),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program is read during the second call only.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ),
        ]
    };
    assert_eq!(results, [0; 2], "{}", Error::last_os_error());
}

/// Descriptors until there are no more, given back when dropped.
pub(crate) struct AllDescriptors {
    taken: Vec<std::fs::File>,
    limit: libc::rlimit,
}

impl AllDescriptors {
    pub(crate) fn take() -> Self {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: fills in the structure.
        assert_eq!(0, unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit)
        });
        let few = libc::rlimit {
            rlim_cur: limit.rlim_cur.min(64),
            ..limit
        };
        // SAFETY: reads the structure.
        assert_eq!(0, unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few)
        });
        let taken = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        Self { taken, limit }
    }
}

impl Drop for AllDescriptors {
    fn drop(&mut self) {
        self.taken.clear();
        // SAFETY: reads the structure.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const self.limit) };
    }
}
