//! `transom doctor --self-test`: tests the devices between two nodes, for a report that a user can send.
//!
//! The ranks agree on each step over TCP, and open the devices under test in addition.

mod checks;
mod counters;
mod introduction;
mod link;

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;
use std::sync::Arc;

use rdma_sys_shim::rdma::Seat;
use rdma_sys_shim::{Device, Joining, Surroundings};
use transom::devices::REGISTRY;
use transom::launcher::{Launch, is_launched};
use transom::{Communicator, Job};
use transom_launch::oversubscription;

use super::super::DEVICE;
use super::finding::{self, Finding, Level};
use super::report;
use checks::{FlagKind, Outcome, Role};
use counters::Counts;
use introduction::{Candidate, Introduction};
use link::{End, Link, Offer};

/// The device over which the ranks agree.
const BESIDE: &str = "tcp";

pub(super) fn run(device: Option<String>, json: bool) -> ExitCode {
    if !is_launched() {
        return launch(device, json);
    }
    let spec = device.or_else(super::super::device_variable);
    // SAFETY: the process has only this thread, so nothing reads the environment meanwhile.
    unsafe {
        let is_beside = |spec: &&str| spec.split(':').next() == Some(BESIDE);
        env::set_var(DEVICE, spec.as_deref().filter(is_beside).unwrap_or(BESIDE));
        // Otherwise ranks of one host would bypass the device.
        env::set_var("TRANSOM_NEIGHBOURS", "off");
    }
    match test(spec.as_deref(), json) {
        Ok(code) => code,
        Err(error) => super::super::fail(&error, 2),
    }
}

/// Starts two ranks on this machine.
fn launch(device: Option<String>, json: bool) -> ExitCode {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return super::super::fail(&format_args!("finding this program: {error}"), 2),
    };
    let options = device
        .into_iter()
        .flat_map(|device| ["--device".to_owned(), device]);
    let outcome = Launch::new(2, program)
        .args(["doctor", "--self-test"])
        .args(options)
        .args(json.then_some("--json"))
        .name("transom doctor")
        .direct_output(super::super::screen::columns().is_some())
        .run();
    match outcome {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => super::super::fail(&error, error.exit_code()),
    }
}

/// A device of rank 0 and one of another rank.
struct Pair<'a> {
    peer: u32,
    specs: [&'a str; 2],
    /// The speed of the slower port in Mb/s; `None` if it has no meaning.
    speed: Option<u64>,
    /// Whether a job would choose both devices, so that they have to reach each other.
    is_own: bool,
}

impl Pair<'_> {
    fn ranks(&self) -> [String; 2] {
        let [here, there] = self.specs;
        [
            format!("rank 0 ({here})"),
            format!("rank {} ({there})", self.peer),
        ]
    }

    /// A text with the direction: from which rank to which.
    fn way(&self, origin: u32) -> String {
        let [first, second] = self.ranks();
        match origin {
            0 => format!("{first} to {second}"),
            _ => format!("{second} to {first}"),
        }
    }

    fn said(&self, found: &str) -> String {
        format!("{}: {found}", self.ranks().join(", "))
    }

    fn unconnected(&self, found: &str) -> Finding {
        const CHECK: &str = "connection";
        match self.is_own {
            true => failure(CHECK, &self.said(found)),
            false => Finding::warning(
                CHECK,
                self.said(found),
                "if these are on one network, see docs/troubleshooting.md; else ranks must not take one each: name \
                 the device, or TRANSOM_RDMA_SUBNET",
            ),
        }
    }
}

/// The job's ranks, and the findings, which only rank 0 has.
struct Tester<'a> {
    world: &'a Communicator,
    /// What all ranks support.
    joining: Joining,
    opened: BTreeMap<String, Result<Arc<dyn Device>, String>>,
    findings: Vec<Finding>,
}

fn test(spec: Option<&str>, json: bool) -> transom::Result<ExitCode> {
    let job = Job::init()?;
    let mut tester = Tester {
        world: job.world(),
        joining: Joining::default(),
        opened: BTreeMap::new(),
        findings: Vec::new(),
    };
    let ran = tester.run(spec);
    if let Err(error) = ran {
        if job.world().rank() != 0 {
            return Err(error);
        }
        (tester.findings).push(failure("self-test", &error.to_string()));
        return Ok(report(&tester.findings, json));
    }
    let Tester {
        opened, findings, ..
    } = tester;
    for device in opened.into_values().flatten() {
        device.close();
    }
    let code = match job.world().rank() {
        0 => report(&findings, json),
        _ => ExitCode::SUCCESS,
    };
    job.finish()?;
    Ok(code)
}

impl Tester<'_> {
    fn run(&mut self, spec: Option<&str>) -> transom::Result<()> {
        let mine = Introduction::new(spec);
        let text = serde_json::to_vec(&mine).expect("strings and numbers only");
        let all = self.world.allgatherv(&text)?;
        let all = all
            .iter()
            .map(|text| serde_json::from_slice::<Introduction>(text));
        let Ok(all) = all.collect::<Result<Vec<_>, _>>() else {
            self.findings.push(failure(
                "ranks",
                "they are of different versions of transom",
            ));
            return Ok(());
        };
        let version = env!("CARGO_PKG_VERSION");
        self.findings.push(Finding::ok(
            "self-test",
            format!("transom {version}, {} ranks", all.len()),
        ));
        for (rank, of_rank) in all.iter().enumerate() {
            self.findings
                .push(Finding::ok(format!("rank {rank}"), of_rank.host.clone()));
            for Candidate { spec, said, .. } in &of_rank.candidates {
                self.findings.push(Finding::ok(
                    format!("rank {rank}"),
                    format!("{spec}: {said}"),
                ));
            }
        }
        if all.len() < 2 {
            self.findings.push(Finding::bad(
                Level::Failure,
                "ranks",
                "there is one rank alone",
                Some("mpiexec -hosts HOST,HOST -n 2 transom doctor --self-test".to_owned()),
            ));
        }
        // As in jobs: ranks do not agree on a device if the user named one.
        if all.iter().all(|rank| !rank.is_named) {
            let common = all
                .iter()
                .fold(u32::MAX, |common, rank| common & rank.joining);
            self.joining = Joining(common);
        }
        let count = || mine.candidates.iter().map(counters::read);
        let before: Vec<_> = count().collect();
        for peer in 1..all.len() {
            self.pair(&all, peer as u32)?;
        }
        let both = before.iter().zip(count());
        let risen: Vec<_> = both
            .map(|(before, after)| counters::risen(before, &after))
            .collect();
        self.add_counters(&all, &risen)?;
        self.findings.push(verdict(&self.findings));
        Ok(())
    }

    /// Collective. Adds what the ports of each rank's devices counted meanwhile.
    fn add_counters(&mut self, all: &[Introduction], mine: &[Counts]) -> transom::Result<()> {
        let mine = serde_json::to_string(mine).expect("strings and numbers only");
        let texts = self.settle(Ok(mine))?;
        for (rank, (introduction, text)) in all.iter().zip(texts).enumerate() {
            let counts: Vec<Counts> =
                serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default();
            for (candidate, risen) in introduction.candidates.iter().zip(&counts) {
                let whose = format!("rank {rank} ({})", candidate.spec);
                self.findings.extend(counters::findings(&whose, risen));
            }
        }
        Ok(())
    }

    /// Tests the devices of rank 0 with those of another rank.
    fn pair(&mut self, all: &[Introduction], peer: u32) -> transom::Result<()> {
        let [first, second] = [&all[0], &all[peer as usize]];
        let is_named = first.is_named || second.is_named;
        let one_host = first.shares_host(second);
        let mut tested = 0;
        for here in &first.candidates {
            for there in &second.candidates {
                let joins = one_host || here.provider != REGISTRY.name_on_one_host();
                let is_tried = is_named || joins && here.provider == there.provider;
                if !is_tried {
                    continue;
                }
                tested += 1;
                let speeds = here.speed.zip(there.speed);
                self.link(&Pair {
                    peer,
                    specs: [&here.spec, &there.spec],
                    speed: speeds.map(|(here, there)| here.min(there)),
                    is_own: is_named || here.is_chosen && there.is_chosen,
                })?;
            }
        }
        if tested == 0 {
            let found = format!("rank 0 and rank {peer} have none in common");
            self.findings.push(failure("devices", &found));
        }
        Ok(())
    }

    /// Tests one device of rank 0 with one of another rank.
    fn link(&mut self, pair: &Pair<'_>) -> transom::Result<()> {
        let (peer, specs) = (pair.peer, pair.specs);
        let side = [0, peer]
            .into_iter()
            .position(|rank| rank == self.world.rank());
        let end = side.map(|side| End::new(&self.open(specs[side])?));
        let offer = match &end {
            Some(Ok(end)) => serde_json::to_string(&end.offer()).expect("numbers only"),
            _ => String::new(),
        };
        let mine = match end.as_ref() {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(offer),
        };
        let offers = self.settle(mine)?;
        if let Some(found) = complaints(&offers) {
            self.findings.push(failure("opening", &pair.said(&found)));
            return Ok(());
        }
        let link = side.zip(end).map(|(side, end)| {
            let theirs = &offers[[peer, 0][side] as usize];
            let theirs = theirs.as_deref().unwrap_or_default();
            let offer: Offer = serde_json::from_str(theirs).map_err(|error| error.to_string())?;
            end?.connect(&offer)
        });
        let (link, connected) = match link {
            Some(Err(error)) => (None, Err(error)),
            Some(Ok(link)) => (Some(link), Ok(String::new())),
            None => (None, Ok(String::new())),
        };
        let connected = self.settle(connected)?;
        if let Some(found) = complaints(&connected) {
            self.findings.push(pair.unconnected(&found));
            return Ok(());
        }
        for origin in [0, peer] {
            let role = match self.world.rank() {
                rank if rank == origin => Some(Role::Origin),
                rank if rank == peer - origin => Some(Role::Target),
                _ => None,
            };
            if !self.direction(pair, origin, link.as_ref().zip(role))? {
                break;
            }
        }
        Ok(())
    }

    /// Makes the checks until one fails. Returns whether all succeeded.
    fn direction(
        &mut self,
        pair: &Pair<'_>,
        origin: u32,
        both: Option<(&Link, Role)>,
    ) -> transom::Result<bool> {
        let way = pair.way(origin);
        type Check = fn(&Link, Role) -> Outcome;
        let steps: [(&str, Check); 9] = [
            ("data", checks::data),
            ("atomics", checks::atomics),
            ("atomics", checks::atomics_in_memory),
            ("sums", checks::sums),
            ("sums", checks::sums_in_memory),
            ("atomic domain", checks::sums_beside_processor),
            ("atomic domain", checks::sums_beside_processor_in_memory),
            ("order (write, store)", |link, role| {
                checks::order(link, role, FlagKind::Stored)
            }),
            ("order (write, atomic)", |link, role| {
                checks::order(link, role, FlagKind::Added)
            }),
        ];
        for (name, check) in steps {
            let mine = both.map_or(Ok(String::new()), |(link, role)| check(link, role));
            let outcomes = self.settle(mine)?;
            if let Some(found) = complaints(&outcomes) {
                // No check has succeeded yet.
                self.findings.push(match name {
                    "data" => pair.unconnected(&found),
                    _ => failure(name, &format!("{way}: {found}")),
                });
                return Ok(false);
            }
            let said: Vec<_> = outcomes
                .into_iter()
                .flatten()
                .filter(|text| !text.is_empty())
                .collect();
            if !said.is_empty() {
                self.findings
                    .push(Finding::ok(name, format!("{way}: {}", said.join("; "))));
            }
        }
        let rate = both.map_or(Ok(0.0), |(link, role)| checks::bandwidth(link, role));
        let rates = self.settle(rate.map(|rate| rate.to_string()))?;
        if let Some(found) = complaints(&rates) {
            self.findings
                .push(failure("bandwidth", &format!("{way}: {found}")));
            return Ok(false);
        }
        let rates = rates
            .into_iter()
            .flatten()
            .filter_map(|text| text.parse().ok());
        let rate = rates.fold(0.0, f64::max);
        self.findings.push(bandwidth(&way, rate, pair.speed));
        Ok(true)
    }

    fn open(&mut self, spec: &str) -> Result<Arc<dyn Device>, String> {
        let opened = self.opened.entry(spec.to_owned()).or_insert_with(|| {
            let around = Surroundings {
                seat: Seat::here(&oversubscription::allowed()),
                joining: self.joining,
                ..Surroundings::default()
            };
            let opened = REGISTRY.open(spec, &around);
            opened.map_err(|error| error.to_string())
        });
        opened.clone()
    }

    /// Collective. Returns every rank's outcome.
    fn settle(&self, mine: Outcome) -> transom::Result<Vec<Outcome>> {
        let (mark, text) = match &mine {
            Ok(text) => (b'+', text),
            Err(text) => (b'-', text),
        };
        let bytes: Vec<u8> = [mark].into_iter().chain(text.bytes()).collect();
        let all = self.world.allgatherv(&bytes)?;
        let outcome = |bytes: &Vec<u8>| match bytes.split_first() {
            Some((b'+', text)) => Ok(String::from_utf8_lossy(text).into_owned()),
            Some((_, text)) => Err(String::from_utf8_lossy(text).into_owned()),
            None => Ok(String::new()),
        };
        Ok(all.iter().map(outcome).collect())
    }
}

/// The complaints of the ranks, each with the rank's number.
fn complaints(outcomes: &[Outcome]) -> Option<String> {
    let complaints = outcomes.iter().enumerate().filter_map(|(rank, outcome)| {
        let error = outcome.as_ref().err()?;
        Some(format!("rank {rank}: {error}"))
    });
    let complaints: Vec<_> = complaints.collect();
    (!complaints.is_empty()).then(|| complaints.join("; "))
}

fn failure(check: &str, found: &str) -> Finding {
    Finding::bad(Level::Failure, check, found, None)
}

/// `rate` is in bytes per second, `speed` that of the slower port in Mb/s.
fn bandwidth(way: &str, rate: f64, speed: Option<u64>) -> Finding {
    const CHECK: &str = "bandwidth";
    let said = format!("{way}: put of 1 MiB: {:.2} GB/s", rate / 1e9);
    let Some(speed) = speed else {
        return Finding::ok(CHECK, said);
    };
    let percent = rate * 8.0 / (speed as f64 * 1e6) * 100.0;
    let said = format!(
        "{said}, {percent:.0} % of the port's {} Gb/s",
        speed as f64 / 1000.0
    );
    match percent < 50.0 {
        false => Finding::ok(CHECK, said),
        true => Finding::warning(
            CHECK,
            said,
            "is something else on the wire? is the slot wide enough (`lspci -vv`: LnkSta)? is the port on the \
             processor's socket? is RoCE in the lossless class (TRANSOM_RDMA_TRAFFIC_CLASS)?",
        ),
    }
}

fn verdict(findings: &[Finding]) -> Finding {
    const CHECK: &str = "verdict";
    let worst = finding::worst(findings);
    let see = format!("see the lines above that say {}", worst.word());
    match worst {
        Level::Ok => Finding::ok(CHECK, "all is right"),
        Level::Warning => Finding::warning(CHECK, "all is right, with warnings", see),
        Level::Failure => Finding::bad(worst, CHECK, "something is wrong", Some(see)),
    }
}

#[cfg(test)]
mod tests;
