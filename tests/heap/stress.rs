//! Threads come and go, allocate, fork, and write in windows and beside them, all the while windows
//! are made and freed: no write is lost, and the heap stays whole.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transom::raw::{self, Assert};
use transom::{BasicType, Communicator, Info, Job, Op, Result, Window};

use crate::life::Interface;
use crate::setting::Setting;
use crate::{Case, duration};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        name: "all_at_once",
        ranks: 2,
        interfaces: &[Interface::Typed, Interface::Raw],
        settings: &[Setting::Caller, Setting::Ordinary],
        play: all_at_once,
    }]
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Private memory, of which a thread adds to the even words, and the ranks to odd ones of the windows
/// over its middle.
struct Words {
    base: *mut u8,
}

// SAFETY: an address, behind which everybody uses atomics.
unsafe impl Sync for Words {}

impl Words {
    const LEN: usize = 12 << 12;

    fn new() -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the place.
        let base = unsafe { libc::mmap(ptr::null_mut(), Self::LEN, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self { base: base.cast() }
    }

    fn all(&self) -> &[AtomicU64] {
        // SAFETY: mapped for good, and used as atomics by everybody.
        unsafe { std::slice::from_raw_parts(self.base.cast(), Self::LEN / 8) }
    }
}

fn all_at_once(job: &Job, interface: Interface) -> Result<()> {
    let words = Words::new();
    let over = AtomicBool::new(false);
    let (mut passes, mut rounds) = (0, Ok(0));
    let begun = Instant::now();
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&words, &over));
        scope.spawn(|| until(&over, 1, thread_comes_and_goes));
        scope.spawn(|| allocate(&over, 2));
        scope.spawn(|| allocate(&over, 3));
        scope.spawn(|| until(&over, 4, |_| fork(&words)));
        let _end = EndOnDrop(&over);
        rounds = windows_come_and_go(job, interface, &words);
        over.store(true, Ordering::Relaxed);
        passes = writer.join().unwrap();
    });
    let rounds = rounds?;
    for (index, word) in words.all().iter().enumerate() {
        let expected = match index % 2 {
            0 => passes,
            _ if interface_adds(interface, index) => rounds,
            _ => 0,
        };
        assert_eq!(word.load(Ordering::Relaxed), expected, "word {index}");
    }
    println!(
        "{rounds} windows and {passes} passes in {:?}",
        begun.elapsed()
    );
    Ok(())
}

/// Also when a check of the windows panics, so that the other threads end.
struct EndOnDrop<'o>(&'o AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn until(over: &AtomicBool, seed: u64, mut body: impl FnMut(&mut Random)) {
    let mut random = Random(seed);
    while !over.load(Ordering::Relaxed) {
        body(&mut random);
    }
}

fn write(words: &Words, over: &AtomicBool) -> u64 {
    let mut passes = 0;
    while !over.load(Ordering::Relaxed) {
        for word in words.all().iter().step_by(2) {
            // No atomic addition: a copy of the page that is taken meanwhile loses it.
            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        passes += 1;
    }
    passes
}

fn thread_comes_and_goes(random: &mut Random) {
    let (len, byte) = (1 + random.below(100_000), random.below(256) as u8);
    let made = thread::spawn(move || vec![byte; len]).join().unwrap();
    assert!(made.len() == len && made.iter().all(|&found| found == byte));
}

/// Blocks that are filled, grown and freed again, each checked to the last byte.
fn allocate(over: &AtomicBool, seed: u64) {
    let mut blocks = vec![(0_u8, Vec::new()); 50];
    until(over, seed, |random| {
        let (place, tag) = (random.below(50), random.below(255) as u8 + 1);
        let (old, block) = &mut blocks[place];
        assert!(block.iter().all(|byte| byte == old), "of a block");
        if random.below(3) == 0 {
            block.resize(block.len() + random.below(50_000), *old);
            return;
        }
        let len = random.below(60_000);
        *block = vec![0_u8; len];
        assert!(block.iter().all(|&byte| byte == 0), "of {len} new bytes");
        block.fill(tag);
        *old = tag;
    });
}

/// The child changes its own copy only.
fn fork(words: &Words) {
    // SAFETY: the child calls nothing but atomics and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for word in words.all() {
            word.store(1 << 60, Ordering::Relaxed);
        }
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "of the child");
    thread::sleep(Duration::from_millis(2));
}

/// Returns how many there were, the same number on all ranks.
fn windows_come_and_go(job: &Job, interface: Interface, words: &Words) -> Result<u64> {
    let (world, limit, begun) = (job.world(), duration(), Instant::now());
    let mut random = Random(5);
    for round in 0.. {
        let more = u32::from(begun.elapsed() < limit);
        if world.allreduce(&[more], Op::Min)? == [0] {
            return Ok(round);
        }
        let (len, mark) = (1 + random.below(50_000), round as u8);
        let memory = interface.live(job, vec![!mark; len], mark, || ())?;
        assert!(memory[..len - 1].iter().all(|&byte| byte == !mark) && memory[len - 1] == mark);
        drop(memory);
        match interface {
            Interface::Typed => over_a_vector(world, &mut random)?,
            Interface::Raw => over_words(world, words)?,
        }
    }
    unreachable!("the rounds end by themselves")
}

/// All ranks add to what each has in its vector.
fn over_a_vector(world: &Communicator, random: &mut Random) -> Result<()> {
    let len = 1 + random.below(5000);
    let mine: Vec<u64> = (0..len as u64).collect();
    let mut window = Window::create(world, mine)?;
    let ones = vec![1; len];
    window.fence(|epoch| {
        for rank in 0..world.size() {
            epoch.target(rank)?.accumulate(Op::Sum, 0, &ones)?;
        }
        Ok(())
    })?;
    let sums = window.into_vec()?;
    assert!(
        sums.into_iter()
            .eq((0..len as u64).map(|word| word + u64::from(world.size())))
    );
    Ok(())
}

/// Where the window over the words begins and ends.
const FIRST: usize = 34;
const LAST: usize = Words::LEN / 8 - 34;
/// Words of the window that each rank adds to at its neighbour: all odd.
const ADDED: [usize; 4] = [1, 511, 1501, LAST - FIRST - 1];

fn interface_adds(interface: Interface, index: usize) -> bool {
    matches!(interface, Interface::Raw) && ADDED.contains(&index.wrapping_sub(FIRST))
}

fn over_words(world: &Communicator, words: &Words) -> Result<()> {
    let (base, size) = (words.base.wrapping_add(FIRST * 8), (LAST - FIRST) * 8);
    // SAFETY: mapped for good, and only used by atomics.
    let window = unsafe { raw::Window::create(world, base, size, 8, &Info::new())? };
    let other = (world.rank() + 1) % world.size();
    window.lock_all(Assert::NONE)?;
    for word in ADDED {
        let (one, mut old) = (1_u64, 0_u64);
        let (from, to) = ((&raw const one).cast(), (&raw mut old).cast());
        // SAFETY: both words outlive the flush.
        unsafe { window.fetch_and_op(from, to, BasicType::U64, other, word as u64, Op::Sum)? };
        window.flush(other)?;
    }
    window.unlock_all()?;
    window.free()
}
