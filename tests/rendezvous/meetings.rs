//! Ranks that meet, and go on to make windows.

use std::io::Write as _;

use libtest_mimic::Trial;
use transom_testing::job::Job;
use transom_testing::ports::has_ipv6;

use crate::started::{Plan, ended, succeeded};

type Case = (&'static str, fn(&Over));

const CASES: &[Case] = &[
    ("by_an_address", by_an_address),
    ("by_a_name", by_a_name),
    ("with_a_secret", with_a_secret),
    ("by_the_name_of_this_host", by_the_name_of_this_host),
    ("rank_0_comes_last", rank_0_comes_last),
    ("among_strangers", among_strangers),
    ("told_by_torchrun", told_by_torchrun),
    ("told_by_an_indexed_job", told_by_an_indexed_job),
    ("told_by_flux", told_by_flux),
    ("one_job_after_another", one_job_after_another),
    ("aborts_reach_the_others", aborts_reach_the_others),
    (
        "no_call_succeeds_after_an_abort",
        no_call_succeeds_after_an_abort,
    ),
];

/// Where the machine has it.
const OF_IPV6: Case = ("by_ipv6", by_ipv6);

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let cases = CASES.iter().chain(has_ipv6().then_some(&OF_IPV6));
    cases.map(|case| trial(device, *case)).collect()
}

pub(crate) fn of_many(device: &'static str) -> Trial {
    trial(device, ("sixty_four_at_once", sixty_four_at_once))
}

fn trial(device: &'static str, (name, test): Case) -> Trial {
    Trial::test(format!("{device}/meetings/{name}"), move || {
        test(&Over { device });
        Ok(())
    })
}

struct Over {
    device: &'static str,
}

impl Over {
    fn plan(&self, host: &str, size: u32) -> Plan {
        Plan::new(host, size).with("TRANSOM_DEVICE", self.device)
    }
}

fn ring(plan: &Plan, size: u32) -> Vec<Job> {
    (0..size).map(|rank| plan.rank(rank, "ring")).collect()
}

fn by_an_address(over: &Over) {
    succeeded(ring(&over.plan("127.0.0.1", 3), 3));
}

fn by_a_name(over: &Over) {
    succeeded(ring(&over.plan("localhost", 2), 2));
}

fn by_ipv6(over: &Over) {
    succeeded(ring(&over.plan("[::1]", 2), 2));
}

fn with_a_secret(over: &Over) {
    let plan = over.plan("127.0.0.1", 4);
    succeeded(ring(&plan.with("TRANSOM_JOB_SECRET", "correct horse"), 4));
}

/// At all of its addresses, since others may know it by another one.
fn by_the_name_of_this_host(over: &Over) {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let plan = over.plan(name.trim(), 2);
    let plan = plan.with("TRANSOM_JOB_SECRET", "correct horse");
    // Its own part needs no name; and the others find it by any that leads here.
    let first = plan.rank(0, "ring");
    let other = plan.with("TRANSOM_RENDEZVOUS", &format!("127.0.0.1:{}", plan.port));
    succeeded(vec![first, other.rank(1, "ring")]);
}

fn rank_0_comes_last(over: &Over) {
    let plan = over.plan("127.0.0.1", 3);
    let others = [plan.ready(1, "ring"), plan.ready(2, "ring")];
    let first = plan.rank(0, "ring");
    succeeded([first].into_iter().chain(others).collect());
}

fn among_strangers(over: &Over) {
    let plan = over.plan("127.0.0.1", 3);
    let plan = plan.with("TRANSOM_JOB_SECRET", "correct horse");
    let first = plan.rank(0, "ring");
    let says: [&[u8]; 5] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"transom meeting\x03",
        &[0xff; 4096],
        b"transom meeting\x04",
    ];
    let mut strangers = Vec::new();
    for turn in 0..40 {
        let mut stream = plan.stranger();
        let _ = stream.write_all(says[turn % says.len()]);
        // Some hang up, the others stay for as long as they may.
        if turn % 3 != 0 {
            strangers.push(stream);
        }
    }
    // One knows the protocol, but for the secret.
    let mut impostor = plan.stranger();
    let hello = [
        &b"transom meeting\x03\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"[..],
        &[7; 64],
    ]
    .concat();
    impostor.write_all(&hello).expect("rank 0 listens");
    strangers.push(impostor);
    succeeded(vec![first, plan.rank(1, "ring"), plan.rank(2, "ring")]);
}

fn told_by_torchrun(over: &Over) {
    let plan = over.plan("127.0.0.1", 2);
    let before = plan.port - 1;
    let plan = plan
        .without("TRANSOM_RENDEZVOUS")
        .without("TRANSOM_SIZE")
        .with("TORCHELASTIC_RUN_ID", "none")
        .with("WORLD_SIZE", "2")
        .with("MASTER_ADDR", "127.0.0.1")
        .with("MASTER_PORT", &before.to_string());
    let rank = |rank: u32| plan.with("RANK", &rank.to_string()).process("ring");
    succeeded(vec![rank(0), rank(1)]);
}

fn told_by_an_indexed_job(over: &Over) {
    let plan = over.plan("localhost", 2);
    let rank = |rank: u32| plan.with("JOB_COMPLETION_INDEX", &rank.to_string());
    succeeded(vec![rank(0).process("ring"), rank(1).process("ring")]);
}

fn told_by_flux(over: &Over) {
    let plan = over.plan("127.0.0.1", 2).without("TRANSOM_SIZE");
    let plan = plan.with("FLUX_JOB_SIZE", "2");
    let rank = |rank: u32| plan.with("FLUX_TASK_RANK", &rank.to_string());
    succeeded(vec![rank(0).process("ring"), rank(1).process("ring")]);
}

/// As of a script that each rank runs: a rank may come to the second while others are in the first.
fn one_job_after_another(over: &Over) {
    let plan = over.plan("127.0.0.1", 3);
    succeeded((0..3).map(|rank| plan.rank(rank, "twice")).collect());
}

fn aborts_reach_the_others(over: &Over) {
    let plan = over.plan("127.0.0.1", 3);
    let ended = ended((0..3).map(|rank| plan.rank(rank, "abort")).collect());
    let codes: Vec<_> = (ended.iter())
        .map(|one| one.status.and_then(|status| status.code()))
        .collect();
    assert_eq!(codes, [Some(7), Some(1), Some(1)]);
    for other in &ended[1..] {
        assert!(other.output.contains("rank 0"), "{}", other.output);
    }
}

/// Calls that need other ranks fail on all ranks, although nobody ends them.
fn no_call_succeeds_after_an_abort(over: &Over) {
    let plan = over.plan("127.0.0.1", 3);
    let ended = ended((0..3).map(|rank| plan.rank(rank, "go_on")).collect());
    for one in &ended {
        let said = one.output.matches(": the job was aborted").count();
        assert_eq!(said, 11, "{}", one.output);
        assert!(!one.output.contains(" returned "), "{}", one.output);
    }
}

fn sixty_four_at_once(over: &Over) {
    let plan = over.plan("localhost", 64);
    succeeded(ring(&plan.with("TRANSOM_JOB_SECRET", "correct horse"), 64));
}
