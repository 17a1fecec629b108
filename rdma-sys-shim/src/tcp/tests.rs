//! Devices of one process: connections, assist, and long transfers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};
use std::{fs, ptr, thread};

use rustix::event::epoll::EventFlags;

use super::frame::{ANSWER, Answer, Kind, REQUEST, Request};
use super::origin::{Origin, Peer};
use super::serving::serve;
use super::target::Target;
use super::*;
use crate::channel::{
    MAGIC, Next, OwnDescriptor, Presence, Redialled, Side, Status, Stream, prepare,
};
use crate::device::combine::GivenCombiner;
use crate::proof::Guest;
use crate::system::page_size;
use crate::{Assist, Direction, Fetch, RemoteAddress, Ticket, Width};

const MIB: usize = 1 << 20;

/// A thread that assists serves all devices of the process.
static ASSISTING: Mutex<()> = Mutex::new(());

/// Pages of a file.
struct Pages {
    base: *mut u8,
    len: usize,
}

impl Pages {
    fn new(len: usize, file: &fs::File) -> Self {
        let (flags, rights) = (libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the kernel chooses the place.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, file.as_raw_fd(), 0) };
        assert_ne!(base, libc::MAP_FAILED);
        let base = base.cast();
        Self { base, len }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

fn device() -> TcpDevice {
    open(1)
}

fn finish(way: &dyn Endpoint, ticket: Ticket) -> Result<()> {
    while !way.completed(ticket)? {
        thread::yield_now();
    }
    Ok(())
}

fn write(way: &dyn Endpoint, bytes: &[u8], to: RemoteAddress) -> Result<()> {
    // SAFETY: the bytes stay until the write is complete or has failed.
    finish(way, unsafe {
        way.transfer(Direction::Write, bytes.as_ptr().cast_mut(), bytes.len(), to)?
    })
}

fn read(way: &dyn Endpoint, bytes: &mut [u8], from: RemoteAddress) -> Result<()> {
    // SAFETY: the bytes stay until the read is complete or has failed, and nobody else uses them.
    finish(way, unsafe {
        way.transfer(Direction::Read, bytes.as_mut_ptr(), bytes.len(), from)?
    })
}

/// Adds 1 to a word, and returns what it was before.
fn add(way: &dyn Endpoint, to: RemoteAddress) -> Result<u64> {
    let mut old = u64::MAX;
    // SAFETY: the variable is there until the operation is complete or has failed.
    finish(way, unsafe {
        way.fetch(to, Width::W8, Fetch::Add(1), &raw mut old)?
    })?;
    Ok(old)
}

/// A target, an origin, memory of one word at the target, and the origin's way there.
fn word_of_a_peer() -> (TcpDevice, TcpDevice, LocalRegion, Arc<dyn Endpoint>) {
    let (target, origin) = (device(), device());
    let region = target.allocate(8, 8).unwrap();
    let endpoint = origin.connect(&target.address()).unwrap();
    (target, origin, region, endpoint)
}

#[test]
fn memory_that_is_not_there_is_refused_wherever_it_lacks() {
    const LEN: usize = 4 * MIB;
    let _alone = crate::guard::alone();
    let take_rights = |pages: &Pages, _: &fs::File, at: usize| {
        let page = pages.base.wrapping_add(at);
        // SAFETY: a page of our own, to which there is no reference.
        let rc = unsafe { libc::mprotect(page.cast(), page_size(), libc::PROT_NONE) };
        assert_eq!(rc, 0);
    };
    let truncate = |_: &Pages, file: &fs::File, at: usize| file.set_len(at as u64).unwrap();
    type Goes<'a> = &'a dyn Fn(&Pages, &fs::File, usize);
    for goes in [&take_rights as Goes<'_>, &truncate] {
        for (lacks, is_write) in [MIB, 2 * MIB - page_size(), 3 * MIB / 2, LEN - page_size()]
            .into_iter()
            .flat_map(|lacks| [(lacks, false), (lacks, true)])
        {
            let file = tempfile::tempfile().unwrap();
            file.set_len(LEN as u64).unwrap();
            let pages = Pages::new(LEN, &file);
            let (origin, target) = (device(), device());
            // SAFETY: the pages outlive the region, but where they are meant not to.
            let region = unsafe { target.register(pages.base, LEN, Access::ALL) }.unwrap();
            goes(&pages, &file, lacks);
            let way = origin.connect(&target.address()).unwrap();
            let (at, mut bytes) = (region.remote().at(0), vec![7; LEN]);
            let error = match is_write {
                true => write(&*way, &bytes, at),
                false => read(&*way, &mut bytes, at),
            }
            .expect_err("a part is not there");
            assert!(error.is_remote_access(), "{error}");
            assert!(error.to_string().contains("unmapped"), "{error}");
            // The target serves others.
            let other = device();
            let way = other.connect(&target.address()).unwrap();
            write(&*way, &[7; MIB], at).unwrap();
            read(&*way, &mut bytes[..MIB], at).unwrap();
            assert!(bytes[..MIB].iter().all(|&byte| byte == 7));
        }
    }
}

#[test]
fn long_transfers_go_both_ways_at_once() {
    const LEN: usize = 24 * MIB;
    let devices = [device(), device()];
    let regions = devices
        .each_ref()
        .map(|one| one.allocate(2 * LEN, 8).unwrap());
    let begin = Barrier::new(2);
    let byte = |rank: usize, at: usize| (at / 4096 + at + rank) as u8;
    thread::scope(|scope| {
        for rank in 0..2 {
            let (devices, regions, begin) = (&devices, &regions, &begin);
            scope.spawn(move || {
                let way = devices[rank].connect(&devices[1 - rank].address()).unwrap();
                let at = |at| regions[1 - rank].remote().at(at);
                let from: Vec<u8> = (0..LEN).map(|at| byte(rank, at)).collect();
                let mut to = vec![0; LEN];
                begin.wait();
                for round in 0..2 {
                    // SAFETY: the buffers stay until both are complete.
                    let last = unsafe {
                        way.transfer(
                            Direction::Write,
                            from.as_ptr().cast_mut(),
                            LEN,
                            at(round * LEN as u64),
                        )
                        .unwrap();
                        way.transfer(
                            Direction::Read,
                            to.as_mut_ptr(),
                            LEN,
                            at(round * LEN as u64),
                        )
                        .unwrap()
                    };
                    finish(&*way, last).unwrap();
                    assert!(to == from);
                    to.fill(0);
                }
            });
        }
    });
}

/// A target, and the origin's end of its connection.
fn served(len: usize) -> (Target, LocalRegion, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    prepare(&stream, Side::Target).unwrap();
    let regions = Regions::new(1);
    let region = regions.allocate(len, 8).unwrap();
    (
        Target::new(regions, GivenCombiner::default(), Arc::default()),
        region,
        stream,
        origin,
    )
}

#[test]
fn a_long_transfer_leaves_others_their_turn() {
    const TURN: usize = 4 << 10;
    let request = |kind, region: &LocalRegion, len: usize| Request {
        at: region.remote().at(0),
        len: len as u64,
        ..Request::of(kind)
    };
    let (mut held, mut scratch) = (Vec::new(), vec![0; 64]);
    // Once what was sent has come.
    let mut serve = |stream: &TcpStream, target: &mut Target| loop {
        match serve(stream, target, &mut held, &mut scratch, TURN, false).unwrap() {
            Next::Waits(EventFlags::IN) => {}
            next => return next,
        }
    };

    let (mut target, region, stream, mut origin) = served(8 * MIB);
    let get = request(Kind::Read, &region, 8 * MIB);
    origin.write_all(&get.encode()).unwrap();
    assert_eq!(serve(&stream, &mut target), Next::Ready);

    let (mut target, region, stream, mut origin) = served(8 * MIB);
    let put = request(Kind::Write, &region, 8 * MIB);
    origin.write_all(&put.encode()).unwrap();
    origin.write_all(&[7; 32 << 10]).unwrap();
    assert_eq!(serve(&stream, &mut target), Next::Ready);
    // SAFETY: memory of the region, which nobody changes meanwhile.
    let memory = unsafe { std::slice::from_raw_parts(region.base(), 32 << 10) };
    let stored = memory.iter().filter(|&&byte| byte == 7).count();
    assert!((TURN / 2..4 * TURN).contains(&stored), "{stored}");
}

fn open(secret: u8) -> TcpDevice {
    TcpDevice::open("lo", JobSecret([secret; 32]), None, Keys::Own).unwrap()
}

#[test]
fn a_peer_gets_through_to_a_port_with_thousands_of_strangers() {
    const STRANGERS: usize = 5000;
    let _others = ASSISTING.lock();
    let (target, origin) = (open(1), open(1));
    let region = target.allocate(8, 8).unwrap();
    let at = ("127.0.0.1", target.own.port);
    // Where fewer descriptors are allowed, as many as there are; some are left for the peer.
    let mut strangers: Vec<_> = (0..STRANGERS)
        .map_while(|_| TcpStream::connect(at).ok())
        .collect();
    strangers.truncate(strangers.len().min(STRANGERS) - 10);
    assert!(strangers.len() > 400, "too few for a test");
    let way = origin.connect(&target.address()).unwrap();
    write(&*way, &[7; 8], region.remote().at(0)).unwrap();
    drop(strangers);
}

/// Both ends of a connection.
fn pair() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    prepare(&ours, Side::Origin).unwrap();
    (OwnDescriptor::new(ours), listener.accept().unwrap().0)
}

/// The ends of a connection that is reset, and of the one that follows. `lives`: what the process does when it is dialled
/// again.
fn reset_amid(lives: bool, is_idle: bool) -> (Origin, Arc<Status>, TcpStream) {
    let (mut origin, status, others) = reset_behind_its_back(lives, is_idle);
    let begun = Instant::now();
    while origin.check().is_ok() && !origin.is_lost() {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "nobody heard of the reset"
        );
        origin.progress();
    }
    (origin, status, others)
}

/// The same, before the origin has looked.
fn reset_behind_its_back(lives: bool, is_idle: bool) -> (Origin, Arc<Status>, TcpStream) {
    reset_after(lives, |origin, _| {
        if !is_idle {
            // SAFETY: it has no buffers.
            unsafe {
                origin
                    .post(&Request::of(Kind::Leave), None, None, true)
                    .unwrap()
            };
        }
    })
}

/// The same, after what both ends have done.
fn reset_after(
    lives: bool,
    before: impl FnOnce(&mut Origin, &mut TcpStream),
) -> (Origin, Arc<Status>, TcpStream) {
    let ((first, mut theirs), (second, others)) = (pair(), pair());
    let (status, second) = (Arc::<Status>::default(), Mutex::new(Some(second)));
    let peer = Peer {
        pid: 7,
        host: "n1".into(),
        redial: Box::new(move || match second.lock().unwrap().take() {
            Some(stream) if lives => Redialled::Lives(stream),
            _ => Redialled::Gone,
        }),
        status: status.clone(),
    };
    let mut origin = Origin::new(Arc::new(peer), Arc::new(first));
    before(&mut origin, &mut theirs);
    reset(theirs);
    (origin, status, others)
}

#[test]
fn a_connection_that_is_reset_while_nothing_is_under_way_is_replaced() {
    for (mut origin, status, mut others) in
        [reset_amid(true, true), reset_behind_its_back(true, true)]
    {
        thread::sleep(Duration::from_millis(20));
        for request in 1..3 {
            // SAFETY: it has no buffers.
            let posted = unsafe { origin.post(&Request::of(Kind::Leave), None, None, true) };
            assert_eq!(posted.unwrap(), request);
            origin.progress();
            let mut seen = [0; REQUEST];
            others.read_exact(&mut seen).unwrap();
            assert_eq!(Request::decode(&seen), Some(Request::of(Kind::Leave)));
        }
        others.write_all(&Answer::Done(2).encode()).unwrap();
        let begun = Instant::now();
        while origin.done() < 2 {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "it counts as before"
            );
            origin.progress();
        }
        assert_eq!(status.presence(), Presence::Here);
    }
}

/// The flags of a barrier, say: nobody waits for their answers.
#[test]
fn answers_that_nobody_has_read_are_of_requests_that_are_over() {
    let (mut origin, _, mut others) = reset_after(true, |origin, theirs| {
        // SAFETY: it has no buffers.
        unsafe {
            origin
                .post(&Request::of(Kind::Leave), None, None, true)
                .unwrap()
        };
        theirs.read_exact(&mut [0; REQUEST]).unwrap();
        theirs.write_all(&Answer::Done(1).encode()).unwrap();
    });
    thread::sleep(Duration::from_millis(20));
    // SAFETY: as above.
    let posted = unsafe { origin.post(&Request::of(Kind::Disconnect), None, None, true) };
    assert_eq!(posted.unwrap(), 2);
    origin.progress();
    let mut seen = [0; REQUEST];
    others.read_exact(&mut seen).unwrap();
    assert_eq!(Request::decode(&seen), Some(Request::of(Kind::Disconnect)));
    assert_eq!((origin.done(), origin.check().is_ok()), (1, true));
}

#[test]
fn a_connection_that_is_reset_is_not_taken_for_a_death() {
    let (origin, status, mut others) = reset_amid(true, false);
    let error = origin.check().unwrap_err();
    assert!(error.to_string().contains("was reset"), "{error}");
    assert_eq!(status.presence(), Presence::Here);
    let mut seen = [0; REQUEST];
    others.read_exact(&mut seen).unwrap();
    let farewell = Some(Request::of(Kind::Disconnect));
    assert_eq!(
        Request::decode(&seen),
        farewell,
        "of the connection that was made to ask"
    );
}

#[test]
fn a_process_that_is_gone_after_a_reset_is_said_to_be_gone() {
    let (origin, status, _) = reset_amid(false, false);
    assert!(matches!(
        origin.check(),
        Err(crate::Error::PeerGone { pid: 7 })
    ));
    assert_eq!(status.presence(), Presence::Gone);
    let (mut origin, status, _) = reset_amid(false, true);
    // SAFETY: it has no buffers.
    let posted = unsafe { origin.post(&Request::of(Kind::Leave), None, None, true) };
    assert!(matches!(posted, Err(crate::Error::PeerGone { pid: 7 })));
    assert_eq!(status.presence(), Presence::Gone);
}

#[test]
fn a_reset_after_the_end_of_the_peers_own_connection_is_a_death() {
    // SAFETY: it has no buffers.
    let post =
        |origin: &mut Origin| unsafe { origin.post(&Request::of(Kind::Leave), None, None, true) };
    for lives in [true, false] {
        let (mut origin, status, _) = reset_after(lives, |origin, theirs| {
            post(origin).unwrap();
            theirs.read_exact(&mut [0; REQUEST]).unwrap();
        });
        status.becomes(Presence::Gone);
        thread::sleep(Duration::from_millis(20));
        origin.progress();
        let checked = origin.check();
        assert!(
            matches!(checked, Err(crate::Error::PeerGone { pid: 7 })),
            "{checked:?}"
        );
    }
}

#[test]
fn who_left_after_a_reset_has_left() {
    let (mut origin, status, _) = reset_amid(false, true);
    status.becomes(Presence::Closed);
    // SAFETY: it has no buffers.
    let posted = unsafe { origin.post(&Request::of(Kind::Leave), None, None, true) };
    assert!(
        matches!(posted, Err(crate::Error::PeerClosed { pid: 7, .. })),
        "{posted:?}"
    );
}

/// An origin, and its peer's end; the peer answers no dial.
fn connected() -> (Origin, TcpStream) {
    let (ours, theirs) = pair();
    let peer = Peer {
        pid: 7,
        host: "n1".into(),
        redial: Box::new(|| Redialled::Silent),
        status: Arc::default(),
    };
    (Origin::new(Arc::new(peer), Arc::new(ours)), theirs)
}

/// To whoever waits for an operation, and to whoever asks whether the process lives.
#[test]
fn silence_is_not_a_death_to_anyone() {
    let (mut origin, _theirs) = connected();
    origin.fail_by(&io::ErrorKind::TimedOut.into());
    for answer in [origin.check(), origin.liveness()] {
        assert!(
            matches!(answer, Err(crate::Error::NoAnswer { .. })),
            "{answer:?}"
        );
    }
}

/// Until the peer hears that the job was aborted.
#[test]
fn who_gives_up_a_request_has_not_gone() {
    let (mut origin, mut theirs) = connected();
    // SAFETY: it has no buffers.
    unsafe { origin.post(&Request::of(Kind::Leave), None, None, true) }.unwrap();
    theirs.read_exact(&mut [0; REQUEST]).unwrap();
    origin.fail(crate::Error::Cancelled { pid: 7 });
    theirs.set_nonblocking(true).unwrap();
    thread::sleep(Duration::from_millis(20));
    let more = theirs.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(more, Err(io::ErrorKind::WouldBlock));
}

/// Its port may accept for a moment more.
#[test]
fn a_process_that_ends_while_it_is_dialled_is_gone() {
    let origin = open(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = open(1).own.clone();
    peer.port = listener.local_addr().unwrap().port();
    thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            thread::sleep(Duration::from_millis(10));
            drop(stream);
            thread::sleep(Duration::from_millis(10));
            drop(listener);
        });
        let dialled = origin.connect(&peer.encode(MARK)).map(drop);
        assert!(
            matches!(dialled, Err(crate::Error::PeerGone { .. })),
            "{dialled:?}"
        );
    });
}

/// Closes it as a kernel does that no longer knows it.
fn reset(stream: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the kernel reads the structure.
    let rc = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        )
    };
    assert_eq!(rc, 0);
}

#[test]
fn a_thread_that_waits_serves_peers_beside_the_agent() {
    use std::sync::atomic::AtomicBool;
    let _others = ASSISTING.lock();
    let (_target, _origin, region, endpoint) = word_of_a_peer();
    let (word, is_over) = (region.remote().at(0), AtomicBool::new(false));
    let added = std::thread::scope(|scope| {
        let adder = scope.spawn(|| {
            let mut added = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(add(&*endpoint, word).unwrap(), added);
                added += 1;
            }
            added
        });
        let assist = Assist::of_process().unwrap();
        let mut served = 0;
        while served < 10 {
            served += u32::from(assist.serve());
        }
        is_over.store(true, Ordering::Relaxed);
        adder.join().unwrap()
    });
    // SAFETY: no operation is under way any more.
    assert_eq!(unsafe { region.base().cast::<u64>().read() }, added);
}

#[test]
fn peers_are_served_whatever_a_thread_does_that_said_it_would_serve() {
    let _others = ASSISTING.lock();
    let (target, _origin, region, endpoint) = word_of_a_peer();
    let mut assist = Assist::of_process().unwrap();
    let add = |expected: u64| {
        assert_eq!(add(&*endpoint, region.remote().at(0)).unwrap(), expected);
    };
    for round in 0..3 {
        // It serves nobody at all, begins and ends at once, and serves some.
        assist.lend();
        add(4 * round);
        open(1).connect(&target.address()).unwrap();
        assist.withdraw();
        add(4 * round + 1);
        assist.lend();
        assist.withdraw();
        add(4 * round + 2);
        assist.lend();
        for _ in 0..1000 {
            assist.serve();
        }
        add(4 * round + 3);
        assist.withdraw();
    }
}

/// What a thread that has served a store does afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Looks,
    Withdraws,
    ComputesInPassing,
}

#[test]
fn a_store_that_nobody_waits_for_is_acknowledged_before_long() {
    let _others = ASSISTING.lock();
    let (_target, origin, region, endpoint) = word_of_a_peer();
    let connection = origin.endpoints().values().next().unwrap().clone();
    let word = region.base().cast::<u64>();
    // SAFETY: a word of the region, which the target stores to by atomics.
    let seen = || unsafe { AtomicU64::from_ptr(word) }.load(Ordering::SeqCst);
    let soon = |what: &mut dyn FnMut() -> bool| {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
    };
    let mut assist = Assist::of_process().unwrap();
    for (value, then) in [Then::Looks, Then::Withdraws, Then::ComputesInPassing]
        .into_iter()
        .cycle()
        .take(30)
        .enumerate()
    {
        let value = value as u64 + 1;
        if then != Then::ComputesInPassing {
            assist.lend();
        }
        let stored = endpoint.store(region.remote().at(0), value - 1, value);
        soon(&mut || {
            match then {
                Then::ComputesInPassing => drop(crate::serve_in_passing()),
                _ => drop(assist.serve()),
            }
            seen() == value
        });
        if then == Then::Withdraws {
            assist.withdraw();
        }
        let Ticket(stored) = stored.unwrap();
        soon(&mut || {
            if then == Then::Looks {
                assist.serve();
            }
            connection.acknowledged() >= stored
        });
        assist.withdraw();
    }
}

#[test]
fn an_origin_is_answered_at_once_if_it_waits() {
    let (mut target, region, stream, origin) = served(8);
    let store = Request {
        at: region.remote().at(0),
        len: 8,
        ..Request::of(Kind::Store)
    };
    let asks = Request::of(Kind::Acknowledge);
    let (mut held, mut scratch) = (Vec::new(), vec![0; 1024]);
    for (round, asked) in [(0, true), (4, false)] {
        (&origin).write_all(&store.encode()).unwrap();
        (&origin).write_all(&store.encode()).unwrap();
        let mut serve = |may_defer: bool| {
            let next = serve(
                &stream,
                &mut target,
                &mut held,
                &mut scratch,
                4096,
                may_defer,
            );
            assert_eq!(next.unwrap(), Next::Waits(EventFlags::IN));
            target.done()
        };
        while serve(true) < round + 2 {}
        origin.set_nonblocking(true).unwrap();
        let unread = (&origin).read(&mut [0]).unwrap_err();
        assert_eq!(unread.kind(), ErrorKind::WouldBlock);
        origin.set_nonblocking(false).unwrap();
        let done = match asked {
            true => {
                (&origin).write_all(&asks.encode()).unwrap();
                while serve(true) < round + 3 {}
                // As if it had been answered by itself.
                (&origin).write_all(&store.encode()).unwrap();
                while serve(true) < round + 4 {}
                round + 3
            }
            false => {
                serve(false);
                round + 2
            }
        };
        let mut answer = [0; ANSWER];
        (&origin).read_exact(&mut answer).unwrap();
        assert_eq!(Answer::decode(&answer), Some(Answer::Done(done)));
    }
}

#[test]
fn a_long_read_does_not_hold_up_the_acknowledgement_of_what_was_before() {
    const LEN: usize = 1 << 20;
    let (mut target, region, stream, origin) = served(LEN);
    let request = |kind, len| Request {
        at: region.remote().at(0),
        len,
        ..Request::of(kind)
    };
    let read = request(Kind::Read, LEN as u64).encode();
    let both = [request(Kind::Store, 8).encode(), read].concat();
    (&origin).write_all(&both).unwrap();
    (origin.set_read_timeout(Some(Duration::from_secs(20)))).unwrap();
    let (mut held, mut scratch) = (Vec::new(), vec![0; 1024]);
    let mut answers = [0; 2 * ANSWER];
    thread::scope(|scope| {
        let serves = scope.spawn(|| {
            // The socket does not take all of the read's data.
            while serve(&stream, &mut target, &mut held, &mut scratch, LEN, true).unwrap()
                == Next::Waits(EventFlags::IN)
            {}
        });
        (&origin).read_exact(&mut answers).unwrap();
        serves.join().unwrap();
    });
    let (answers, _) = answers.as_chunks::<ANSWER>();
    assert_eq!(Answer::decode(&answers[0]), Some(Answer::Done(1)));
    assert!(matches!(Answer::decode(&answers[1]), Some(Answer::Data(_))));
}

#[test]
fn nothing_is_asked_of_a_peer_that_has_answered_all() {
    let (_target, origin, region, endpoint) = word_of_a_peer();
    let connection = origin.endpoints().values().next().unwrap().clone();
    assert_eq!(add(&*endpoint, region.remote().at(0)).unwrap(), 0);
    let posted = connection.posted();
    connection.progress();
    assert!(connection.drain(Instant::now()));
    assert_eq!(connection.posted(), posted);
    let stored = endpoint.store(region.remote().at(0), 0, 1).unwrap();
    assert!(connection.drain(Instant::now() + Duration::from_secs(20)));
    assert!(connection.acknowledged() >= stored.0);
}

#[test]
fn atomics_on_own_words_take_effect_at_once_but_behind_what_was_posted() {
    let device = device();
    let region = device.allocate(8, 8).unwrap();
    let way = device.connect(&device.address()).unwrap();
    let (at, mut old, new) = (region.remote().at(0), u64::MAX, 100_u64);
    // SAFETY: the variable is there until the operations are complete.
    let mut add = |at| unsafe { way.fetch(at, Width::W8, Fetch::Add(5), &raw mut old) };
    assert_eq!(add(at).unwrap(), Ticket::DONE);
    // SAFETY: as above.
    let written =
        unsafe { way.transfer(Direction::Write, (&raw const new).cast_mut().cast(), 8, at) };
    let behind = add(at).unwrap();
    assert!(behind > written.unwrap(), "the write is under way");
    finish(&*way, behind).unwrap();
    assert_eq!(add(at).unwrap(), Ticket::DONE);
    let refused = add(at.moved(4)).unwrap_err();
    assert!(refused.is_remote_access(), "{refused}");
    assert_eq!(old, 105);
    // SAFETY: no operation is under way any more.
    assert_eq!(unsafe { region.base().cast::<u64>().read() }, 110);
}

#[test]
fn a_key_is_worth_nothing_without_the_secret_of_the_job() {
    let target = open(1);
    let record = target.address();
    open(1).connect(&record).unwrap();
    // To a process with another secret, another one seems to listen there.
    let stranger = open(2).connect(&record);
    assert!(matches!(stranger, Err(crate::Error::PeerGone { .. })));
}

#[test]
fn nothing_is_answered_to_who_means_another_process() {
    let target = open(1);
    let record = decode(&target.address()).unwrap();
    for (meant, is_answered) in [(record.instance, true), (record.instance ^ 1, false)] {
        let mut stranger = TcpStream::connect(("127.0.0.1", record.port)).unwrap();
        let guest = Guest::new(&MAGIC, [meant, 7], &[3; 32]);
        stranger.write_all(guest.hello()).unwrap();
        let answered = stranger.read(&mut [0]).unwrap() > 0;
        assert_eq!(answered, is_answered);
    }
}
