//! The rest of the machine: descriptors, sizes of files, clock, processors.

use std::time::Duration;

use super::finding::{Finding, Level, bytes};
use super::machine::{Machine, Probes};

pub(super) fn check(machine: &Machine, probes: &Probes) -> [Finding; 4] {
    [
        open_files(machine, probes),
        file_sizes(machine),
        clock(machine, probes),
        processors(probes),
    ]
}

/// The descriptors that `transom run` opens. It raises its own soft limit to the hard one.
const LAUNCHER_FILES: u64 = 64;
const LAUNCHER_FILES_PER_RANK: u64 = 4;
/// A rank holds a descriptor for each window that soft allocated, and one for each file and connection of its program.
/// With a lower limit, larger programs soon get errors.
const COMFORT_FILES: u64 = 256;

fn open_files(machine: &Machine, probes: &Probes) -> Finding {
    const CHECK: &str = "open files";
    let Some((soft, hard)) = machine.limit("Max open files") else {
        return Finding::warning(CHECK, "the limit is not known", "mount /proc");
    };
    let launcher = LAUNCHER_FILES + LAUNCHER_FILES_PER_RANK * probes.processors;
    if let Some(hard) = hard.filter(|&hard| hard < launcher) {
        return Finding::bad(
            Level::Failure,
            CHECK,
            format!(
                "limited to {hard}; `transom run` with a rank on each processor needs {launcher}"
            ),
            Some(RAISE_FILES.to_owned()),
        );
    }
    let Some(limit) = soft else {
        return Finding::ok(CHECK, "not limited");
    };
    let found = format!("limited to {limit} per process");
    if limit >= COMFORT_FILES {
        return Finding::ok(CHECK, found);
    }
    let remedy = match hard {
        Some(hard) if hard < COMFORT_FILES => RAISE_FILES,
        _ => "`ulimit -n 256` or more, which the hard limit allows",
    };
    let found = format!("{found}, which many windows use up");
    Finding::warning(CHECK, found, remedy)
}

const RAISE_FILES: &str = "raise it: \"* - nofile 65536\" in /etc/security/limits.conf and log in \
                           again; LimitNOFILE in a systemd unit; `--ulimit nofile=65536` for a \
                           container";

/// The size of a rank's memory files before its first window.
const RANK_FILE: u64 = rdma_sys_shim::SEGMENT_BYTES as u64;

/// To the kernel, memory that others map is a file. It kills a process that exceeds its limit of file sizes.
fn file_sizes(machine: &Machine) -> Finding {
    const CHECK: &str = "file sizes";
    const REMEDY: &str = "`ulimit -f unlimited`, or a higher hard limit: fsize in \
                          /etc/security/limits.conf, LimitFSIZE in a systemd unit";
    let Some((Some(limit), _)) = machine.limit("Max file size") else {
        return Finding::ok(CHECK, "not limited");
    };
    let found = format!("limited to {}", bytes(limit));
    let (level, what) = match limit < RANK_FILE {
        true => (
            Level::Failure,
            "a rank of the device soft needs more to start",
        ),
        false => (Level::Warning, "the device soft has no larger windows"),
    };
    Finding::bad(
        level,
        CHECK,
        format!("{found}: {what}"),
        Some(REMEDY.to_owned()),
    )
}

/// Clock sources that need a device access, or have a low resolution.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

fn clock(machine: &Machine, probes: &Probes) -> Finding {
    const CHECK: &str = "clock";
    let resolution = probes.clock_resolution;
    let source = machine.text(&format!("{SOURCES}/current_clocksource"));
    let name = source.as_deref().unwrap_or("unknown");
    let found = format!("source {name}, resolution {} ns", resolution.as_nanos());
    let available = machine
        .text(&format!("{SOURCES}/available_clocksource"))
        .unwrap_or_default();
    let better = available
        .split_whitespace()
        .find(|name| !SLOW.contains(name));
    let remedy = match better {
        Some(better) => format!("`echo {better} > {SOURCES}/current_clocksource`"),
        None => {
            "it is all that this machine has; measurements are coarse, data is right".to_owned()
        }
    };
    if SLOW.contains(&name) {
        return Finding::warning(CHECK, format!("{found}: reading it is slow"), remedy);
    }
    if resolution > Duration::from_micros(1) {
        return Finding::warning(CHECK, format!("{found}: too coarse to measure"), remedy);
    }
    Finding::ok(CHECK, found)
}

fn processors(probes: &Probes) -> Finding {
    const CHECK: &str = "processors";
    match probes.processors {
        ..=1 => Finding::warning(
            CHECK,
            "1 for this process: ranks are oversubscribed, and wait for the scheduler",
            "give the machine or container two (`--cpus`, `--cpuset-cpus`, `taskset`)",
        ),
        n => Finding::ok(CHECK, format!("{n}; more ranks than that share them")),
    }
}
