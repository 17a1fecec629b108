//! `transom doctor`: checks whether this machine is ready for use, and says how to make it so.

mod container;
mod finding;
mod host;
mod launcher;
mod machine;
mod memlock;
mod neighbours;
mod rdma;
mod self_test;
mod slot;
mod soft;
mod tcp;
mod wanted;

use std::process::ExitCode;

use finding::{Finding, Level};
use machine::{Machine, Probes};
use wanted::Wanted;

/// Check this machine for use, and say what helps where something is wrong
///
/// Each line says ok, warning or FAILURE, what was found and, behind an arrow, the remedy; the last
/// line is the verdict. The exit code is 0 if all is well, 1 if there are warnings, 2 if there are
/// failures. Judged is the device that is named, or else soft, which jobs on one machine take. An RDMA
/// device that is there and not named is for jobs on several hosts: what it lacks is a warning.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Require what this device needs: soft, tcp[:INTERFACE], verbs, or NAME[:PORT[:GID]] (TRANSOM_DEVICE)
    #[arg(long, value_name = "D", value_parser = super::suggested::device())]
    #[arg(hide_possible_values = true)]
    device: Option<String>,

    /// Print one JSON object per check
    #[arg(long)]
    json: bool,

    /// Test the devices between two ranks, which a launcher starts: mpiexec -hosts A,B -n 2 transom doctor --self-test.
    /// Without a launcher, two ranks of this machine are tested. Tried are data, atomics, the order of writes and flags,
    /// and bandwidth, over the device that is named, or else each that both ranks have. Counters of errors that the
    /// ports have raised meanwhile are told
    #[arg(long)]
    self_test: bool,

    /// This process is a rank that this command has started, to see whether it can
    #[arg(long = "started", hide = true)]
    started: bool,
}

/// The option of [`Args::started`].
const STARTED: &str = "--started";

pub(super) fn run(args: &Args) -> ExitCode {
    if args.started {
        return ExitCode::SUCCESS;
    }
    if args.self_test {
        return self_test::run(args.device.clone(), args.json);
    }
    let spec = args.device.clone().or_else(super::device_variable);
    let wanted = Wanted::parse(spec.as_deref().unwrap_or(""));
    let findings = examine(&Machine::this(), &Probes::take(&wanted), &wanted);
    report(&findings, args.json)
}

/// Prints the findings. The exit code is that of the worst level, or of a failure if they cannot be printed.
fn report(findings: &[Finding], json: bool) -> ExitCode {
    let text = match json {
        true => super::screen::json_lines(findings),
        false => finding::text(findings, super::screen::columns()),
    };
    super::screen::print_judged(&text, finding::exit_code(findings))
}

fn examine(machine: &Machine, probes: &Probes, wanted: &Wanted) -> Vec<Finding> {
    let mut devices = machine.rdma_devices();
    for device in &mut devices {
        if let Some(asked) = probes.asked(&device.name) {
            device.atomics = asked.lacks_atomics.then_some(false);
            device.fails_to_open = asked.fails_to_open;
        }
    }
    let missing = wanted.missing(&devices);
    let mut findings = rdma::check(machine, probes, &devices, wanted, missing);
    findings.push(memlock::check(machine, missing));
    findings.push(launcher::check(probes, wanted));
    findings.push(neighbours::check(machine, probes, wanted));
    if wanted.may_use_soft() {
        findings.push(soft::check(machine, probes));
    }
    findings.extend(tcp::check(probes, wanted));
    findings.extend(container::check(machine, probes));
    findings.extend(host::check(machine, probes));
    findings.push(verdict(wanted, &findings));
    findings
}

/// The consequence of the findings for jobs.
fn verdict(wanted: &Wanted, findings: &[Finding]) -> Finding {
    const CHECK: &str = "verdict";
    let jobs = match wanted {
        Wanted::Any => "jobs on this machine use soft",
        Wanted::Soft => "jobs use soft, which is named",
        Wanted::Tcp(spec) | Wanted::Rdma(spec) => &format!("jobs use {spec:?}, which is named"),
    };
    let worst = finding::worst(findings);
    let bad: Vec<_> = findings.iter().filter(|one| one.level == worst).collect();
    let checks: Vec<_> = bad.iter().map(|one| &*one.check).collect();
    let checks = checks.join(", ");
    let found = match worst {
        Level::Ok => return Finding::ok(CHECK, format!("{jobs}: ready")),
        Level::Warning => format!("{jobs}: ready, with warnings ({checks})"),
        Level::Failure => format!("{jobs}: not ready ({checks})"),
    };
    let remedy = match &*bad {
        [
            Finding {
                remedy: Some(remedy),
                ..
            },
        ] => remedy.clone(),
        _ => format!("see the lines above that say {}", worst.word()),
    };
    Finding::bad(worst, CHECK, found, Some(remedy))
}

#[cfg(test)]
mod tests;
