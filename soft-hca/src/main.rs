//! The launcher: runs a command whose RDMA adapters are in user space.

mod hosts;

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus};

use hosts::Hosts;
use soft_hca::job::Job;
use soft_hca::personality;
use soft_hca::settings;

const USAGE: &str = "\
Usage: soft-hca [OPTION...] [--] COMMAND [ARGUMENT...]

Runs COMMAND with RDMA adapters in user space, and exits with its status. docs/soft-hca.md says more.

  --adapter NAME[,OPTION...]   an adapter of each host; once for each (mlx5)
  --hosts 1|2                  runs it on each host: a network namespace with adapters and a boot ID of its own
  -n NUMBER                    as so many ranks of a Transom job on those hosts
  --fail WHAT,...              failures: CALL=ERROR[:TIMES[:AFTER]], FATE@REQUEST
  --seed NUMBER                on which the adapters' choices depend (0)
  --count                      prints what the adapters have done, at the end
  --strict                     repeats at the end which misuse was told, and exits with 1 if there was any
  --abort                      ends a process at the first misuse that is told
";

struct Options {
    adapters: Vec<String>,
    /// Whether there are namespaces, and how many.
    hosts: Option<usize>,
    ranks: Option<usize>,
    fail: Option<String>,
    seed: Option<String>,
    counts: bool,
    strict: bool,
    aborts: bool,
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    let options = match parse(env::args_os().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(words) => {
            eprint!("soft-hca: {words}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("soft-hca: {error}");
            ExitCode::from(125)
        }
    }
}

/// `None` if help was asked for.
fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut options = Options {
        adapters: Vec::new(),
        hosts: None,
        ranks: None,
        fail: None,
        seed: None,
        counts: false,
        strict: false,
        aborts: false,
        command: Vec::new(),
    };
    let mut arguments = arguments.peekable();
    while let Some(word) = arguments.next_if(|word| word.as_encoded_bytes().starts_with(b"-")) {
        let word = word
            .into_string()
            .map_err(|word| format!("unknown option {word:?}"))?;
        let mut value = || {
            let value = arguments.next().and_then(|value| value.into_string().ok());
            value.ok_or_else(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "-h" | "--help" => return Ok(None),
            "--" => break,
            "--adapter" => options.adapters.push(value()?),
            "--hosts" => {
                let number = value()?
                    .parse()
                    .ok()
                    .filter(|hosts| (1..=hosts::MOST).contains(hosts));
                options.hosts = Some(number.ok_or("--hosts: 1 or 2")?);
            }
            "-n" => {
                let number = value()?.parse().ok().filter(|&ranks| ranks > 0);
                options.ranks = Some(number.ok_or("-n: a number from 1 on")?);
            }
            "--fail" => options.fail = Some(value()?),
            "--seed" => options.seed = Some(value()?),
            "--count" => options.counts = true,
            "--strict" => options.strict = true,
            "--abort" => options.aborts = true,
            _ => return Err(format!("unknown option {word}")),
        }
    }
    options.command = arguments.collect();
    if options.ranks.is_some() && options.hosts.is_none() {
        return Err("-n needs --hosts".to_owned());
    }
    if options.command.is_empty() {
        return Err("which command?".to_owned());
    }
    if options.adapters.is_empty() {
        options.adapters.push(settings::DEFAULT.to_owned());
    }
    for adapter in &options.adapters {
        personality::Personality::parse(adapter)?;
    }
    Ok(Some(options))
}

fn run(options: &Options) -> io::Result<ExitCode> {
    // SAFETY: has no preconditions.
    if options.hosts.is_some() && unsafe { libc::geteuid() } != 0 {
        return Err(as_root_of_a_namespace());
    }
    let job = Job::new(options.hosts.unwrap_or(1), &options.adapters.join(";"))?;
    let hosts = options
        .hosts
        .map(|count| Hosts::new(count, job.root()))
        .transpose()?;
    let count = options.hosts.unwrap_or(1);
    let processes = options.ranks.unwrap_or(count);
    let mut children = Vec::new();
    for number in 0..processes {
        // Neighbours in number are on one host.
        let host = number * count / processes;
        let command = match &hosts {
            Some(hosts) => hosts.command(host),
            None => Command::new(&options.command[0]),
        };
        let command = prepared(command, &job, options, host, number);
        children.push(start(command, options)?);
    }
    let mut status = ExitStatus::default();
    for mut child in children {
        let ended = child.wait()?;
        if status.success() {
            status = ended;
        }
    }
    if options.counts {
        eprintln!("soft-hca: {}", job.counted()?);
    }
    let misuses = job.misuses();
    if options.strict && !misuses.is_empty() {
        eprint!("{misuses}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(code(status))
}

/// Runs this program again as root of a user namespace, which may make others. Returns only if that fails.
fn as_root_of_a_namespace() -> io::Error {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    // From its own network namespace, the cable is laid between the hosts.
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--net", "--"])
        .arg(program);
    let error = command.args(env::args_os().skip(1)).exec();
    io::Error::new(error.kind(), format!("unshare: {error}"))
}

fn prepared(
    mut command: Command,
    job: &Job,
    options: &Options,
    host: usize,
    number: usize,
) -> Command {
    let first = usize::from(options.hosts.is_none());
    command
        .args(&options.command[first..])
        .envs(job.environment(host));
    if let Some(ranks) = options.ranks {
        // Nobody else is in these namespaces.
        let secret = format!("{:032x}{:032x}", std::process::id(), ranks);
        command
            .env("TRANSOM_RANK", number.to_string())
            .env("TRANSOM_SIZE", ranks.to_string())
            .env(
                "TRANSOM_RENDEZVOUS",
                format!("{}:{PORT}", hosts::address(0)),
            )
            .env("TRANSOM_JOB_SECRET", secret);
    }
    if let Some(fail) = &options.fail {
        command.env(settings::FAIL, fail);
    }
    if let Some(seed) = &options.seed {
        command.env(settings::SEED, seed);
    }
    if options.aborts {
        command.env(settings::ABORT, "1");
    }
    command
}

/// Where the ranks of a job meet. In a network namespace of its own, every port is free.
const PORT: u16 = 4242;

fn start(mut command: Command, options: &Options) -> io::Result<Child> {
    hosts::named(&options.command[0].to_string_lossy(), command.spawn())
}

/// The status of a command, as shells give it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    ExitCode::from(code.and_then(|code| code.try_into().ok()).unwrap_or(125))
}
