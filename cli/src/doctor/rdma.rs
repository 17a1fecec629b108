//! RDMA: provider, kernel modules, device files, devices, ports and GIDs.

use std::fs::OpenOptions;
use std::io::ErrorKind;

use rdma_sys_shim::Error;
use rdma_sys_shim::rdma::{
    self, Choice, DefaultPrefix, GidEntry, LinkLayer, Port, RdmaDevice, Seat, SelectError,
    Selector, Subject,
};

use super::container;
use super::finding::{Finding, Level};
use super::machine::{Machine, Probes};
use super::wanted::Wanted;

const PORT: &str = "port";
const GID: &str = "GID";

/// `missing` is the level if something is missing that RDMA needs.
pub(super) fn check(
    machine: &Machine,
    probes: &Probes,
    devices: &[RdmaDevice],
    wanted: &Wanted,
    missing: Level,
) -> Vec<Finding> {
    if missing == Level::Ok {
        let found = match wanted {
            Wanted::Any => {
                "no device, so that jobs on several hosts use TCP; `transom doctor --device verbs` \
                 says what it takes"
            }
            Wanted::Tcp(_) => "not needed by the device tcp",
            Wanted::Soft | Wanted::Rdma(_) => "not needed by the device soft",
        };
        return vec![Finding::ok("RDMA", found)];
    }
    let mut findings = vec![provider(probes.verbs, missing)];
    if machine.has_kernel_devices() {
        findings.push(modules(machine, devices, missing));
    }
    let spec = match wanted {
        Wanted::Rdma(spec) => spec,
        _ => "",
    };
    let selector = match rdma::selector(spec, devices) {
        Ok(selector) => selector,
        Err(error) => {
            findings.push(refusal("device", &error, missing));
            return findings;
        }
    };
    let seat = machine.seat();
    let chosen = rdma::choose(devices, &selector, &seat);
    if let Err(error) = &chosen
        && error.subject != Subject::Ports
    {
        // No line about a port would contain this. A wrong name comes before what any name needs.
        let at = if selector.name.is_some() {
            0
        } else {
            findings.len()
        };
        findings.insert(at, refusal("device", error, missing));
        return findings;
    }
    // A defect of a port that is not needed is only a remark.
    let level = match chosen {
        Ok(_) => Level::Ok,
        Err(_) => missing,
    };
    let meant = |device: &&RdmaDevice| {
        let name = selector.name.as_ref();
        name.is_none_or(|name| device.name == *name)
    };
    findings.extend(subnets(devices, &selector, &seat, missing));
    for device in devices.iter().filter(meant) {
        let picked = chosen
            .as_ref()
            .is_ok_and(|choice| choice.device == device.name);
        let used = if picked { missing } else { level };
        if machine.has_kernel_devices() {
            findings.push(device_file(machine, device, used));
        }
        findings.extend(slot(machine, device, used));
        findings.extend(container::objects(machine, probes, &device.name, used));
        if picked
            && probes
                .asked(&device.name)
                .is_some_and(|asked| asked.atomics_by_agent)
        {
            findings.push(agent_atomics(probes, device, missing));
        }
        let numbers = device.ports.iter().map(|port| port.number);
        for number in numbers.filter(|&n| selector.port.is_none_or(|port| port == n)) {
            let here = Selector {
                name: Some(device.name.clone()),
                port: Some(number),
                ..selector.clone()
            };
            let picked = chosen
                .as_ref()
                .is_ok_and(|choice| choice.device == device.name && choice.port == number);
            let found = rdma::choose(devices, &here, &seat);
            if let Some(found_port) = device.port(number) {
                let picked = picked.then_some(missing);
                findings.extend(port(machine, device, found_port, found, level, picked));
            }
        }
    }
    findings
}

/// The finding for several InfiniBand ports whose prefix does not say to which fabric they belong.
fn subnets(
    devices: &[RdmaDevice],
    selector: &Selector,
    seat: &Seat,
    level: Level,
) -> Option<Finding> {
    const CHECK: &str = "InfiniBand subnets";
    let DefaultPrefix { ports, common_lid } = rdma::default_prefix(devices, selector, seat)?;
    let said = format!("{} have the default prefix fe80::", ports.join(", "));
    Some(match common_lid {
        None => Finding::ok(
            CHECK,
            format!("{said}; they have one subnet manager's LID, and so are taken to be one"),
        ),
        Some(lid) => Finding::bad(
            level.min(Level::Warning),
            CHECK,
            format!("{said}, and two of them LID {lid}: they are on two, which nothing tells ranks of other hosts apart by"),
            Some(
                "give each subnet a prefix of its own (`subnet_prefix` of opensm), or name the device on all hosts"
                    .to_owned(),
            ),
        ),
    })
}

fn provider(has_verbs: bool, level: Level) -> Finding {
    const CHECK: &str = "verbs provider";
    if has_verbs {
        return Finding::ok(CHECK, "in this build");
    }
    Finding::bad(
        level,
        CHECK,
        "not in this build, which uses the device soft only",
        Some("build with `--features verbs`".to_owned()),
    )
}

fn modules(machine: &Machine, devices: &[RdmaDevice], level: Level) -> Finding {
    const CHECK: &str = "kernel modules";
    // A module that is built in may be visible only by the files that it makes.
    let wanted = [
        ("ib_core", rdma::CLASS),
        ("ib_uverbs", "/sys/class/infiniband_verbs"),
    ];
    let absent = |name: &str| !machine.has(&format!("/sys/module/{name}"));
    let missing = wanted
        .iter()
        .filter(|(name, class)| absent(name) && !machine.has(class));
    let mut missing: Vec<_> = missing.map(|&(name, _)| name).collect();
    // Hardware comes with its own driver. Without hardware, soft-RoCE's is needed.
    if devices.is_empty() && absent("rdma_rxe") {
        missing.push("rdma_rxe");
    }
    if missing.is_empty() {
        return Finding::ok(CHECK, "loaded");
    }
    Finding::bad(
        level,
        CHECK,
        format!("{} not loaded", missing.join(", ")),
        Some(format!(
            "`modprobe -a {}` (as root; for a container, on its host)",
            missing.join(" ")
        )),
    )
}

/// Whether this user can open the file by which verbs access the device. `level` is the level if not.
fn device_file(machine: &Machine, device: &RdmaDevice, level: Level) -> Finding {
    const CHECK: &str = "device file";
    let name = &device.name;
    let class = "/sys/class/infiniband_verbs";
    let node = machine.names(class).into_iter().find(|node| {
        machine.text(&format!("{class}/{node}/ibdev")).as_deref() == Some(&device.name)
    });
    let Some(node) = node else {
        return Finding::bad(
            level,
            CHECK,
            format!("{name} has none"),
            Some("`modprobe ib_uverbs`".to_owned()),
        );
    };
    let path = format!("/dev/infiniband/{node}");
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(machine.path(&path));
    let Err(error) = opened else {
        return Finding::ok(CHECK, format!("{path} of {name} can be opened"));
    };
    let remedy = match error.kind() {
        ErrorKind::NotFound => format!("`--device {path}` for a container; else udev has to run"),
        _ => format!(
            "`chmod 666 {path}` (Debian's rdma-core has a udev rule for it), or `--device {path}` \
             for a container"
        ),
    };
    Finding::bad(
        level,
        CHECK,
        format!("{path} of {name}: {error}"),
        Some(remedy),
    )
}

/// The PCIe link of an adapter. `level` is the most if it is too slow for a port.
fn slot(machine: &Machine, device: &RdmaDevice, level: Level) -> Option<Finding> {
    const CHECK: &str = "slot";
    let slot = machine.slot(&device.name)?;
    let found = format!("{}: {slot}", device.name);
    let active = device.ports.iter().filter(|port| port.is_active());
    let speed = active.map(Port::speed).max().unwrap_or(0);
    if !slot.is_too_slow_for(speed) {
        return Some(Finding::ok(CHECK, found));
    }
    Some(Finding::bad(
        level.min(Level::Warning),
        CHECK,
        format!("{found}, which is slower than its port of {} Gb/s", speed as f64 / 1000.0),
        Some("put it into another slot, or seat it anew; or has power saving lowered the speed while it is idle?".to_owned()),
    ))
}

/// The finding if a thread of the target carries out the device's atomics: the hosts must also reach each other by TCP.
fn agent_atomics(probes: &Probes, device: &RdmaDevice, level: Level) -> Finding {
    const CHECK: &str = "atomics";
    let said = format!(
        "a thread of the target carries out those of {}, over TCP",
        device.name
    );
    match &probes.tcp {
        Ok(_) => Finding::ok(
            CHECK,
            format!("{said}, so that hosts have to reach each other by TCP, too"),
        ),
        Err(error) => Finding::bad(
            level,
            CHECK,
            format!("{said}, which cannot be used: {error}"),
            Some("see docs/tcp.md".to_owned()),
        ),
    }
}

/// The findings for a port. `found` is what the selection finds on it, and `level` the level if it finds nothing.
/// `picked` is that level for the port that would be used. Other ports are only described.
fn port(
    machine: &Machine,
    device: &RdmaDevice,
    port: &Port,
    found: Result<Choice, SelectError>,
    level: Level,
    picked: Option<Level>,
) -> Vec<Finding> {
    let name = format!("{} port {}", device.name, port.number);
    let inactive = !port.is_active() || port.link_layer == LinkLayer::Other;
    let works = || Finding::ok(PORT, format!("{name} is {}", describe(port)));
    match found {
        Err(error) if inactive || device.iwarp => vec![refusal(PORT, &error, level)],
        Err(error) => vec![works(), refusal(GID, &error, level)],
        Ok(Choice {
            gid: Some(entry), ..
        }) if port.link_layer == LinkLayer::Ethernet => {
            let shown = format!(
                "{name} index {}: {}, {}",
                entry.index, entry.gid, entry.kind
            );
            let finding = match picked {
                Some(missing) => gid(machine, port, &entry, shown, missing),
                None => Finding::ok(GID, shown),
            };
            vec![works(), finding]
        }
        Ok(_) => vec![works()],
    }
}

fn describe(port: &Port) -> String {
    let mut said = format!("{}, {}", port.state, port.link_layer);
    if let Some(netdev) = &port.netdev {
        said.push_str(&format!(" ({netdev})"));
    }
    if port.link_layer == LinkLayer::InfiniBand {
        said.push_str(&format!(", LID {}", port.lid));
    }
    if !port.rate.is_empty() {
        said.push_str(&format!(", {}", port.rate));
    }
    said
}

/// The finding for the GID that would be used.
fn gid(machine: &Machine, port: &Port, entry: &GidEntry, shown: String, level: Level) -> Finding {
    let netdev = entry.netdev.as_ref().or(port.netdev.as_ref());
    let netdev = netdev.map_or("NETDEV", String::as_str);
    let address = format!("`ip addr add ADDRESS/PREFIX dev {netdev}`");
    if entry.gid.to_ipv4_mapped().is_none() && !has_ipv6(machine, entry, netdev) {
        return Finding::bad(
            level,
            GID,
            format!("{shown}, which is not an address of {netdev}: no packet finds its way"),
            Some(address),
        );
    }
    if entry.gid.is_unicast_link_local() {
        return Finding::warning(
            GID,
            format!("{shown}, which is link-local: it reaches no further than the link"),
            address,
        );
    }
    Finding::ok(GID, shown)
}

/// Whether the network device has the GID as an IPv6 address. A port has a GID made of its hardware address even if the
/// network device does not have that address.
fn has_ipv6(machine: &Machine, entry: &GidEntry, netdev: &str) -> bool {
    let digits = format!("{:032x}", entry.gid.to_bits());
    let table = machine.text("/proc/net/if_inet6").unwrap_or_default();
    table.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(&digits) && words.next_back() == Some(netdev)
    })
}

fn refusal(check: &str, error: &SelectError, level: Level) -> Finding {
    match error.subject {
        // Names of devices other than RDMA devices are known, too.
        Subject::Name { .. } => {
            let found = Error::from(error.clone()).to_string();
            Finding::bad(level, check, found, None)
        }
        _ => Finding::bad(level, check, error.found.clone(), error.remedy.clone()),
    }
}
