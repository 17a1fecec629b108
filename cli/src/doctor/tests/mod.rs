//! The checks on simulated machines: one on which all is well, with one defect at a time.

mod host;
mod memory;
mod rdma;
mod tcp;

use std::fs;
use std::io;
use std::time::Duration;

use tempfile::TempDir;

use super::super::screen::json_lines;
use super::finding::{self, Finding, Level, bytes, exit_code};
use super::machine::{self, Asked, Machine, Probes};
use super::wanted::Wanted;

const GIDS: &str = "/sys/class/infiniband/rxe0/ports/1";

/// The output without colours.
fn text(findings: &[Finding]) -> String {
    anstream::adapter::strip_str(&finding::text(findings, None)).to_string()
}

/// A machine, and the results of probes on it.
struct Fake {
    root: TempDir,
    probes: Probes,
}

impl Fake {
    /// Soft-RoCE over dummy0 with one IPv4 address, no limits, a good clock.
    fn good() -> Self {
        let fake = Self::without_rdma();
        fake.put("/sys/module/ib_core/initstate", "live");
        fake.put("/sys/module/ib_uverbs/initstate", "live");
        fake.rxe("rxe0", "uverbs0");
        fake.gid(0, "fe80:0000:0000:0000:5054:00ff:fe12:3456", "RoCE v2");
        fake.gid(1, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2");
        fake
    }

    fn without_rdma() -> Self {
        let fake = Self {
            root: tempfile::tempdir().unwrap(),
            probes: Probes {
                verbs: true,
                asked: Vec::new(),
                attach: Ok(()),
                mapping: Ok(()),
                launcher: Ok(()),
                tcp: Ok(vec!["eth0: 192.0.2.1/24".to_owned()]),
                clock_resolution: Duration::from_nanos(1),
                processors: 2,
            },
        };
        fake.limits("unlimited", "unlimited", "1024 524288");
        fake.status("0000000000000000", "0");
        fake.put("/proc/self/uid_map", "         0          0 4294967295");
        fake.put("/proc/self/cgroup", "0::/");
        let clock = "/sys/devices/system/clocksource/clocksource0";
        fake.put(&format!("{clock}/current_clocksource"), "tsc");
        fake.put(
            &format!("{clock}/available_clocksource"),
            "tsc hpet acpi_pm",
        );
        fake
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.root.path().join(path.trim_start_matches('/'));
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    fn rxe(&self, name: &str, node: &str) {
        let device = format!("/sys/class/infiniband/{name}");
        self.put(&format!("{device}/parent"), "dummy0");
        self.put(&format!("{device}/ports/1/state"), "4: ACTIVE");
        self.put(&format!("{device}/ports/1/phys_state"), "5: LinkUp");
        self.put(&format!("{device}/ports/1/link_layer"), "Ethernet");
        self.put(&format!("/sys/class/infiniband_verbs/{node}/ibdev"), name);
        self.put(&format!("/dev/infiniband/{node}"), "");
    }

    /// An entry of the GID table of rxe0.
    fn gid(&self, index: u8, gid: &str, kind: &str) {
        self.put(&format!("{GIDS}/gids/{index}"), gid);
        self.put(&format!("{GIDS}/gid_attrs/types/{index}"), kind);
        self.put(&format!("{GIDS}/gid_attrs/ndevs/{index}"), "dummy0");
    }

    fn limits(&self, locked: &str, locked_hard: &str, files: &str) {
        self.put(
            "/proc/self/limits",
            &format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max open files            {files} files\n\
                 Max locked memory         {locked:<20} {locked_hard:<20} bytes"
            ),
        );
    }

    fn status(&self, capabilities: &str, seccomp: &str) {
        let content = format!("Name:\ttransom\nCapEff:\t{capabilities}\nSeccomp:\t{seccomp}");
        self.put("/proc/self/status", &content);
    }

    fn examine(&self, spec: &str) -> Report {
        let machine = Machine::at(self.root.path());
        Report(super::examine(&machine, &self.probes, &Wanted::parse(spec)))
    }
}

struct Report(Vec<Finding>);

impl Report {
    /// The only finding of this check.
    #[track_caller]
    fn only(&self, check: &str) -> &Finding {
        let mut found = self.0.iter().filter(|finding| finding.check == check);
        match (found.next(), found.next()) {
            (Some(finding), None) => finding,
            _ => panic!("not one {check:?} in\n{}", text(&self.0)),
        }
    }

    /// Asserts that only this check finds a problem, and returns its line without the level.
    #[track_caller]
    fn sole(&self, level: Level, check: &str) -> String {
        let (verdict, checks) = self.0.split_last().unwrap();
        let bad = checks.iter().filter(|finding| finding.level != Level::Ok);
        let bad: Vec<_> = bad
            .map(|finding| (finding.level, &*finding.check))
            .collect();
        assert_eq!(bad, [(level, check)], "{}", text(&self.0));
        assert_eq!(
            exit_code(&self.0),
            if level == Level::Failure { 2 } else { 1 }
        );
        let finding = self.only(check);
        assert!(finding.remedy.is_some(), "{finding:?}");
        assert_eq!((&*verdict.check, verdict.level), ("verdict", level));
        assert_eq!(verdict.remedy, finding.remedy);
        assert!(
            verdict.found.ends_with(&format!(" ({check})")),
            "{verdict:?}"
        );
        text(std::slice::from_ref(finding))[9..]
            .trim_end()
            .to_owned()
    }
}

fn refused(call: &str, errno: i32) -> rdma_sys_shim::Error {
    rdma_sys_shim::Error::System {
        call: call.to_owned(),
        source: io::Error::from_raw_os_error(errno).into(),
        remedy: None,
    }
}

#[test]
fn a_good_machine_is_well_whatever_is_asked_for() {
    let fake = Fake::good();
    for spec in [
        "",
        "auto",
        "soft",
        "soft:cma=off",
        "verbs",
        "rxe0",
        "rxe0:1",
        "rxe0:1:1",
    ] {
        let report = fake.examine(spec);
        assert_eq!(exit_code(&report.0), 0, "{spec}:\n{}", text(&report.0));
        assert!(report.0.iter().all(|finding| finding.remedy.is_none()));
    }
    for (spec, jobs) in [
        ("", "jobs on this machine use soft"),
        ("soft:cma=off", "jobs use soft, which is named"),
        ("rxe0:1", "jobs use \"rxe0:1\", which is named"),
    ] {
        let verdict = fake.examine(spec).0.pop().unwrap();
        assert_eq!(verdict.found, format!("{jobs}: ready"));
    }
    let report = fake.examine("");
    assert_eq!(
        report.only("port").found,
        "rxe0 port 1 is ACTIVE, Ethernet (dummy0)"
    );
    assert_eq!(
        report.only("GID").found,
        "rxe0 port 1 index 1: ::ffff:10.0.0.1, RoCE v2"
    );
}

#[test]
fn a_machine_of_which_nothing_can_be_read_is_no_panic() {
    let mut fake = Fake::without_rdma();
    fake.root = tempfile::tempdir().unwrap();
    let report = fake.examine("");
    assert_eq!(exit_code(&report.0), 1, "{}", text(&report.0));
    assert_eq!(report.only("locked memory").found, "the limit is not known");
}

#[test]
fn lines_and_json_say_level_finding_and_remedy() {
    let findings = [
        Finding::ok("clock", "source tsc"),
        Finding::warning("GID", "link-local", "`ip addr add`"),
        Finding::bad(Level::Failure, "port", "is DOWN", None),
    ];
    assert_eq!(
        text(&findings),
        "ok       clock: source tsc\n\
         warning  GID: link-local -> `ip addr add`\n\
         FAILURE  port: is DOWN\n"
    );
    let lines = json_lines(&findings);
    let second: serde_json::Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    let expected = serde_json::json!({
        "check": "GID", "level": "warning", "found": "link-local", "remedy": "`ip addr add`",
    });
    assert_eq!(second, expected);
    assert_eq!(exit_code(&findings[..1]), 0);
    assert_eq!(exit_code(&findings[..2]), 1);
    assert_eq!(exit_code(&findings), 2);
}

#[test]
fn a_terminal_breaks_no_word() {
    let long = Finding::warning(
        "port",
        "rxe0 port 1 is DOWN",
        "`ip link set a-network-device-with-a-name-that-is-longer-than-lines up`",
    );
    let text = finding::text(&[long], Some(32));
    assert_eq!(
        anstream::adapter::strip_str(&text).to_string(),
        "warning  port: rxe0 port 1 is\n         \
         DOWN -> `ip link set\n         \
         a-network-device-with-a-name-that-is-longer-than-lines\n         \
         up`\n"
    );
}

#[test]
fn the_verdict_names_what_is_wrong_and_what_helps() {
    let mut fake = Fake::without_rdma();
    fake.limits("unlimited", "unlimited", "71 71");
    let verdict = |fake: &Fake| fake.examine("").0.pop().unwrap();
    assert_eq!(
        verdict(&fake).found,
        "jobs on this machine use soft: not ready (open files)"
    );
    assert!(verdict(&fake).remedy.unwrap().contains("nofile"));
    fake.probes.processors = 1;
    fake.limits("unlimited", "unlimited", "67 67");
    fake.probes.mapping = Err(refused("memfd_create", libc::ENOSYS));
    assert_eq!(
        verdict(&fake).found,
        "jobs on this machine use soft: not ready (memory of other ranks, open files)"
    );
    assert_eq!(
        verdict(&fake).remedy.unwrap(),
        "see the lines above that say FAILURE"
    );
}

#[test]
fn sizes_are_said_in_the_unit_they_fill() {
    assert_eq!(bytes(0), "0 bytes");
    assert_eq!(bytes(1023), "1023 bytes");
    assert_eq!(bytes(64 << 10), "64 KiB");
    assert_eq!(bytes((3 << 20) + (1 << 19)), "3.5 MiB");
    assert_eq!(bytes(u64::MAX), "17179869183.9 GiB");
}
