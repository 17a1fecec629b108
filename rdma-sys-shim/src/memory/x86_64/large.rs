//! Copies too large for the second-level cache, where the best way depends on the machine.
//!
//! Streaming stores do not read the destination first. That nearly doubles the speed once the third level no
//! longer holds both sides, and loses up to half of it while it does. Where that is, the cache sizes (`caches`) only let
//! one guess, and least of all in a virtual machine, which sees a share of a cache and is told of all of it. So it
//! is measured: now and then a copy moves an equal part by each method and times the parts, and the copies of about
//! that length that follow use the fastest.

use std::arch::asm;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::caches::Caches;
use super::medium;

/// No copy below this length comes here, whatever the caches: streaming has never paid there.
pub(super) const FLOOR: usize = 512 << 10;

/// The second-level cache, where the processor does not tell.
const USUAL_L2: usize = 2 << 20;

/// A trial is made over the first copies of a length class, and again after so many.
const TRIAL_PERIOD: u32 = 64;
const TRIAL_COPIES: u32 = 5;

/// The first copies of a trial are not timed. They bring the parts into the state that each method leaves
/// behind, without which the one in use has the advantage: plain stores take two passes or more to settle in
/// the third level. Of the others each method's best counts, as they may be disturbed.
const SETTLING_COPIES: u32 = 2;

/// The share of a copy that a trial gives to each method, up to so many bytes; the rest moves by the one in use.
const TRIAL_SHARE: usize = 16;
const TRIAL_BYTES: usize = 256 << 10;

/// Of so many copies in a row that are slower by a quarter than what was found, the next begins a trial: other memory
/// is copied now.
const DISAPPOINTING: u32 = 2;

/// A way to copy ranges that do not overlap.
///
/// # Safety
/// As [`super::super::copy`]; the ranges do not overlap, and the processor has the instructions.
type Method = unsafe fn(*mut u8, *const u8, usize);

/// The ways of this machine, and from which on they stream.
fn methods() -> (Vec<Method>, usize) {
    let mut methods: Vec<Method> = match medium::gains() {
        true => vec![medium::by_vectors],
        false => vec![super::memmove],
    };
    if is_x86_feature_detected!("ermsb") {
        methods.push(rep_movs);
    }
    let first_stream = methods.len();
    // The last is what is guessed: half a line at a time is 6 % sooner on processors of AMD whose registers are as wide
    // as a line.
    if is_x86_feature_detected!("avx512f") {
        methods.extend([stream_ahead_512 as Method, stream_512, stream_256]);
    } else if is_x86_feature_detected!("avx") {
        methods.extend([stream_ahead_256 as Method, stream_256]);
    }
    assert!(methods.len() < TRIAL_SHARE);
    (methods, first_stream)
}

/// What is known of this machine, and of each length class (a power of two) on it.
struct Machine {
    threshold: usize,
    methods: Vec<Method>,
    /// Those from here on stream.
    first_stream: usize,
    classes: [Mutex<Class>; usize::BITS as usize],
}

impl Machine {
    /// That of copies of about this length, which is not 0.
    fn class(&self, len: usize) -> MutexGuard<'_, Class> {
        self.classes[len.ilog2() as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

struct Class {
    copies: u32,
    /// An index into the machine's methods.
    in_use: usize,
    /// For each method, the most bytes a second seen in the trial under way, or the last.
    speeds: Vec<f64>,
    /// How many copies in a row were slower than these let one expect.
    disappointing: u32,
    /// As slow as that whole copies may be, by the method in use, since a trial did not help.
    slow: f64,
}

impl Class {
    /// No copy was made yet.
    fn new(methods: usize, in_use: usize) -> Self {
        Self {
            copies: 0,
            in_use,
            speeds: vec![0.0; methods],
            disappointing: 0,
            slow: f64::INFINITY,
        }
    }

    /// The number of the next copy in its period, whose first are a trial.
    fn next_turn(&mut self) -> u32 {
        if self.disappointing >= DISAPPOINTING {
            (self.copies, self.disappointing) = (0, 0);
        }
        let turn = self.copies % TRIAL_PERIOD;
        self.copies = self.copies.wrapping_add(1);
        turn
    }

    /// Takes note of a whole copy between trials.
    fn note_whole(&mut self, method: usize, speed: f64) {
        let expected = self.speeds[method].min(self.slow);
        self.disappointing = match speed < expected * 0.75 {
            true => self.disappointing + 1,
            false => 0,
        };
        if self.disappointing == DISAPPOINTING {
            self.slow = speed;
        }
    }

    /// Takes note of one copy of a trial.
    fn note(&mut self, turn: u32, speeds: &[f64]) {
        if turn == SETTLING_COPIES {
            self.speeds.fill(0.0);
        }
        if turn >= SETTLING_COPIES {
            for (best, speed) in self.speeds.iter_mut().zip(speeds) {
                *best = best.max(*speed);
            }
        }
        if turn == TRIAL_COPIES - 1 {
            self.choose();
        }
    }

    /// Takes the fastest method, unless the one in use is about as fast: a change costs the cache's contents.
    fn choose(&mut self) {
        let clearly = self.speeds[self.in_use] * 33.0 / 32.0;
        let fastest =
            (0..self.speeds.len()).max_by(|&a, &b| self.speeds[a].total_cmp(&self.speeds[b]));
        if let Some(fastest) = fastest.filter(|&method| self.speeds[method] > clearly) {
            (self.in_use, self.slow) = (fastest, f64::INFINITY);
        }
    }
}

static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let (methods, first_stream) = methods();
    let caches = Caches::of_this_processor();
    let streams_from = streams_from(&super::vendor(), caches);
    let class = |log: usize| {
        let guess = match 1_usize << log >= streams_from {
            true => methods.len() - 1,
            false => 0,
        };
        Class::new(methods.len(), guess)
    };
    Machine {
        threshold: caches.l2.unwrap_or(USUAL_L2).max(FLOOR),
        classes: std::array::from_fn(|log| Mutex::new(class(log))),
        methods,
        first_stream,
    }
});

/// From what length on copies use streaming until their first trial ends: where both sides take half of the third level or
/// more, unless it is of Intel, whose processors lost by it.
fn streams_from(vendor: &[u8; 12], caches: Caches) -> usize {
    match vendor {
        b"GenuineIntel" => usize::MAX,
        _ => caches.l3.map_or(0, |l3| l3 / 4),
    }
}

/// # Safety
/// As [`super::super::copy_part`].
#[cold]
pub(in super::super) unsafe fn copy_part(to: *mut u8, from: *const u8, len: usize, whole: usize) {
    let apart = to.addr().abs_diff(from.addr()) >= len;
    let method = stream(whole).filter(|_| apart).unwrap_or(super::copy);
    // SAFETY: the caller's promise; what is not apart is left to what can do it.
    unsafe { method(to, from, len) };
}

pub(in super::super) fn streams(len: usize) -> bool {
    stream(len).is_some()
}

/// The method of copies of this length, if it streams.
fn stream(len: usize) -> Option<Method> {
    // What is short does not ask what machine it is, which takes a while at first.
    if len < FLOOR || len < MACHINE.threshold {
        return None;
    }
    let in_use = MACHINE.class(len).in_use;
    (in_use >= MACHINE.first_stream).then(|| MACHINE.methods[in_use])
}

/// # Safety
/// As [`super::super::copy`].
#[cold]
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    let machine = &*MACHINE;
    let apart = to.addr().abs_diff(from.addr()) >= len;
    if len < machine.threshold || !apart {
        // SAFETY: the caller's promise is the one asked for.
        return unsafe { medium::copy(to, from, len) };
    }
    let (turn, in_use) = {
        let mut class = machine.class(len);
        (class.next_turn(), class.in_use)
    };
    let mut done = 0;
    if turn < TRIAL_COPIES {
        let part = (len / TRIAL_SHARE).min(TRIAL_BYTES);
        // SAFETY: the parts lie in the caller's ranges, which are apart, as there are fewer than TRIAL_SHARE.
        let speeds = unsafe { trial(&machine.methods, to, from, part) };
        done = part * speeds.len();
        machine.class(len).note(turn, &speeds);
    }
    let start = Instant::now();
    let method = machine.methods[in_use];
    // SAFETY: what remains of the caller's ranges, which are apart; every listed method works here.
    unsafe { method(to.add(done), from.add(done), len - done) };
    if turn >= TRIAL_COPIES {
        machine
            .class(len)
            .note_whole(in_use, len as f64 / start.elapsed().as_secs_f64());
    }
}

/// Copies one part by each method, in order, and returns their speeds in bytes a second.
///
/// # Safety
/// As [`Method`], for `part` bytes times the number of methods.
unsafe fn trial(methods: &[Method], to: *mut u8, from: *const u8, part: usize) -> Vec<f64> {
    let timed = methods.iter().enumerate().map(|(i, method)| {
        let start = Instant::now();
        // SAFETY: the part is one of those that the caller vouches for.
        unsafe { method(to.add(i * part), from.add(i * part), part) };
        part as f64 / start.elapsed().as_secs_f64()
    });
    timed.collect()
}

/// # Safety
/// As [`Method`].
unsafe fn rep_movs(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller vouches for the ranges, and the C convention leaves the direction flag clear.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") len => _,
            options(nostack, preserves_flags));
    }
}

/// Defines a copy by streaming stores, 256 bytes a turn.
///
/// `$ahead` are instructions that ask for what is read a page ahead, where the hardware's own prefetching does not
/// reach; past the end they do nothing, as a prefetch never faults. The fence puts the streaming stores before every
/// later store, without which a flag could be seen before its data.
macro_rules! stream {
    ($name:ident, [$($ahead:literal)*] $load:literal, $($register:literal $offset:literal),+) => {
        /// # Safety
        /// As [`Method`].
        unsafe fn $name(to: *mut u8, from: *const u8, len: usize) {
            // A streaming store must be aligned, and should fill its line.
            let head = (to.addr().wrapping_neg() % 64).min(len);
            let body = (len - head) / 256 * 256;
            let tail = head + body;
            // SAFETY: `head`, `body` and the rest make up the `len` bytes that the caller vouches for, and the
            // loop touches exactly `body`, starting where `to` is aligned. Clobbering the low part of a vector
            // register declares all of it that a caller may hold.
            unsafe {
                super::memmove(to, from, head);
                asm!(
                    "test {len}, {len}",
                    "jz 3f",
                    "2:",
                    $($ahead,)*
                    $(concat!($load, " ", $register, ", [{from} + ", $offset, "]"),)+
                    $(concat!("vmovntdq [{to} + ", $offset, "], ", $register),)+
                    "add {from}, 256",
                    "add {to}, 256",
                    "sub {len}, 256",
                    "jnz 2b",
                    "vzeroupper",
                    "sfence",
                    "3:",
                    from = inout(reg) from.add(head) => _, to = inout(reg) to.add(head) => _,
                    len = inout(reg) body => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack));
                super::memmove(to.add(tail), from.add(tail), len - tail);
            }
        }
    };
}

/// Defines the copy with what is asked for ahead, and without.
macro_rules! streams {
    ($name:ident, $name_ahead:ident, $load:literal, $($register:literal $offset:literal),+) => {
        stream!($name, [] $load, $($register $offset),+);
        stream!(
            $name_ahead,
            ["prefetcht1 [{from} + 4096]" "prefetcht1 [{from} + 4160]" "prefetcht1 [{from} + 4224]" "prefetcht1 [{from} + 4288]"]
            $load, $($register $offset),+
        );
    };
}

streams!(stream_512, stream_ahead_512, "vmovdqu64", "zmm0" "0", "zmm1" "64", "zmm2" "128", "zmm3" "192");
streams!(
    stream_256, stream_ahead_256, "vmovdqu",
    "ymm0" "0", "ymm1" "32", "ymm2" "64", "ymm3" "96",
    "ymm4" "128", "ymm5" "160", "ymm6" "192", "ymm7" "224"
);

/// Every method that this processor can run, also those never chosen on it.
#[cfg(test)]
pub(in super::super) fn all_methods() -> Vec<(&'static str, Method)> {
    let mut all: Vec<(_, Method)> = vec![("memmove", super::memmove), ("rep movs", rep_movs)];
    if is_x86_feature_detected!("avx") {
        all.extend([
            ("vectors", medium::by_vectors as Method),
            ("stream 256", stream_256),
            ("stream ahead 256", stream_ahead_256),
        ]);
    }
    if is_x86_feature_detected!("avx512f") {
        all.extend([
            ("stream 512", stream_512 as Method),
            ("stream ahead 512", stream_ahead_512),
        ]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(in_use: usize) -> Class {
        Class::new(3, in_use)
    }

    fn after_trial(mut class: Class, speeds: [[f64; 3]; TRIAL_COPIES as usize]) -> usize {
        for (turn, speeds) in (0..).zip(speeds) {
            class.note(turn, &speeds);
        }
        class.in_use
    }

    #[test]
    fn a_clear_winner_replaces_the_method_in_use() {
        assert_eq!(after_trial(class(0), [[50.0, 51.0, 88.0]; 5]), 2);
        assert_eq!(after_trial(class(0), [[50.0, 51.0, 51.5]; 5]), 0);
        assert_eq!(after_trial(class(1), [[50.0, 49.0, 50.0]; 5]), 1);
    }

    #[test]
    fn settling_and_disturbed_copies_do_not_decide() {
        let (settling, settled) = ([10.0, 10.0, 90.0], [30.0, 30.0, 25.0]);
        let disturbed = [3.0, 30.0, 25.0];
        assert_eq!(
            after_trial(
                class(0),
                [settling, settling, disturbed, settled, disturbed]
            ),
            0
        );
        assert_eq!(
            after_trial(
                class(2),
                [settling, settling, disturbed, disturbed, settled]
            ),
            1
        );
    }

    #[test]
    fn an_earlier_trial_is_forgotten() {
        let mut class = class(0);
        class.speeds = vec![99.0, 1.0, 1.0];
        assert_eq!(after_trial(class, [[50.0, 51.0, 88.0]; 5]), 2);
    }

    #[test]
    fn copies_that_disappoint_begin_a_trial_and_once_only() {
        let mut class = class(2);
        let found = [30.0, 31.0, 50.0];
        let copies = |class: &mut Class, speeds: &[f64]| -> Vec<u32> {
            let round_robin = speeds.iter().map(|&speed| {
                let turn = class.next_turn();
                match turn < TRIAL_COPIES {
                    true => class.note(turn, &found),
                    false => class.note_whole(class.in_use, speed),
                }
                turn
            });
            round_robin.collect()
        };
        assert_eq!(copies(&mut class, &[0.0; 5]), [0, 1, 2, 3, 4]);
        let round_robin = copies(&mut class, &[49.0, 20.0, 40.0, 20.0, 21.0, 0.0]);
        assert_eq!(
            round_robin,
            [5, 6, 7, 8, 9, 0],
            "once is no reason, twice is"
        );
        let round_robin = copies(&mut class, &[20.0; 30]);
        assert_eq!(
            round_robin,
            Vec::from_iter(1..=30),
            "no trial made it faster"
        );
        assert_eq!(copies(&mut class, &[9.0; 3]), [31, 32, 0], "slower still");
    }

    #[test]
    fn the_guess_follows_the_third_level() {
        let caches = |l3| Caches { l2: None, l3 };
        let (amd, intel) = (b"AuthenticAMD", b"GenuineIntel");
        assert_eq!(streams_from(amd, caches(Some(32 << 20))), 8 << 20);
        assert_eq!(streams_from(amd, caches(Some(4 << 20))), 1 << 20);
        assert_eq!(streams_from(amd, caches(None)), 0);
        assert_eq!(streams_from(intel, caches(Some(32 << 20))), usize::MAX);
    }
}
