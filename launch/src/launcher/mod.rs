//! Starts a job on this machine and supervises it until it ends; `transom run` is a thin wrapper.
//!
//! [`Launch::run`] starts the ranks, serves them PMI-1.1, and forwards their output and signals. It returns when the
//! last process has ended. One thread does all this, in a loop that sleeps until a descriptor is ready.
//!
//! What it promises:
//! - **Output** is forwarded in whole lines. Nothing that a rank wrote is lost, even if the rank is killed.
//! - **Standard input** of the launcher is that of rank 0; the other ranks read `/dev/null`. If it is a terminal, the
//!   launcher reads it and forwards the lines to rank 0. Rank 0 inherits anything else.
//! - **Signals**: SIGINT, SIGTERM and SIGHUP are forwarded to every process of the job. After a second signal, or after
//!   the grace period, the launcher kills the job. SIGTSTP stops the job together with the launcher.
//! - **Failure** of one rank ends the others: SIGTERM, then after the grace period SIGKILL.
//! - **No process is left running**: ranks and their children end with the launcher, even if SIGKILL kills it.
//!
//! The launcher sets `PMI_FD`, `PMI_RANK`, `PMI_SIZE`, `PMI_JOBID` and `TRANSOM_LAUNCHER_PID` for the ranks, and
//! `TRANSOM_DEVICE` if the caller named a device.
//!
//! ```no_run
//! # use transom_launch as transom;
//! use transom::launcher::Launch;
//!
//! let outcome = Launch::new(4, "./solver").arg("--quick").label(true).run()?;
//! std::process::exit(outcome.exit_code().into());
//! # #[allow(unreachable_code)]
//! # Ok::<(), transom::launcher::LaunchError>(())
//! ```

mod binding;
mod error;
mod limits;
mod link;
mod outcome;
mod output;
mod signals;
mod sink;
mod spawn;
mod supervisor;
mod terminal;
mod warden;

use std::ffi::OsString;
use std::time::Duration;

pub use crate::start::is_launched;
pub use binding::BindTo;
pub use error::LaunchError;
pub use outcome::{Cause, Failure, Outcome};

/// The most ranks that one launcher starts. For each rank the launcher has a process and four descriptors. A larger job
/// should not run in the process table of one machine.
pub const MAX_RANKS: u32 = 65_536;

/// Local. The processors that the calling thread may run on, as the kernel writes them: `0-3,8`. `None`
/// if the system does not say.
pub fn processors() -> Option<String> {
    let allowed = crate::processors::Processors::allowed();
    allowed.ok().map(|allowed| allowed.to_string())
}

/// A job to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    ranks: u32,
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    device: Option<String>,
    bind_to: BindTo,
    label: bool,
    keep_going: bool,
    direct_output: bool,
    grace: Duration,
    name: String,
}

impl Launch {
    /// A job of `ranks` processes of `program`, which is looked up in `PATH` unless it contains a
    /// slash.
    pub fn new(ranks: u32, program: impl Into<OsString>) -> Self {
        Self {
            ranks,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            device: None,
            bind_to: BindTo::None,
            label: false,
            keep_going: false,
            direct_output: false,
            grace: Duration::from_secs(1),
            name: "transom".to_owned(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the ranks, which otherwise inherit the launcher's.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Names the device that the ranks are to use.
    #[must_use]
    pub fn device(mut self, device: Option<String>) -> Self {
        self.device = device;
        self
    }

    /// Whether each rank is bound to a core. The default is [`BindTo::None`].
    #[must_use]
    pub fn bind_to(mut self, bind_to: BindTo) -> Self {
        self.bind_to = bind_to;
        self
    }

    /// Whether each line of output begins with `[rank] `.
    #[must_use]
    pub fn label(mut self, label: bool) -> Self {
        self.label = label;
        self
    }

    /// Whether the other ranks continue after one has failed. An abort still ends the job.
    #[must_use]
    pub fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Whether the ranks write directly to the launcher's standard output and standard error, for programs that draw on
    /// a terminal. Lines of different ranks may then mix. If the job ends early, the launcher clears the line of the
    /// cursor.
    #[must_use]
    pub fn direct_output(mut self, direct: bool) -> Self {
        self.direct_output = direct;
        self
    }

    /// How long a rank may take to end after the launcher has asked it to. The default is 1 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The name that begins the launcher's own messages on standard error, such as `transom run`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Runs the job to its end. Failures of ranks are reported on standard error as they happen, and are part of the
    /// [`Outcome`].
    ///
    /// The calling thread receives the job's signals while the job runs. If the process has other threads, they must
    /// block SIGINT, SIGTERM, SIGHUP and SIGTSTP, or forwarding does not work. The soft limit of open files is raised
    /// during the job; the ranks get the original limit.
    ///
    /// # Errors
    /// The program cannot be run, the machine's limits forbid it, or the launcher's own output or a system call fails.
    /// No process is left running in these cases either.
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        supervisor::run(self)
    }
}
