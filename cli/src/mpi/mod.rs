//! `transom mpi`: runs a program of MPI with Transom's windows.

mod host;
mod launcher;
mod library;
mod program;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use thiserror::Error;

use host::MpiFamily;
use program::Program;

/// Run a program of MPI with Transom's windows, under its own launcher
///
/// mpiexec -n 4 transom mpi ./prog: the program, which was built for MPICH, Intel MPI, Open MPI or the ABI of
/// MPI-5, runs unchanged. All of MPI but its windows stays the installed library's. docs/mpi.md tells more.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Say at the end, on rank 0, how many windows were Transom's, and why others were not
    /// (TRANSOM_MPI_REPORT=1)
    #[arg(long)]
    report: bool,

    /// A window that cannot be Transom's is an error, and what only hosts allow (TRANSOM_MPI_STRICT=1)
    #[arg(long)]
    strict: bool,

    /// The MPI that the program loads later, as Python does
    #[arg(long, value_enum)]
    host: Option<MpiFamily>,

    /// That MPI's library, where the loader does not find it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "host")]
    host_library: Option<PathBuf>,

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    #[arg(value_names = ["PROG", "ARGS"], value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Why the program was not run.
#[derive(Debug, Error)]
enum MpiError {
    #[error("there is no program {0}")]
    NoProgram(String),
    #[error("{program} cannot be read: {source}")]
    Unreadable { program: PathBuf, source: io::Error },
    #[error(
        "{0} is statically linked: no library can go in front of its MPI; link it dynamically, then this command takes \
         it, or link it with -ltransom_mpi_mpich, -ltransom_mpi_openmpi or -ltransom_mpi_abi besides"
    )]
    Static(PathBuf),
    #[error(
        "{0} contains its MPI: no library can go in front of that; link it with the MPI's shared library (without \
         -static or a libmpi*.a)"
    )]
    ContainsMpi(PathBuf),
    #[error(
        "{0} runs with another user's or group's rights: the loader preloads nothing into such programs"
    )]
    SetUid(PathBuf),
    #[error(
        "{0} has file capabilities: for users other than root the loader preloads nothing into such programs"
    )]
    Capabilities(PathBuf),
    #[error("{0} is no program of this machine")]
    NotElf(PathBuf),
    #[error("{0} is a launcher, which comes first: {0} OPTIONS transom mpi PROG ARGS")]
    Launcher(String),
    #[error(
        "{0} is not linked against an MPI; if it loads one later, as scripts and Python do, name it with --host"
    )]
    NoHost(PathBuf),
    #[error("{program} cannot be loaded: {why}")]
    NotLoadable { program: PathBuf, why: String },
    #[error("{program} is linked against two MPIs, {first} and {second}")]
    TwoHosts {
        program: PathBuf,
        first: MpiFamily,
        second: MpiFamily,
    },
    #[error("{program} is linked against {found}, not {asked}: leave --host away")]
    OtherHost {
        program: PathBuf,
        found: MpiFamily,
        asked: MpiFamily,
    },
    #[error(
        "the loader finds no library of {host} ({}); install it, or name it with --host-library",
        .names.join(", ")
    )]
    NoHostLibrary {
        host: MpiFamily,
        names: &'static [&'static str],
    },
    #[error(
        "{name} is not there: looked in {}; mpi/install makes it (see docs/mpi.md)",
        .places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoLibrary {
        name: &'static str,
        places: Vec<PathBuf>,
    },
    #[error("{0} cannot be preloaded: the loader's list has no way to write a space or a colon")]
    Separator(PathBuf),
    #[error("the loader does not take {library}: {why}")]
    Refused { library: PathBuf, why: String },
    #[error("{program} cannot be run: {source}")]
    Exec { program: PathBuf, source: io::Error },
}

/// What a rank of Intel MPI does while it waits; 2: it calls `sched_yield`.
const INTEL_YIELD: &str = "I_MPI_THREAD_YIELD";

pub(super) fn run(args: &Args) -> ExitCode {
    let error = match prepare(args) {
        Ok((program, preload, host)) => start(args, program, preload, host),
        Err(error) => error,
    };
    super::fail(&error, error.exit_code())
}

impl MpiError {
    /// The exit code of a shell and `transom run` if there is no program; otherwise any code for an error.
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoProgram(_) => 127,
            _ => 1,
        }
    }
}

/// The program's file, the libraries to preload, and its MPI.
fn prepare(args: &Args) -> Result<(PathBuf, OsString, MpiFamily), MpiError> {
    let name = args
        .command
        .first()
        .map(OsString::as_os_str)
        .unwrap_or_default();
    let program = Program::find(name)?;
    let linked = program.host()?;
    if linked.is_none() && launcher::is_launcher(Path::new(name)) {
        return Err(MpiError::Launcher(name.display().to_string()));
    }
    if linked.is_none() && program.contains_mpi()? {
        return Err(MpiError::ContainsMpi(program.path));
    }
    let host = match (linked, args.host) {
        (Some(found), Some(asked)) if found != asked => {
            let program = program.path;
            return Err(MpiError::OtherHost {
                program,
                found,
                asked,
            });
        }
        (Some(host), _) | (None, Some(host)) => host,
        (None, None) => return Err(MpiError::NoHost(program.path)),
    };
    let library = library::find(host)?;
    let hosts_own = match (linked, &args.host_library) {
        (_, Some(file)) => Some(file.clone().into_os_string()),
        (Some(_), None) => None,
        (None, None) => Some(program.loadable(host)?.into()),
    };
    let libraries = [Some(library.into_os_string()), hosts_own];
    for library in libraries.iter().flatten() {
        program.check_preload(library)?;
    }
    let earlier = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty());
    Ok((program.path, preload(earlier, libraries), host))
}

/// After libraries that are preloaded already: tools of MPI's profiling interface then call us, as they would the host.
fn preload(earlier: Option<OsString>, libraries: [Option<OsString>; 2]) -> OsString {
    let all: Vec<OsString> = [earlier].into_iter().chain(libraries).flatten().collect();
    all.join(OsStr::new(":"))
}

/// Replaces this process by the program. Returns only if that failed.
fn start(args: &Args, program: PathBuf, preload: OsString, host: MpiFamily) -> MpiError {
    let mut command = Command::new(&program);
    if let Some((name, arguments)) = args.command.split_first() {
        command.arg0(name).args(arguments);
    }
    command.env("LD_PRELOAD", preload);
    for (asked, variable) in [
        (args.report, "TRANSOM_MPI_REPORT"),
        (args.strict, "TRANSOM_MPI_STRICT"),
    ] {
        if asked {
            command.env(variable, "1");
        }
    }
    // Intel MPI's own setting, which MPICH does not read. Otherwise ranks that wait in its calls keep their processor
    // from the agent.
    if host == MpiFamily::Mpich && std::env::var_os(INTEL_YIELD).is_none() {
        command.env(INTEL_YIELD, "2");
    }
    let source = command.exec();
    MpiError::Exec { program, source }
}

/// Whether it is an executable file.
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
