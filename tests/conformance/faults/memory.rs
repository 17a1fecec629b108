//! What a rank of a large job takes.

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind};
use transom_testing::job::{self, Launched, Others};

use crate::ops::put;

const RANKS: u32 = 64;
const LIMIT_KIB: u64 = 2 << 10;

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let name = format!("{device}/faults/a_rank_of_{RANKS}_stays_small");
    vec![Trial::test(name, move || check(device))]
}

fn check(device: &str) -> Result<(), Failed> {
    let Launched { status, output, .. } = job::play(RANKS, device, Others::End, "faults/memory");
    let sizes: Vec<u64> = output
        .lines()
        .filter_map(|line| {
            line.strip_prefix("resident ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    let most = sizes.iter().max().copied().unwrap_or(0);
    if !status.is_some_and(|status| status.success()) || sizes.len() != RANKS as usize {
        return Err(format!("{status:?}, {} ranks\n{output}", sizes.len()).into());
    }
    println!("{device}: a rank of {RANKS} has up to {most} KiB resident");
    if most >= LIMIT_KIB {
        return Err(format!("{most} KiB resident").into());
    }
    Ok(())
}

pub(crate) fn play() {
    let job = Job::init().expect("a job");
    let world = job.world();
    let ahead = (world.rank() + 1) % world.size();
    let window = Window::allocate(world, 4096, 1, &Info::new()).expect("a window");
    window.fence(Assert::NONE).expect("fence");
    put(&window, &[1; 64], ahead, 0).expect("put");
    window.fence(Assert::NO_SUCCEED).expect("fence");
    window
        .lock(LockKind::Exclusive, ahead, Assert::NONE)
        .expect("lock");
    window.unlock(ahead).expect("unlock");
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let resident = |kind: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(kind));
        let size = line.and_then(|line| line.split_whitespace().next());
        size.and_then(|size| size.parse().ok()).expect("a size")
    };
    // Without the pages of the program, which it shares with the others: they are as many as there are
    // cases.
    println!("resident {}", resident("RssAnon:") + resident("RssShmem:"));
    world.barrier().expect("barrier");
    window.free().expect("free");
}
