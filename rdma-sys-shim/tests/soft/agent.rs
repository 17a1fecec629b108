//! The agent thread is there while it is needed, and no longer.

use std::time::{Duration, Instant};

use rdma_sys_shim::{Access, LocalRegion};

use crate::support::{Peers, alone, peers, read, write};

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
fn register(peers: &Peers, words: *mut u8) -> LocalRegion {
    // SAFETY: 64 bytes that are never freed, and that only peers access.
    unsafe { peers.target.register(words, 64, Access::ALL) }.unwrap()
}

#[test]
fn it_comes_and_goes() {
    let _alone = alone();
    until("the agents of other tests go", || agents() == 0);
    let peers = peers("soft:cma=off", false);
    let words = words();
    // Allocated memory can be mapped, and needs none.
    let allocated = peers.target.allocate(64, 1).unwrap();
    assert_eq!(agents(), 0);
    let region = register(&peers, words);
    until("an agent", || agents() == 1);
    write(&*peers.way, &[1; 8], region.remote().at(0)).unwrap();
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
    let found = read(&*peers.way, 8, region.remote().at(0)).unwrap();
    assert_eq!((found, agents()), (vec![1; 8], 1));
    drop((region, allocated));
    until("the agent goes again", || agents() == 0);
}

/// Regions come just when the agent is about to go.
#[test]
fn no_region_finds_it_gone() {
    let _alone = alone();
    let peers = peers("soft:cma=off", false);
    let words = words();
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(4) {
        let region = register(&peers, words);
        rounds += 1;
        let bytes = u64::to_ne_bytes(rounds);
        write(&*peers.way, &bytes, region.remote().at(0)).unwrap();
        drop(region);
        // Around the half second after which it goes, a little later each time.
        std::thread::sleep(Duration::from_micros(498_000 + 300 * rounds));
    }
    // SAFETY: no region is left.
    assert_eq!(unsafe { words.cast::<u64>().read() }, rounds);
}

/// Where peers read and write each other's memory through the kernel, nobody needs one.
#[test]
fn none_is_there_where_the_kernel_lets_peers_attach() {
    let _alone = alone();
    until("the agents of other tests go", || agents() == 0);
    let peers = peers("soft", false);
    let region = register(&peers, words());
    write(&*peers.way, &[7; 8], region.remote().at(0)).unwrap();
    assert_eq!(read(&*peers.way, 8, region.remote().at(0)).unwrap(), [7; 8]);
    assert_eq!(agents(), 0);
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
