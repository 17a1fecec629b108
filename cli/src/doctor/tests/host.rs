//! Descriptors, sizes of files, clock and processors.

use super::*;

#[test]
fn few_open_files_are_a_warning_and_hardly_any_a_failure() {
    let fake = Fake::good();
    fake.limits("unlimited", "unlimited", "128 524288");
    let line = fake.examine("").sole(Level::Warning, "open files");
    assert!(line.contains("limited to 128 per process"), "{line}");
    assert!(line.contains("-> `ulimit -n 256` or more"), "{line}");
    fake.limits("unlimited", "unlimited", "128 128");
    let line = fake.examine("").sole(Level::Warning, "open files");
    assert!(line.contains("-> raise it: \"* - nofile 65536\""), "{line}");
    fake.limits("unlimited", "unlimited", "72 72");
    fake.examine("").sole(Level::Warning, "open files");
    fake.limits("unlimited", "unlimited", "71 71");
    let line = fake.examine("soft").sole(Level::Failure, "open files");
    assert!(
        line.contains("with a rank on each processor needs 72"),
        "{line}"
    );
}

#[test]
fn a_limit_of_file_sizes_is_a_warning_and_a_low_one_a_failure() {
    let fake = Fake::good();
    let limited = |to: u64| {
        fake.put(
            "/proc/self/limits",
            &format!(
                "Max file size             {to:<20} unlimited            bytes\n\
                 Max open files            1024                 524288               files\n\
                 Max locked memory         unlimited            unlimited            bytes"
            ),
        );
        fake.examine("")
    };
    let line = limited(1 << 30).sole(Level::Warning, "file sizes");
    assert!(line.contains("limited to 1 GiB"), "{line}");
    assert!(line.contains("-> `ulimit -f unlimited`"), "{line}");
    let line = limited(1000 << 10).sole(Level::Failure, "file sizes");
    assert!(line.contains("needs more to start"), "{line}");
}

#[test]
fn a_slow_clock_is_a_warning_with_a_better_one_if_there_is() {
    const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";
    let mut fake = Fake::good();
    fake.put(&format!("{SOURCES}/current_clocksource"), "hpet");
    let line = fake.examine("").sole(Level::Warning, "clock");
    assert!(
        line.contains("source hpet, resolution 1 ns: reading it is slow"),
        "{line}"
    );
    assert!(line.contains("-> `echo tsc >"), "{line}");
    fake.put(&format!("{SOURCES}/available_clocksource"), "hpet acpi_pm");
    let line = fake.examine("").sole(Level::Warning, "clock");
    assert!(line.contains("all that this machine has"), "{line}");
    fake.put(&format!("{SOURCES}/current_clocksource"), "kvm-clock");
    assert_eq!(exit_code(&fake.examine("").0), 0);
    fake.probes.clock_resolution = Duration::from_millis(4);
    let line = fake.examine("").sole(Level::Warning, "clock");
    assert!(line.contains("4000000 ns: too coarse"), "{line}");
}

#[test]
fn a_single_processor_is_a_warning() {
    let mut fake = Fake::good();
    fake.probes.processors = 1;
    fake.examine("").sole(Level::Warning, "processors");
}
