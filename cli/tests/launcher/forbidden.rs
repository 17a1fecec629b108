//! System calls that a filter forbids, as those of containers do: each is named.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use libtest_mimic::Trial;
use transom::raw::{Assert, Window};
use transom::{BasicType, Info, Job, LockKind, Op};
use transom_testing::environment::own_rank;
use transom_testing::job::{quiet, run};

use crate::{TRANSOM, role, script, trials};

pub(crate) fn tests() -> Vec<Trial> {
    let mut tests = trials!["forbidden":
        what_the_launcher_needs_is_named,
        what_a_rank_needs_is_named,
        doctor_and_devices_try_what_a_job_does,
        attaching_is_refused_by_the_system,
    ];
    let tried = Command::new("unshare").args(UNSHARE).arg("true").output();
    let may_unshare = tried.is_ok_and(|tried| tried.status.success());
    let unshared = trials!["forbidden": a_namespace_without_its_own_proc_is_named];
    tests.extend((unshared.into_iter()).map(|test| test.with_ignored_flag(!may_unshare)));
    tests
}

/// A PID namespace of its own, for an ordinary user, too.
const UNSHARE: [&str; 4] = ["--user", "--map-root-user", "--pid", "--fork"];

/// Has the kernel refuse one system call to this command and its children.
fn forbid(command: &mut Command, call: libc::c_long) -> &mut Command {
    // SAFETY: the closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(move || forbid_here(call)) }
}

/// The same to this process.
fn forbid_here(call: libc::c_long) -> io::Result<()> {
    let step = |code: u32, jump: u8, operand: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump,
        k: operand,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut steps = [
        // The number of the call comes first in what a filter looks at.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, refuse),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program is there until the call returns.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) != 0
    };
    match refused {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

fn what_the_launcher_needs_is_named() {
    for (call, name) in [
        (libc::SYS_pidfd_open, "pidfd_open"),
        (libc::SYS_prctl, "prctl(PR_SET_PDEATHSIG)"),
        (libc::SYS_signalfd4, "signalfd4"),
        (libc::SYS_epoll_create1, "epoll_create1"),
        (libc::SYS_socketpair, "socketpair"),
    ] {
        let mut command = script(2, &[], "true");
        let done = run(forbid(&mut command, call)).expect(1);
        assert_eq!(done.stderr.lines().count(), 1, "{name}: {}", done.stderr);
        done.says(&format!("{name} failed: Operation not permitted"))
            .says(&format!("have the filter allow {name}"))
            .says("--security-opt seccomp=");
    }
}

fn what_a_rank_needs_is_named() {
    let mut command = role(2, &["--keep-going", "--device", "soft"], "init");
    let done = run(forbid(&mut command, libc::SYS_memfd_create)).expect(1);
    let lines: Vec<_> = done.text().lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        assert!(line.contains("memfd_create failed"), "{line}");
        assert!(line.contains("have it allow memfd_create"), "{line}");
    }
}

fn doctor_and_devices_try_what_a_job_does() {
    let transom = |args: &[&str]| {
        let mut command = quiet(TRANSOM);
        command.args(args).env_remove("TRANSOM_DEVICE");
        command
    };
    for (call, name, check) in [
        (libc::SYS_pidfd_open, "pidfd_open", "launcher"),
        (libc::SYS_socketpair, "socketpair", "launcher"),
        (libc::SYS_signalfd4, "signalfd4", "launcher"),
        (
            libc::SYS_memfd_create,
            "memfd_create",
            "memory of other ranks",
        ),
    ] {
        let done = run(forbid(&mut transom(&["doctor"]), call)).expect(2);
        let failures = done
            .text()
            .lines()
            .filter(|line| line.starts_with("FAILURE"));
        let failures: Vec<_> = failures.collect();
        assert_eq!(failures.len(), 2, "{name}: {failures:?}");
        assert!(
            failures[0].contains(check) && failures[0].contains(name),
            "{failures:?}"
        );
        assert!(failures[1].contains("not ready"), "{failures:?}");
    }
    let done = run(forbid(&mut transom(&["devices"]), libc::SYS_memfd_create)).expect(0);
    let soft = done
        .text()
        .lines()
        .find(|line| line.starts_with("soft "))
        .unwrap();
    assert!(soft.contains("memfd_create failed"), "{}", done.text());
    assert!(!soft.contains("ready"), "{soft}");
}

/// Only the origin learns of it: its target expects to be attached to, and serves no requests.
fn attaching_is_refused_by_the_system() {
    for role_name in ["attach-early", "attach-late"] {
        let mut command = role(2, &["--device", "soft:assist=off"], role_name);
        let done = run(&mut command).expect(0);
        let lines: Vec<_> = done.text().lines().collect();
        assert_eq!(lines.len(), 3, "{role_name}: {}", done.text());
        for (line, operation) in lines.iter().zip(["put", "get", "accumulate"]) {
            assert!(line.starts_with(operation), "{role_name}: {line}");
            assert!(line.ends_with(" Other"), "{role_name}: {line}");
            for word in ["Operation not permitted", "TRANSOM_DEVICE=soft:cma=off"] {
                assert!(line.contains(word), "{role_name}: {line}");
            }
        }
    }
}

/// Rank 0 may not attach to rank 1, whose window is memory of its own: it finds out when it connects, or later.
pub(crate) fn attach(early: bool) {
    let forbid = || {
        for call in [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev] {
            forbid_here(call).unwrap();
        }
    };
    let is_origin = own_rank() == 0;
    if early && is_origin {
        forbid();
    }
    let job = Job::init().unwrap();
    let mut memory = [0_u64; 8];
    let base = memory.as_mut_ptr().cast();
    // SAFETY: the array outlives the window.
    let window = unsafe { Window::create(job.world(), base, 64, 8, &Info::new()) }.unwrap();
    if is_origin {
        if !early {
            forbid();
        }
        let mut word = [7_u8; 8];
        let at = word.as_mut_ptr();
        window.lock(LockKind::Exclusive, 1, Assert::NONE).unwrap();
        // SAFETY: the word outlives the operations, all of which are refused.
        let results = unsafe {
            [
                window.put(at, 8, 1, 0),
                window.get(at, 8, 1, 0),
                window.accumulate(at, 1, BasicType::U64, 1, 0, Op::Sum),
            ]
        };
        for result in results {
            let error = result.unwrap_err();
            println!("{error} {:?}", error.class());
        }
        window.unlock(1).unwrap();
    }
    window.free().unwrap();
    job.finish().unwrap();
}

fn a_namespace_without_its_own_proc_is_named() {
    let inner = role(2, &["--keep-going", "--device", "soft"], "init");
    let mut command = quiet("unshare");
    command
        .args(UNSHARE)
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let done = run(&mut command).expect(1);
    let found = done.text().matches("--mount-proc").count();
    assert_eq!(found, 2, "{}{}", done.text(), done.stderr);
}
