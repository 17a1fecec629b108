//! Ranks that are threads of one process, for tests of what takes many jobs to meet.

use std::thread::{self, sleep};
use std::time::Duration;

use super::super::*;
use crate::comm::{Communicator, world_block_bytes};
use crate::raw::Window;
use crate::window::Info;

/// The ranks of a job over `device`, all of this process.
pub(crate) fn ranks(device: &str, count: u32, patience: Patience) -> Vec<Arc<Context>> {
    ranks_on_hosts(device, &vec![0; count as usize], patience)
}

/// As if they ran on these hosts.
pub(crate) fn ranks_on_hosts(device: &str, hosts: &[u32], patience: Patience) -> Vec<Arc<Context>> {
    let count = hosts.len() as u32;
    let world_block = world_block_bytes(count, &Hosts::of(hosts));
    let fabric = |rank| {
        let device = crate::devices::open(device);
        Fabric::new(device, WORLD + world_block, rank, count).unwrap()
    };
    let fabrics: Vec<Fabric> = (0..count).map(fabric).collect();
    for fabric in &fabrics {
        for (rank, other) in (0..).zip(&fabrics) {
            fabric.introduce(rank, other.own_record().to_owned());
        }
    }
    let context = |(rank, fabric): (u32, Fabric)| {
        let this_rank = ThisRank {
            rank,
            size: count,
            hosts: Hosts::of(hosts),
            world_block,
            level: ThreadLevel::Multiple,
            patience,
        };
        Arc::new(Context::new(this_rank, fabric, None, None))
    };
    (0..).zip(fabrics).map(context).collect()
}

/// Makes a window, frees it at some time and leaves; says what others were told.
fn come_and_go(context: &Arc<Context>, pause: Duration) -> Result<u64> {
    let world = Communicator::world(context);
    let window = Window::allocate(&world, 64, 8, &Info::new())?;
    sleep(pause);
    window.free()?;
    drop(world);
    context.leave()?;
    Ok(context.abort_words.word())
}

/// Whoever waits for the last one in `free` finds, whenever it looks, that others have left.
fn nobody_is_missed(device: &str, jobs: u64) {
    const RANKS: u32 = 4;
    for job in 0..jobs {
        let all = ranks(device, RANKS, Patience::suspicious());
        let ended: Vec<_> = thread::scope(|scope| {
            let mut pauses = (0..).map(|i: u64| (job * 7919 + i * 104_729) % 251);
            let threads: Vec<_> = all
                .iter()
                .map(|context| {
                    let pause = Duration::from_micros(pauses.next().unwrap());
                    scope.spawn(move || come_and_go(context, pause))
                })
                .collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for (rank, ended) in ended.into_iter().enumerate() {
            assert_eq!(ended.unwrap(), 0, "{device}, job {job}: rank {rank}");
        }
        let told: Vec<u64> = all
            .iter()
            .map(|context| context.abort_words.word())
            .collect();
        assert_eq!(told, [0; RANKS as usize], "{device}, job {job}");
    }
}

#[test]
fn ranks_that_leave_after_free_are_not_missed() {
    nobody_is_missed("soft", 1000);
}

#[test]
fn nor_where_nothing_is_mapped() {
    nobody_is_missed("soft:map=off", 200);
    nobody_is_missed("soft:adversarial", 200);
}
