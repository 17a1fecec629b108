//! The agent thread is there while it is needed, and no longer.

use std::time::{Duration, Instant};

use rdma_sys_shim::{Access, Adoption, Region, Width};

use crate::support::{Peers, alone, fetch_add, peers};

/// Threads of this process that are agents.
fn agents() -> usize {
    let is_agent = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "transom-agent")
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.flatten().filter(is_agent).count()
}

fn until(what: &str, condition: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(10), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

fn words() -> *mut u8 {
    Box::leak(Box::new([0_u64; 8])).as_mut_ptr().cast()
}

/// Registers what `words` made.
fn register(peers: &Peers, words: *mut u8) -> Region {
    let (all, allowed) = (Access::ALL, Adoption::Allowed);
    // SAFETY: 64 bytes that are never freed, and that only peers access.
    unsafe { peers.target.register(words, 64, all, allowed) }.unwrap()
}

#[test]
fn it_comes_and_goes() {
    let _alone = alone();
    until("the agents of other tests go", || agents() == 0);
    let peers = peers("soft:adopt=off", false);
    let words = words();
    // Allocated memory can be mapped, and needs none.
    let allocated = peers.target.allocate(64, 1).unwrap();
    assert_eq!(agents(), 0);
    let region = register(&peers, words);
    until("an agent", || agents() == 1);
    let word = region.remote().at(0);
    assert_eq!(fetch_add(&*peers.way, word, Width::W8, 1).unwrap(), 0);
    drop(region);
    // It lingers, so that the next region finds it.
    let region = register(&peers, words);
    assert_eq!(agents(), 1);
    drop(region);
    let lingered = until("the agent goes", || agents() == 0);
    assert!(lingered >= Duration::from_millis(100), "{lingered:?}");
    assert!(lingered < Duration::from_secs(5), "{lingered:?}");
    // And comes back.
    let region = register(&peers, words);
    let word = region.remote().at(0);
    assert_eq!(fetch_add(&*peers.way, word, Width::W8, 1).unwrap(), 1);
    assert_eq!(agents(), 1);
    drop((region, allocated));
    until("the agent goes again", || agents() == 0);
}

/// Regions come just when the agent is about to go.
#[test]
fn no_region_finds_it_gone() {
    let _alone = alone();
    let peers = peers("soft:adopt=off", false);
    let words = words();
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(4) {
        let region = register(&peers, words);
        fetch_add(&*peers.way, region.remote().at(0), Width::W8, 1).unwrap();
        drop(region);
        rounds += 1;
        // Around the half second after which it goes, a little later each time.
        std::thread::sleep(Duration::from_micros(498_000 + 300 * rounds));
    }
    // SAFETY: no region is left.
    assert_eq!(unsafe { words.cast::<u64>().read() }, rounds);
}

#[test]
fn it_goes_with_its_device() {
    let _alone = alone();
    until("the agents of other tests go", || agents() == 0);
    let peers = peers("soft:map=off,cma=off", false);
    let region = peers.target.allocate(64, 1).unwrap();
    until("an agent", || agents() == 1);
    drop(region);
    drop(peers);
    let took = until("its end", || agents() == 0);
    assert!(took < Duration::from_secs(5), "{took:?}");
}
