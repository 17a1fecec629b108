//! Starting one rank.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::limits::set_open_files;
use super::signals;
use super::{BindTo, Launch, LaunchError};
use crate::processors::Processors;
use crate::sys::check;

/// What all ranks of a job have in common.
pub(super) struct Template<'a> {
    pub(super) launch: &'a Launch,
    pub(super) group: libc::pid_t,
    pub(super) job: &'a str,
    /// One set for each rank, or none at all.
    pub(super) cores: &'a [Processors],
    pub(super) open_files: libc::rlimit,
    pub(super) signal_mask: libc::sigset_t,
    /// A descriptor that the launcher keeps open, so that the socket has the same low number in every rank.
    pub(super) slot: RawFd,
}

impl Template<'_> {
    /// Starts `rank` with the second end of a PMI connection. `input` is its standard input: a relay, or for rank 0 the
    /// launcher's own.
    pub(super) fn spawn(
        &self,
        rank: u32,
        [ours, theirs]: [&UnixStream; 2],
        input: Option<PipeReader>,
    ) -> Result<Child, LaunchError> {
        let launch = self.launch;
        let output = || match launch.direct_output {
            true => Stdio::inherit(),
            false => Stdio::piped(),
        };
        let stdin = match input {
            Some(pipe) => pipe.into(),
            None if rank == 0 => Stdio::inherit(),
            None => Stdio::null(),
        };
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.args)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .env("PMI_FD", self.slot.to_string())
            .env("PMI_RANK", rank.to_string())
            .env("PMI_SIZE", launch.ranks.to_string())
            .env("PMI_JOBID", self.job)
            .env("TRANSOM_LAUNCHER_PID", std::process::id().to_string())
            .stdin(stdin)
            .stdout(output())
            .stderr(output())
            .process_group(self.group);
        // The launcher itself may be a rank of another job, and have its variables. Without an address they are of no
        // job, and the ranks say if they contradict this one.
        if std::env::var_os("TRANSOM_RENDEZVOUS").is_some() {
            for name in ["TRANSOM_RANK", "TRANSOM_SIZE", "TRANSOM_RENDEZVOUS"] {
                command.env_remove(name);
            }
        }
        if let Some(device) = &launch.device {
            command.env("TRANSOM_DEVICE", device);
        }
        let core = self.cores.get(rank as usize).cloned();

        let (socket, slot) = (theirs.as_raw_fd(), self.slot);
        let (open_files, signal_mask) = (self.open_files, self.signal_mask);
        let must_bind = launch.bind_to == BindTo::Core;
        let launcher = std::process::id().cast_signed();
        let prepare = move || {
            // SAFETY: prctl and dup2 take integers here. The slot is a descriptor of the
            // launcher's that nothing in this child uses.
            unsafe {
                let armed = check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL));
                armed.inspect_err(|_| confess(socket, ARM))?;
                check(libc::dup2(socket, slot))?;
            }
            // If the launcher died before the signal was armed, the kernel sends none.
            // SAFETY: getppid takes nothing.
            if unsafe { libc::getppid() } != launcher {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            match core.as_ref().map_or(Ok(()), Processors::bind) {
                Err(error) if must_bind => {
                    confess(socket, BIND);
                    return Err(error);
                }
                _ => {}
            }
            set_open_files(&open_files).inspect_err(|_| confess(socket, LIMIT))?;
            signals::restore(&signal_mask)
        };
        // SAFETY: the closure runs in the forked child and makes async-signal-safe system calls
        // only; an error made from an error number allocates nothing.
        unsafe { command.pre_exec(prepare) };
        command.spawn().map_err(|source| match confessed(ours) {
            Some(call) if LaunchError::is_forbidden(&source) => {
                LaunchError::call("starting a rank", call)(source)
            }
            Some(_) => LaunchError::Spawn { rank, source },
            None => explain(&launch.program, rank, source),
        })
    }
}

/// The calls of a new process before it becomes the program. If one fails, the launcher learns only the error number.
/// So the process first sends the call's index in this list over its end of the connection.
const CALLS: [&str; 3] = ["prctl(PR_SET_PDEATHSIG)", "sched_setaffinity", "prlimit64"];
const ARM: u8 = 0;
const BIND: u8 = 1;
const LIMIT: u8 = 2;

/// Async-signal-safe.
fn confess(socket: RawFd, call: u8) {
    // SAFETY: the pointer is to one live byte.
    unsafe { libc::write(socket, (&raw const call).cast(), 1) };
}

/// The call that the process reported as failed.
fn confessed(ours: &UnixStream) -> Option<&'static str> {
    let mut call = 0_u8;
    let place = (&raw mut call).cast();
    // SAFETY: the pointer is to one live byte.
    let got = unsafe { libc::recv(ours.as_raw_fd(), place, 1, libc::MSG_DONTWAIT) };
    CALLS.get(usize::from(call)).copied().filter(|_| got == 1)
}

/// Says why the program cannot be run, if the program is at fault.
fn explain(program: &OsStr, rank: u32, source: io::Error) -> LaunchError {
    let has_path = program.as_bytes().contains(&b'/');
    let file = has_path
        .then(|| fs::metadata(Path::new(program)).ok())
        .flatten();
    let reason = match source.raw_os_error() {
        _ if program.is_empty() => "its name is empty",
        Some(libc::ENOENT) if !has_path => "no such program in PATH",
        Some(libc::ENOENT) if file.is_some() => {
            "the interpreter that its first line names is missing"
        }
        Some(libc::ENOENT) => "no such file",
        Some(libc::ENOTDIR) => "a part of the path is not a directory",
        Some(libc::EACCES) if file.is_some_and(|file| file.is_dir()) => "it is a directory",
        Some(libc::EACCES) => "permission denied (is it executable?)",
        Some(libc::ELOOP | libc::ENAMETOOLONG) => "its path cannot be followed",
        Some(libc::E2BIG) => "the arguments and the environment are too long",
        None => "its name or an argument contains a zero byte",
        _ => return LaunchError::Spawn { rank, source },
    };
    LaunchError::Program {
        program: program.to_string_lossy().into_owned(),
        reason,
        source,
    }
}
