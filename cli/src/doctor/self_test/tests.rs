use rdma_sys_shim::Registry;

use super::link::{End, SUM, TRIED};
use super::*;

/// Both ends of a link, in this process.
fn link(spec: &str) -> [Link; 2] {
    let open = || {
        Registry::new(&[])
            .open(spec, &Surroundings::default())
            .unwrap()
    };
    let ends = [open(), open()].map(|device| End::new(&device).unwrap());
    let offers = [ends[0].offer(), ends[1].offer()];
    let [first, second] = ends;
    std::thread::scope(|scope| {
        let second = scope.spawn(|| second.connect(&offers[0]).unwrap());
        [first.connect(&offers[1]).unwrap(), second.join().unwrap()]
    })
}

fn both<T: Send>(link: &[Link; 2], check: impl Fn(&Link, Role) -> T + Sync) -> [T; 2] {
    let [origin, target] = link;
    std::thread::scope(|scope| {
        let target = scope.spawn(|| check(target, Role::Target));
        [check(origin, Role::Origin), target.join().unwrap()]
    })
}

#[test]
fn words_and_data_that_are_wrong_are_found() {
    let link = link("soft");
    assert_eq!(
        both(&link, checks::atomics)[0],
        Ok("fetch_add, compare_swap".to_owned())
    );
    assert!(both(&link, checks::atomics_in_memory)[1].is_ok());
    // Run it again over the previous results: this looks as if the device had answered wrongly.
    let answers = both(&link, checks::atomics)[0].clone().unwrap_err();
    assert!(
        answers.starts_with("answers [2122232425262728, "),
        "{answers}"
    );
    link[1].add_by_processor(TRIED);
    let found = both(&link, checks::atomics_in_memory)[1]
        .clone()
        .unwrap_err();
    assert!(
        found.ends_with("in memory, where 0x2122232425262728 is right"),
        "{found}"
    );

    let lost = both(&link, checks::sums_in_memory)[1].clone().unwrap_err();
    assert_eq!(lost, "4000 of 4000 adds of two ranks were lost");
    assert!(both(&link, checks::sums).iter().all(Outcome::is_ok));
    assert!(both(&link, checks::sums_in_memory)[1].is_ok());
    assert_eq!(link[1].load(SUM), 4000);
}

#[test]
fn bandwidth_is_held_against_the_ports_rate() {
    let finding = bandwidth("a, b", 11.5e9, Some(100_000));
    assert_eq!(finding.level, Level::Ok);
    assert_eq!(
        finding.found,
        "a, b: put of 1 MiB: 11.50 GB/s, 92 % of the port's 100 Gb/s"
    );
    let finding = bandwidth("a, b", 3e9, Some(100_000));
    assert_eq!(finding.level, Level::Warning);
    assert!(finding.remedy.unwrap().contains("LnkSta"));
    assert_eq!(
        bandwidth("a, b", 3e9, None).found,
        "a, b: put of 1 MiB: 3.00 GB/s"
    );
}

#[test]
fn only_devices_that_ranks_would_take_together_have_to_reach_each_other() {
    let pair = |is_own| Pair {
        peer: 2,
        specs: ["a", "b"],
        speed: None,
        is_own,
    };
    assert_eq!(pair(true).unconnected("no").level, Level::Failure);
    let apart = pair(false).unconnected("no");
    assert_eq!(apart.level, Level::Warning);
    assert_eq!(apart.found, "rank 0 (a), rank 2 (b): no");
    assert!(apart.remedy.unwrap().contains("TRANSOM_RDMA_SUBNET"));
    assert_eq!(pair(true).way(2), "rank 2 (b) to rank 0 (a)");
    let all = [Ok(String::new()), Err("too slow".to_owned())];
    assert_eq!(complaints(&all).unwrap(), "rank 1: too slow");
    assert_eq!(complaints(&all[..1]), None);
}
