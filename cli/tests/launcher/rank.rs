//! What this binary does as a rank.

use std::io::{BufRead as _, BufReader, Write as _, copy};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, exit};
use std::time::Duration;

use transom::raw::Window;
use transom::{AbortCause, Info, Job};
use transom_launch::{Bootstrap, start};
use transom_testing::environment::own_rank;
use transom_testing::job::playing;

/// Lines of `flood`, about 10 MB.
pub(crate) const FLOOD: u32 = 200_000;

/// The line that a rank writes, of a length that varies from line to line.
pub(crate) fn line(rank: u32, index: u32, stream: &str) -> String {
    let filler = "abcdefghijklmnopqrstuvwxyz".repeat(3);
    let len = (index * 31 + rank) % 78;
    format!("{rank} {index} {stream} {}.", &filler[..len as usize])
}

pub(crate) fn play(role: &str) {
    match role {
        "lines" => lines(),
        "flood" => flood(),
        "exchange" => exchange(),
        "abort" => abort(),
        "gather" => gather(),
        "give-up" => give_up(),
        "leave" => leave(),
        "panics-first" => fails_first(|job, _| {
            let _job = job;
            panic!("no more");
        }),
        "leaves-first" => fails_first(|job, _| drop(job)),
        "gives-up-first" => fails_first(|_job, window| {
            transom::lower::give_up(&window, AbortCause::EpochFailed);
        }),
        "leave-before-joining" => leave_before_joining(0),
        "fail-before-joining" => leave_before_joining(3),
        "init" => init(),
        "wait" => wait(),
        "meet" => meet(),
        "control-full" => control_full(),
        "unmapped" => unmapped(),
        "child" => child(),
        "grandchild" => report(),
        "attach-early" => crate::forbidden::attach(true),
        "attach-late" => crate::forbidden::attach(false),
        other if other.starts_with("waits-") => crate::waits::play(other),
        other => crate::seen::play(other),
    }
}

/// Writes both streams at once, in pieces that do not end where lines end.
fn lines() {
    let rank = own_rank();
    let text = |stream: &str| -> String {
        (0..20_000)
            .map(|index| line(rank, index, stream) + "\n")
            .collect()
    };
    let (out, err) = (text("out"), text("err"));
    // Past the buffer of std, which writes whole lines.
    let write = |fd: i32, text: &str| {
        for piece in text.as_bytes().chunks(997) {
            // SAFETY: the pointer and the length are those of a live slice.
            let written = unsafe { libc::write(fd, piece.as_ptr().cast(), piece.len()) };
            assert_eq!(written, piece.len().cast_signed());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(1, &out));
        scope.spawn(|| write(2, &err));
    });
}

/// Rank 0 writes much and is dead at once; the others wait for their end.
fn flood() {
    let rank = own_rank();
    if rank == 0 {
        let mut text = String::new();
        for index in 0..FLOOD {
            text += &line(rank, index, "out");
            text.push('\n');
        }
        std::io::stdout().write_all(text.as_bytes()).unwrap();
        // SAFETY: both calls take integers.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    std::thread::sleep(Duration::from_secs(1000));
}

fn join() -> Box<dyn Bootstrap> {
    let by = start::join().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(by.name(), "PMI");
    by
}

/// Allgathers by PMI, short ones and long.
fn exchange() {
    let by = join();
    let (rank, size) = (by.rank(), by.size());
    for len in [1, 8, 700, 30_000] {
        let all = by.allgather(&block(rank, len)).unwrap();
        let expected: Vec<_> = (0..size).map(|rank| block(rank, len)).collect();
        assert!(all == expected, "rank {rank}: blocks of {len} bytes");
    }
    let hosts = if by.is_one_host().unwrap() {
        "one"
    } else {
        "unknown"
    };
    println!("rank {rank} of {size}, hosts: {hosts}");
    by.finalize().unwrap();
}

fn block(rank: u32, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at as u32).wrapping_mul(31).wrapping_add(rank * 7) as u8;
    (0..len).map(byte).collect()
}

fn abort() {
    let by = join();
    by.allgather(b"here").unwrap();
    if by.rank() == 1 {
        by.abort(9, "the residual is NaN").unwrap();
    }
    std::thread::sleep(Duration::from_secs(1000));
}

/// Allgathers by PMIx, short ones and long.
fn gather() {
    let pmix = start::join().unwrap();
    assert_eq!(pmix.name(), "PMIx");
    let (rank, size) = (pmix.rank(), pmix.size());
    for len in [1, 8, 1000, 100_000, 1 << 20] {
        let all = pmix.allgather(&block(rank, len)).unwrap();
        let expected: Vec<_> = (0..size).map(|rank| block(rank, len)).collect();
        assert!(all == expected, "rank {rank}: blocks of {len} bytes");
    }
    for len in [0, (1 << 20) + 1] {
        let error = pmix.allgather(&vec![0; len]).unwrap_err().to_string();
        assert!(error.contains(&format!("{len} bytes of rank {rank} do not fit")));
    }
    println!("rank {rank} of {size}");
    pmix.finalize().unwrap();
}

/// Rank 1 ends the job, while the others wait for what no rank will do.
fn give_up() {
    let job = transom::Job::init().unwrap();
    job.world().barrier().unwrap();
    if job.world().rank() == 1 {
        job.abort(9, "the residual is NaN");
        exit(9);
    }
    let error = job.world().barrier().unwrap_err();
    println!("rank {}: {error}", job.world().rank());
    std::thread::sleep(Duration::from_secs(1000));
}

/// Ends slowly after what was declared later, as a program does that has much to free.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Rank 0 fails, and takes its time until its process ends. The others end at once with the error that they get.
fn fails_first(fail: fn(Job, Window)) {
    let job = Job::init().unwrap();
    let window = Window::allocate(job.world(), 8, 1, &Info::new()).unwrap();
    job.world().barrier().unwrap();
    if job.world().rank() == 0 {
        let slow = Slow;
        fail(job, window);
        drop(slow);
        exit(7);
    }
    job.world().barrier().unwrap_err();
    exit(1);
}

fn leave() {
    let by = join();
    by.allgather(b"here").unwrap();
    if by.rank() == 1 {
        exit(0);
    }
    if let Err(error) = by.allgather(b"here") {
        println!("rank {}: {error}", by.rank());
        by.finalize().unwrap();
    }
}

fn leave_before_joining(code: i32) {
    if own_rank() == 1 {
        exit(code);
    }
    if let Err(error) = join().allgather(b"here") {
        eprintln!("{error}");
        exit(1);
    }
}

/// Says why it cannot start, if it cannot.
fn init() {
    if let Err(error) = transom::Job::init() {
        println!("{error}");
    }
}

/// Waits for what no rank will do.
fn wait() {
    let job = transom::Job::init().unwrap();
    let size = 4096;
    let window = transom::raw::Window::allocate(job.world(), size, 1, &transom::Info::new());
    let window = window.unwrap();
    println!("waits");
    let error = window.wait_notify(0, 1).unwrap_err();
    eprintln!("{error}");
}

fn meet() {
    let job = transom::Job::init().unwrap();
    let world = job.world();
    world.barrier().unwrap();
    println!("rank {} of {}", world.rank(), world.size());
}

/// Makes communicators until there is no room for one more, and uses them all, and their room again.
fn control_full() {
    let job = transom::Job::init().unwrap();
    let mut comms = Vec::new();
    let error = loop {
        match job.world().dup() {
            Ok(comm) => comms.push(comm),
            Err(error) => break error,
        }
        assert!(comms.len() < 1000, "more than the environment allows");
    };
    assert_eq!(error.class(), transom::ErrorClass::NoMem, "{error}");
    comms.iter().for_each(|comm| comm.barrier().unwrap());
    let made = comms.len();
    drop(comms);
    for _ in 0..2 * made {
        job.world().dup().unwrap().barrier().unwrap();
    }
    println!("{error}");
}

/// Passes on what a rank and its launcher tell each other, but for the question on which nodes ranks run.
fn unmapped() {
    let socket = std::env::var("PMI_FD").unwrap().parse().unwrap();
    // SAFETY: the call takes integers.
    assert_eq!(0, unsafe {
        libc::fcntl(socket, libc::F_SETFD, libc::FD_CLOEXEC)
    });
    // SAFETY: the launcher's socket, which is this process's alone, and used here only.
    let mut launcher = unsafe { UnixStream::from_raw_fd(socket) };
    let (ours, theirs) = UnixStream::pair().unwrap();
    // SAFETY: the descriptor is open.
    assert_eq!(0, unsafe {
        libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0)
    });
    let mut command = playing(Command::new("env"), "meet");
    command.env("PMI_FD", theirs.as_raw_fd().to_string());
    let mut rank = command.spawn().unwrap();
    drop(theirs);
    let (mut from, mut to) = (launcher.try_clone().unwrap(), ours.try_clone().unwrap());
    std::thread::spawn(move || copy(&mut from, &mut to));
    for line in BufReader::new(ours).lines() {
        let line = line.unwrap();
        let line = line.replace("key=PMI_process_mapping", "key=nobody");
        launcher.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    exit(rank.wait().unwrap().code().unwrap_or(1));
}

/// A rank whose child, though it inherits the variables, must not speak for it.
fn child() {
    let by = join();
    let child = playing(Command::new("env"), "grandchild").status().unwrap();
    assert!(child.success());
    by.finalize().unwrap();
}

/// Prints what this process makes of its environment.
fn report() {
    match start::join() {
        Ok(by) => println!("{}", by.name()),
        Err(error) => println!("{error}"),
    }
}
