//! Collective calls that do not match: some rank says so, and each comes to an end.

use libtest_mimic::{Failed, Trial};
use transom::{Communicator, Job, Op, Result};

use crate::launch::{self, Launched, Others};

const CASES: [&str; 6] = [
    "bcast_roots",
    "gather_roots",
    "bcast_lengths",
    "allgather_lengths",
    "reduce_lengths",
    "kinds",
];

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    CASES
        .into_iter()
        .map(|case| {
            let name = format!("{device}/faults/disagree/{case}");
            Trial::test(name, move || {
                [2, 3]
                    .into_iter()
                    .try_for_each(|ranks| check(ranks, device, case))
            })
        })
        .collect()
}

fn check(ranks: u32, device: &str, case: &str) -> std::result::Result<(), Failed> {
    let role = format!("faults/disagree/{case}");
    let Launched { status, output, .. } = launch::job(ranks, device, Others::GoOn, &role);
    let ended = output
        .lines()
        .filter(|line| line.contains(" ended: "))
        .count();
    let fail = |what: &str| Err(format!("{ranks} ranks: {what}\n{output}").into());
    if status.is_none() {
        return fail("killed at its time limit");
    }
    if ended != ranks as usize {
        return fail("some rank has not ended well");
    }
    if !output.contains("disagrees") || !output.contains("(Arg)") {
        return fail("nobody noticed");
    }
    Ok(())
}

pub(crate) fn play(case: &str) {
    let job = Job::init().expect("a job");
    let world = job.world();
    // A call that matches comes first, and one after, which meets what the others left behind.
    let result = world
        .allgather(&[1_u64])
        .and_then(|_| call(world, case))
        .and_then(|()| world.allgather(&[1_u64; 3]).map(drop));
    println!("rank {} ended: {result:?}", world.rank());
}

fn call(world: &Communicator, case: &str) -> Result<()> {
    let odd = world.rank() == 1;
    let data = vec![0_u64; if odd { 7 } else { 5 }];
    match case {
        "bcast_roots" => world.bcast(&mut [0_u64; 5], odd.into()),
        "gather_roots" => world.gather(&[0_u64; 5], odd.into()).map(drop),
        "bcast_lengths" => world.bcast(&mut data.clone(), 0),
        "allgather_lengths" => world.allgather(&data).map(drop),
        "reduce_lengths" => world.reduce(&data, Op::Sum, 0).map(drop),
        "kinds" if odd => world.barrier(),
        "kinds" => world.gather(&data, 0).map(drop),
        _ => panic!("no case {case:?}"),
    }
}
