//! What the adversarial device does beyond what every device does: late, overtaken, failed, and no more than is allowed.

use std::time::{Duration, Instant};

use rdma_sys_shim::Direction::{Read, Write};
use rdma_sys_shim::{Error, Fetch, Registry, RemoteAddress, Result, Ticket, Width};

use rdma_sys_shim::testkit::{self, Peers, alone, fetch_add, finish, memory, write};
use transom_adversarial::Adversarial;

fn peers(spec: &str, to_self: bool) -> Peers {
    testkit::peers(Registry::new(&[&Adversarial]), spec, to_self)
}

const SEEDS: std::ops::Range<u64> = 0..20;

/// Runs a test with many seeds, to a peer and to oneself, with cross-memory attach and without.
fn everywhere(test: impl Fn(&Peers)) {
    let _alone = alone();
    for seed in SEEDS {
        let cma = if seed % 2 == 0 { "on" } else { "off" };
        let order = if seed % 4 < 2 { "rc" } else { "loose" };
        let spec = format!("soft:adversarial,seed={seed},delay=100,cma={cma},order={order}");
        for to_self in [false, true] {
            eprintln!("{spec}, to {}", if to_self { "itself" } else { "a peer" });
            test(&peers(&spec, to_self));
        }
    }
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + salt) % 251) as u8 + 1).collect()
}

/// Waits for the failure that an operation ends in.
fn failure(way: &dyn rdma_sys_shim::Endpoint, ticket: Ticket) -> Error {
    let begun = Instant::now();
    loop {
        match way.completed(ticket) {
            Err(error) => return error,
            Ok(_) => assert!(begun.elapsed() < Duration::from_secs(10), "it never fails"),
        }
        std::thread::yield_now();
    }
}

/// How often, over all seeds, something happened that only an adversary does.
fn sightings(test: impl Fn(&Peers) -> bool) -> usize {
    let _alone = alone();
    (0..200)
        .filter(|seed| {
            test(&peers(
                &format!("soft:adversarial,seed={seed},delay=100"),
                false,
            ))
        })
        .count()
}

#[test]
fn a_write_overtakes_a_write_for_some_seed_and_not_for_all() {
    let seen = sightings(|peers| {
        let region = peers.target.allocate(8, 8).unwrap();
        let at = region.remote().at(0);
        let values = [1_u64, 2];
        let post = |value: &u64| {
            // SAFETY: the values outlive the operations, the last of which is waited for.
            unsafe { (peers.way).transfer(Write, (&raw const *value).cast_mut().cast(), 8, at) }
                .unwrap()
        };
        let [_, last] = values.each_ref().map(post);
        finish(&*peers.way, Ok(last)).unwrap();
        memory(&region) == values[0].to_ne_bytes()
    });
    assert!((1..200).contains(&seen), "{seen} of 200");
}

#[test]
fn a_store_of_which_the_old_value_is_wrong_is_refused() {
    let _alone = alone();
    let peers = peers("soft:adversarial,seed=1", false);
    let region = peers.target.allocate(8, 8).unwrap();
    let at = region.remote().at(0);
    finish(&*peers.way, peers.way.store(at, 0, 5)).unwrap();
    let refused = failure(&*peers.way, peers.way.store(at, 4, 6).unwrap());
    assert!(matches!(refused, Error::RemoteAccess { .. }), "{refused}");
}

#[test]
fn a_write_overtakes_a_read_for_some_seed_and_not_for_all() {
    let seen = sightings(|peers| {
        let region = peers.target.allocate(8, 8).unwrap();
        let at = region.remote().at(0);
        let (mut got, new) = (0_u64, 1_u64);
        // SAFETY: locals that outlive the operations.
        let ticket = unsafe {
            (peers.way)
                .transfer(Read, (&raw mut got).cast(), 8, at)
                .unwrap();
            (peers.way)
                .transfer(Write, (&raw const new).cast_mut().cast(), 8, at)
                .unwrap()
        };
        finish(&*peers.way, Ok(ticket)).unwrap();
        got != 0
    });
    assert!((1..200).contains(&seen), "{seen} of 200");
}

#[test]
fn results_are_not_there_before_the_report() {
    // The first look is before the engine can have got anywhere, or after: never right by luck.
    let seen = sightings(|peers| {
        let region = peers.target.allocate(8, 8).unwrap();
        let at: RemoteAddress = region.remote().at(0);
        let mut old = 0_u64;
        // SAFETY: a local that outlives the operation.
        let ticket =
            unsafe { peers.way.fetch(at, Width::W8, Fetch::Add(1), &raw mut old) }.unwrap();
        // SAFETY: reading too early is what is tested; the engine writes it as one word.
        let early = unsafe { (&raw const old).read_volatile() };
        finish(&*peers.way, Ok(ticket)).unwrap();
        assert_eq!(old, 0);
        early != 0
    });
    assert!(seen > 150, "{seen} of 200");
}

#[test]
fn a_source_is_free_when_released_and_sometimes_not_before() {
    let seen = sightings(|peers| {
        let region = peers.target.allocate(1000, 8).unwrap();
        let mut source = pattern(1000, 3);
        // SAFETY: the source outlives the operation.
        let ticket = unsafe {
            (peers.way).transfer(
                Write,
                source.as_ptr().cast_mut(),
                1000,
                region.remote().at(0),
            )
        }
        .unwrap();
        while !peers.way.released(ticket).unwrap() {
            std::thread::yield_now();
        }
        let soon = !peers.way.completed(ticket).unwrap();
        source.fill(0);
        finish(&*peers.way, Ok(ticket)).unwrap();
        assert_eq!(memory(&region), pattern(1000, 3));
        soon
    });
    assert!((1..200).contains(&seen), "{seen} of 200");
}

#[test]
fn atomics_have_eight_bytes() {
    let _alone = alone();
    let peers = peers("soft:adversarial,seed=1", false);
    let region = peers.target.allocate(8, 8).unwrap();
    let refused = fetch_add(&*peers.way, region.remote().at(0), Width::W4, 1);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("eight bytes only"), "{message}");
}

#[test]
fn a_failure_stays() {
    everywhere(|peers| {
        let region = peers.target.allocate(64, 8).unwrap();
        let (way, remote) = (&*peers.way, region.remote());
        let bytes = [1_u8; 16];
        let post = |at| -> Result<Ticket> {
            // SAFETY: the slice outlives the operations: all have failed or completed in the end.
            unsafe { way.transfer(Write, bytes.as_ptr().cast_mut(), 16, at) }
        };
        let good = post(remote.at(0)).unwrap();
        let bad = post(remote.at(56)).unwrap();
        let flushed = post(remote.at(32));
        let cause = failure(way, bad);
        assert!(cause.is_remote_access(), "{cause}");
        // Tickets complete in order, so what came before is done.
        assert!(way.completed(good).unwrap());
        assert_eq!(memory(&region)[..16], bytes);
        if let Ok(flushed) = flushed {
            assert_eq!(failure(way, flushed).to_string(), cause.to_string());
        }
        assert_eq!(
            post(remote.at(0)).unwrap_err().to_string(),
            cause.to_string()
        );
    });
}

fn writes_until_failure(spec: &str) -> (u64, Error) {
    let peers = peers(spec, false);
    let region = peers.target.allocate(64, 8).unwrap();
    for n in 1.. {
        match write(&*peers.way, &[n as u8; 64], region.remote().at(0)) {
            Ok(()) => assert_eq!(memory(&region), [n as u8; 64]),
            Err(error) => return (n, error),
        }
    }
    unreachable!("the loop ends with the failure");
}

#[test]
fn injected_failures_come_when_they_were_ordered() {
    let _alone = alone();
    for seed in SEEDS {
        for fault in ["fail_after", "break_after"] {
            let (n, error) =
                writes_until_failure(&format!("soft:adversarial,seed={seed},{fault}=5"));
            assert_eq!(n, 5);
            let message = error.to_string();
            assert!(message.contains(&format!("seed {seed}")), "{message}");
        }
        let spec = format!("soft:adversarial,seed={seed},fail=20");
        let (n, _) = writes_until_failure(&spec);
        // The same seed and the same operations: the same failure.
        assert_eq!(writes_until_failure(&spec).0, n);
    }
}

#[test]
fn nothing_is_touched_after_an_endpoint_is_gone() {
    let _alone = alone();
    for seed in SEEDS {
        let Peers { target, way, .. } = peers(&format!("soft:adversarial,seed={seed}"), true);
        let region = target.allocate(1 << 16, 8).unwrap();
        let mut got = vec![0_u8; 1 << 16];
        for start in (0..1 << 16).step_by(256) {
            let (to, from) = (got[start..].as_mut_ptr(), region.remote().at(start as u64));
            // SAFETY: `got` outlives the endpoint.
            unsafe { way.transfer(Read, to, 256, from) }.unwrap();
        }
        drop(way);
        got.fill(7);
        std::thread::sleep(Duration::from_millis(3));
        assert!(got.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn a_forked_child_is_told_that_the_engine_is_not_there() {
    let _alone = alone();
    let peers = peers("soft:adversarial,seed=1", true);
    let region = peers.target.allocate(8, 8).unwrap();
    let at = region.remote().at(0);
    // SAFETY: the child makes one call, which takes no lock that another thread may hold, and exits.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let refused = matches!(peers.way.store(at, 0, 1), Err(Error::Unreachable { .. }));
            libc::_exit(if refused { 0 } else { 1 });
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    assert_eq!(status, 0);
    finish(&*peers.way, peers.way.store(at, 0, 2)).unwrap();
}

const ROLE: &str = "TRANSOM_TEST_STOPS";

/// Plays the stopped process itself where the environment says so.
#[test]
fn a_process_that_is_told_to_stop_stops_and_goes_on() {
    if std::env::var_os(ROLE).is_some() {
        let (n, error) = writes_until_failure("soft:adversarial,seed=1,stop_after=3,fail=5");
        assert!(n > 3, "{n}: {error}");
        return;
    }
    let _alone = alone();
    let test = "a_process_that_is_told_to_stop_stops_and_goes_on";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(ROLE, "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id() as libc::pid_t;
    let mut status = 0;
    // SAFETY: waits for a child of this test's; WUNTRACED reports the stop and reaps nothing.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
    assert!(waited == pid && libc::WIFSTOPPED(status), "{status:#x}");
    assert_eq!(libc::WSTOPSIG(status), libc::SIGSTOP);
    // SAFETY: a signal to that child.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    assert!(child.wait().unwrap().success());
}
