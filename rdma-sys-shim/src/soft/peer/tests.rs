//! Numbers that lead to another process than they did: two processes of this program play a peer and a stranger, and the
//! peer's number is exchanged for the stranger's.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::time::{Duration, Instant};

use super::*;
use crate::soft::address::Address;
use crate::soft::endpoint::SoftEndpoint;
use crate::soft::{Options, SoftDevice};
use crate::{Absence, Access, Device as _, Direction, Endpoint as _, RemoteRegion};

/// Where each of the processes has the memory that it lends, so that the one's addresses are the other's, too.
const PLACE: usize = 0x2000_0000_0000;
const LEN: usize = 1 << 20;

/// The memory that a process lends, filled with zeros.
fn memory() -> *mut u8 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let place = ptr::with_exposed_provenance_mut(PLACE);
    // SAFETY: a new mapping where there is none.
    let base = unsafe { libc::mmap(place, LEN, rights, flags, -1, 0) };
    assert_eq!(base, place, "{}", io::Error::last_os_error());
    base.cast()
}

fn say(region: RemoteRegion) {
    println!("region {} {} {}", region.address, region.len, region.rkey);
}

/// Not a test of its own: what the others start. Lends memory, and says at the end of its input what became of that.
#[test]
#[ignore = "a role that the other tests start"]
fn lends_memory() {
    let base = memory();
    let options = Options::parse("").unwrap();
    let device = SoftDevice::open(options, None).unwrap();
    // SAFETY: the memory stays to the end of the process, and is read as shared memory below.
    let lent = unsafe { device.register(base, LEN, Access::ALL) }.unwrap();
    // The first long one is a part of the segment, the second a file of its own.
    let _first = device.allocate(LEN, 1).unwrap();
    let allocated = device.allocate(LEN, 1).unwrap();
    let address: Vec<_> = device.address().iter().map(u8::to_string).collect();
    // Behind what the test runner has written.
    println!("\naddress {}", address.join(" "));
    say(lent.remote());
    say(allocated.remote());
    println!("ready");
    std::mem::forget(lent);
    tell(&allocated);
}

fn tell(allocated: &crate::LocalRegion) -> ! {
    let base = ptr::with_exposed_provenance_mut(PLACE);
    let line = io::stdin().lines().next().map(|line| line.unwrap());
    if line.as_deref() == Some("exec") {
        use std::os::unix::process::CommandExt as _;
        let error = Command::new("sleep").arg("60").exec();
        panic!("exec: {error}");
    }
    if let Some((pid, fd)) = line.as_deref().and_then(|line| line.split_once(' ')) {
        let segment = File::open(format!("/proc/{pid}/fd/{fd}")).unwrap();
        println!("{}", if is_held(&segment) { "held" } else { "free" });
    }
    let changed = [base, allocated.base()].map(|base| {
        // SAFETY: both have so many bytes.
        let bytes = (0..LEN).map(|at| unsafe { base.add(at).read_volatile() });
        bytes.filter(|&byte| byte != 0).count()
    });
    println!("changed {changed:?}");
    io::stdout().flush().unwrap();
    std::process::exit(0);
}

struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    address: Vec<u8>,
    lent: RemoteRegion,
    allocated: RemoteRegion,
}

impl Process {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "soft::peer::tests::lends_memory"])
            .args(["--ignored", "--nocapture", "--test-threads", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (mut address, mut regions) = (Vec::new(), Vec::new());
        loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended");
            let (what, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            let numbers = || rest.split(' ').map(|number| number.parse::<u64>().unwrap());
            match what {
                "address" => address = numbers().map(|byte| byte as u8).collect(),
                "region" => {
                    let [address, len, rkey] = numbers().collect::<Vec<_>>()[..] else {
                        panic!("{line}")
                    };
                    regions.push(RemoteRegion { address, len, rkey });
                }
                "ready" => break,
                _ => {}
            }
        }
        Self {
            child,
            output,
            address,
            lent: regions[0],
            allocated: regions[1],
        }
    }

    fn connect(&self, device: &SoftDevice) -> SoftEndpoint {
        device.endpoint(&self.address).unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// How many bytes of its memory others have changed.
    fn changed(mut self) -> String {
        self.say("tell");
        let lines = self.output.by_ref().lines();
        let line = lines
            .map(|line| line.unwrap())
            .find(|line| line.starts_with("changed"));
        self.child.wait().unwrap();
        line.expect("what became of it")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn device() -> SoftDevice {
    SoftDevice::open(Options::parse("").unwrap(), None).unwrap()
}

fn write(endpoint: &SoftEndpoint, to: &RemoteRegion, len: usize) -> Result<()> {
    let bytes = vec![9_u8; len];
    // SAFETY: the bytes are there until the operation is complete, which it is on return.
    unsafe { endpoint.transfer(Direction::Write, bytes.as_ptr().cast_mut(), len, to.at(0)) }
        .map(drop)
}

#[test]
fn whoever_got_the_number_of_a_dead_peer_is_not_written_to() {
    let (mut peer, stranger) = (Process::start(), Process::start());
    let device = device();
    let mut endpoint = peer.connect(&device);
    write(&endpoint, &peer.lent, 8).unwrap();
    let is_attached = endpoint.attaches();
    peer.kill();
    endpoint.peer.id.pid = stranger.child.id();
    endpoint.peer.known.store(0, Ordering::Relaxed);
    for len in [8, 4096, LEN] {
        let refused = write(&endpoint, &peer.lent, len).unwrap_err();
        let is_gone = matches!(refused, Error::PeerGone { .. } | Error::PeerReplaced { .. });
        assert!(is_gone || !is_attached, "{len}: {refused}");
    }
    assert!(!endpoint.peer.runs());
    assert_eq!(stranger.changed(), "changed [0, 0]");
}

#[test]
fn nobody_takes_a_transfer_for_done_during_which_the_peer_ended() {
    let peer = std::cell::RefCell::new(Process::start());
    let device = device();
    let endpoint = peer.borrow().connect(&device);
    if !endpoint.attaches() {
        return eprintln!("not tried: no cross-memory attach");
    }
    let moved = endpoint.peer.reach(|_| {
        peer.borrow_mut().kill();
        let before = milliseconds();
        while milliseconds() == before {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    assert!(matches!(moved, Err(Stopped::Gone)), "{moved:?}");
}

#[test]
fn a_number_that_leads_to_other_memory_is_not_used() {
    let (peer, stranger) = (Process::start(), Process::start());
    let device = device();
    let mut endpoint = peer.connect(&device);
    endpoint.peer.id.pid = stranger.child.id();
    endpoint.peer.known.store(0, Ordering::Relaxed);
    // Where the stranger has memory, too.
    endpoint.peer.nonce.address = PLACE as u64;
    if endpoint.attaches() {
        let refused = endpoint.peer.reach(|_| panic!("it is reached"));
        assert!(matches!(refused, Err(Stopped::Gone)), "{refused:?}");
        write(&endpoint, &peer.lent, 8).unwrap_err();
    }
    assert_eq!(peer.changed(), "changed [0, 0]");
    assert_eq!(stranger.changed(), "changed [0, 0]");
}

#[test]
fn files_of_whoever_got_the_number_of_a_dead_peer_are_not_opened() {
    let (mut peer, stranger) = (Process::start(), Process::start());
    let device = device();
    let mut endpoint = peer.connect(&device);
    peer.kill();
    // The same program: it has a file of its own at the same descriptor.
    endpoint.peer.id.pid = stranger.child.id();
    let mapping = endpoint.map(&peer.allocated);
    assert!(mapping.is_err(), "{:?}", mapping.map(|_| "it was mapped"));
    let again = device.endpoint(&peer.address);
    assert!(matches!(again.map(drop), Err(Error::PeerGone { .. })));
    assert_eq!(stranger.changed(), "changed [0, 0]");
}

#[test]
fn a_process_that_starts_another_program_is_not_there_any_more() {
    let mut peer = Process::start();
    let device = device();
    let endpoint = peer.connect(&device);
    endpoint.liveness().unwrap();
    peer.say("exec");
    let pid = peer.child.id();
    let begun = Instant::now();
    while endpoint.peer.runs() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let missing = endpoint.liveness().unwrap_err().absence();
    assert_eq!(missing, Some((pid, Absence::Replaced)));
    let refused = write(&endpoint, &peer.lent, 8).unwrap_err();
    assert!(
        !endpoint.attaches() || matches!(refused, Error::PeerReplaced { .. }),
        "{refused}"
    );
    assert!(endpoint.map(&peer.allocated).is_err());
    peer.kill();
    let missing = endpoint.liveness().unwrap_err().absence();
    assert_eq!(missing, Some((pid, Absence::Gone)));
}

/// A thread that ends while the peer is known by its number.
#[test]
fn a_thread_that_ended_is_exchanged_for_one_that_runs() {
    let peer = Process::start();
    let device = device();
    let endpoint = peer.connect(&device);
    if !endpoint.attaches() {
        return eprintln!("not tried: no cross-memory attach");
    }
    let mut asked = Vec::new();
    let moved = endpoint.peer.reach(|number| {
        asked.push(number);
        match asked.len() {
            1 => Err(Stopped::Gone),
            _ => Ok(()),
        }
    });
    moved.unwrap();
    assert_eq!(asked, [peer.child.id(); 2]);
    assert_eq!(peer.changed(), "changed [0, 0]");
}

#[test]
fn a_look_takes_no_descriptor() {
    let peer = Process::start();
    let device = device();
    let endpoints: Vec<_> = (0..4).map(|_| peer.connect(&device)).collect();
    for endpoint in &endpoints {
        endpoint.liveness().unwrap();
    }
    let ours = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = ours.filter_map(|entry| std::fs::metadata(entry.path()).ok());
    let segment = Address::decode(&peer.address).unwrap().segment.file;
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(
        ours.filter(|found| found.ino() == segment.inode && found.dev() == segment.device)
            .count(),
        0
    );
}

#[test]
fn another_device_of_this_process_keeps_its_lock() {
    let (here, also_here) = (device(), device());
    drop(also_here.endpoint(&here.address()).unwrap());
    let mut peer = Process::start();
    peer.say(&format!(
        "{} {}",
        std::process::id(),
        here.own.address.segment.fd
    ));
    let mut lines = peer.output.by_ref().lines().map(|line| line.unwrap());
    // Somebody else looks: one's own lock is in nobody's way.
    assert_eq!(lines.next().as_deref(), Some("held"));
}
