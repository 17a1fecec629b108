//! Waiting for something that another rank will do, without hanging when it never will.
//!
//! A wait spins without pauses, then with pauses, then yields the processor, then sleeps for growing times of up to a
//! millisecond. Oversubscribed ranks hardly spin. Barriers and collectives wait *at leisure*: they sleep up to 10 ms
//! after a long wait, and where ranks do not share processors they are awake for at most 0.2 ms before. A contended
//! lock is free only for moments, so a wait for one tries often between two sleeps (`among_rivals`). A hook
//! (`set_hook`) is called every few microseconds.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdma_sys_shim::{
    Assist, Endpoint, LIVENESS_INTERVAL, Ticket, has_attached, serve_in_passing, stretch,
};

use crate::diagnostics::Waiting;
use crate::error::{Error, Result};

mod assist;
mod hook;
mod long;
mod must_return;
mod pause;
pub(crate) mod unseen;

use assist::AssistEnd;
pub(crate) use hook::set_hook;
use long::Lasting;
pub(crate) use long::{LongWait, at_end, in_words, take_due};

/// Attempts before the processor is yielded, if every rank has a processor of its own.
const SPINS: u32 = 2_000;
/// The first of those: a flag that a neighbour is about to write arrives within some tens of nanoseconds. This many
/// attempts have no pause in between; if pauses are short, fewer attempts with a pause replace them.
const EAGER_SPINS: u32 = 200;
const EAGER_PAUSED: u32 = 40;
/// The number of eager attempts if peers may make requests meanwhile.
const EAGER_BESIDE_OTHERS: u32 = 2;
/// The number of times the processor is yielded before sleeping.
const YIELDS: u32 = 200;
/// At leisure, limits for the time of the attempts before the processor is yielded, and for the time of both before
/// sleeping. On a slow processor, such as an emulated one, so many attempts take milliseconds, and the awaited rank may
/// need the processor.
const LONGEST_SPIN: Duration = Duration::from_micros(50);
const LONGEST_WAKE: Duration = Duration::from_micros(200);
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
/// At leisure, a sleep may take this fraction (1 / `LEISURE`) of the wait so far, up to a limit.
const LEISURE: u32 = 32;
const LONGEST_LEISURE: Duration = Duration::from_millis(10);
/// Attempts each time that this thread has the processor, for events that last only moments.
const SNATCHES: u32 = 200;
/// The number of attempts from one look for requests by TCP to the next. They take less time than a look.
const SPINS_PER_LOOK: u32 = 8;
/// For waits with a hook: the number of attempts from one call of the hook to the next, some microseconds, and the
/// longest sleep between two calls.
const SPINS_PER_CALL: u32 = 64;
const LONGEST_NAP: Duration = Duration::from_micros(100);

/// The reason why a wait seems endless. The awaited event may have happened just before the awaited rank went. So only
/// this module turns it into an error, after the wait has tested again, and only then are other ranks told.
pub(crate) struct Doubt<'a> {
    error: Error,
    /// The receiver of the error once it is certain.
    witness: Option<&'a dyn Witness>,
}

/// The result of a check in a long wait. A check may tell other ranks where this rank waits; it never tells them that a
/// rank is missing.
pub(crate) type Verdict<'a> = std::result::Result<(), Doubt<'a>>;

/// Is told of waits that cannot end.
pub(crate) trait Witness {
    /// Tells the ranks concerned; returns the error to report.
    fn confirm(&self, error: Error) -> Error;
}

impl<'a> Doubt<'a> {
    pub(crate) fn new(error: Error, witness: &'a dyn Witness) -> Self {
        Self {
            error,
            witness: Some(witness),
        }
    }

    fn confirm(self) -> Error {
        match self.witness {
            Some(witness) => witness.confirm(self.error),
            None => self.error,
        }
    }
}

/// For errors that concern this rank alone.
impl From<Error> for Doubt<'_> {
    fn from(error: Error) -> Self {
        Self {
            error,
            witness: None,
        }
    }
}

/// Tests again after the check whether the awaited event has happened.
pub(crate) fn test_again(
    verdict: Verdict<'_>,
    done: &mut dyn FnMut() -> Result<bool>,
) -> Result<bool> {
    match done()? {
        true => Ok(true),
        false => verdict.map(|()| false).map_err(Doubt::confirm),
    }
}

/// The result of a check in a call that does not wait.
pub(crate) fn unawaited(verdict: Verdict<'_>) -> Result<()> {
    verdict.map_err(Doubt::confirm)
}

/// How a thread waits; if ranks are oversubscribed, it hardly spins. If many ranks share a processor, its sleeps and the
/// interval of its checks [`stretch`], and it yields less often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    ranks_per_processor: u32,
    at_leisure: bool,
    snatches: u32,
    check_every: Duration,
    /// Pauses before each check; meanwhile the awaited rank may do its part and leave.
    #[cfg(test)]
    hesitates: bool,
}

impl Patience {
    /// `ranks_per_processor`: of this machine; more than 1 if they are oversubscribed.
    pub(crate) fn new(ranks_per_processor: u32) -> Self {
        Self {
            ranks_per_processor,
            at_leisure: false,
            snatches: 1,
            check_every: LIVENESS_INTERVAL * stretch(ranks_per_processor),
            #[cfg(test)]
            hesitates: false,
        }
    }

    /// The time between two checks of a wait.
    pub(crate) fn check_interval(self) -> Duration {
        self.check_every
    }

    /// Whether ranks of this host are oversubscribed.
    pub(crate) fn is_oversubscribed(self) -> bool {
        self.ranks_per_processor > 1
    }

    /// Attempts before the processor is yielded.
    #[inline]
    fn spins(self) -> u32 {
        if self.is_oversubscribed() { 50 } else { SPINS }
    }

    /// For calls that all ranks make: a rank that has waited long wakes every 10 ms or less often, and leaves the processors
    /// to ranks that work. Not for waits that depend on one another in a chain, since each would add its delay.
    pub(crate) fn at_leisure(self) -> Self {
        Self {
            at_leisure: true,
            ..self
        }
    }

    /// For locks that are free only for moments: single attempts after sleeps may miss them for a long time. Not for
    /// attempts that each cost a device operation.
    pub(crate) fn among_rivals(self) -> Self {
        Self {
            snatches: SNATCHES,
            ..self
        }
    }

    /// The longest sleep after a wait of this duration.
    fn longest_sleep(self, waited: Duration) -> Duration {
        let stretch = stretch(self.ranks_per_processor);
        match self.at_leisure {
            true => (waited / LEISURE).clamp(LONGEST_SLEEP * stretch, LONGEST_LEISURE * stretch),
            false => LONGEST_SLEEP * stretch,
        }
    }

    /// Tries until `done` returns true or fails: spins, then yields, then sleeps in growing steps. `check` says now and
    /// then whether the wait can still end.
    #[inline]
    pub(crate) fn wait<'a>(
        self,
        mut done: impl FnMut() -> Result<bool>,
        check: impl FnMut() -> Verdict<'a>,
    ) -> Result<()> {
        // If ranks are oversubscribed, the other rank may not have a processor yet.
        let pauses = !self.is_oversubscribed() && pause::is_short();
        let attempts = match pauses {
            _ if !self.is_oversubscribed() && has_attached() => EAGER_BESIDE_OTHERS,
            true => EAGER_PAUSED,
            false => EAGER_SPINS,
        };
        for _ in 0..attempts.min(self.spins()) {
            if done()? {
                return Ok(());
            }
            if pauses {
                std::hint::spin_loop();
            }
        }
        self.wait_long(&mut done, check)
    }

    #[cold]
    fn wait_long<'a>(
        self,
        done: &mut dyn FnMut() -> Result<bool>,
        mut check: impl FnMut() -> Verdict<'a>,
    ) -> Result<()> {
        let stretch = stretch(self.ranks_per_processor);
        // An oversubscribed rank has no processor during most of its wait.
        let mut assist = match self.is_oversubscribed() {
            true => None,
            false => Assist::of_process(),
        };
        let mut waiting = Waiting::begin();
        let begun = Instant::now();
        // Waiting peers find a thread that assists from the beginning; others are served by an agent meanwhile.
        if !(assist.is_some() && has_attached()) && self.spin(done, begun)? {
            return Ok(());
        }
        let lent = match &mut assist {
            Some(assist) => assist::lend(assist, false, done)?,
            None => AssistEnd::Idle,
        };
        let (mut was_asked, yields) = match lent {
            AssistEnd::Over => return Ok(()),
            AssistEnd::Asked => (true, 0),
            AssistEnd::Idle => (false, YIELDS / stretch),
        };
        for _ in 0..yields {
            if self.snatch(done)? {
                return Ok(());
            }
            match self.serve_peers(&mut assist, false, done)? {
                Some(AssistEnd::Over) => return Ok(()),
                // That took long, so it is time to check.
                Some(lent) => {
                    was_asked = lent == AssistEnd::Asked;
                    break;
                }
                None => {}
            }
            let has_hook = hook::call();
            std::thread::yield_now();
            if !has_hook && self.was_awake_for(begun, LONGEST_WAKE) {
                break;
            }
        }
        waiting.is_long();
        let mut lasting = Lasting::new(begun);
        let mut sleep = FIRST_SLEEP * stretch;
        let mut checked = Instant::now();
        loop {
            if self.snatch(done)? {
                return Ok(());
            }
            let now = Instant::now();
            if now - checked >= self.check_every {
                #[cfg(test)]
                if self.hesitates {
                    std::thread::sleep(LONGEST_SLEEP);
                }
                if test_again(lasting.check(now, &mut check), done)? {
                    return Ok(());
                }
                checked = Instant::now();
            }
            let lent = self.serve_peers(&mut assist, was_asked, done)?;
            was_asked = lent == Some(AssistEnd::Asked);
            match lent {
                Some(AssistEnd::Over) => return Ok(()),
                Some(AssistEnd::Asked) => {
                    // Only the agent admits new peers, and it may share this processor.
                    std::thread::yield_now();
                    continue;
                }
                Some(AssistEnd::Idle) | None => {}
            }
            let longest = match hook::call() {
                true => LONGEST_NAP * stretch,
                false => self.longest_sleep(now - begun),
            };
            match &assist {
                Some(assist) => assist.sleep(sleep.min(longest)),
                None => std::thread::sleep(sleep.min(longest)),
            }
            sleep = (sleep * 2).min(longest);
        }
    }

    /// Serves peers if they have made requests, or have called since the last time; returns how that ended, if it did.
    fn serve_peers(
        self,
        assist: &mut Option<Assist>,
        was_asked: bool,
        done: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<AssistEnd>> {
        if assist.is_none() && !self.is_oversubscribed() {
            // Another thread may have exposed memory meanwhile.
            *assist = Assist::of_process();
        }
        let Some(assist) = assist else {
            return Ok(None);
        };
        if !was_asked && !assist.take_call() {
            return Ok(None);
        }
        assist::lend(assist, true, done).map(Some)
    }

    /// Tries while it spins; returns whether `done` returned true.
    fn spin(self, done: &mut dyn FnMut() -> Result<bool>, begun: Instant) -> Result<bool> {
        for spin in EAGER_SPINS..self.spins() {
            if done()? {
                return Ok(true);
            }
            if spin % SPINS_PER_LOOK == 0 {
                serve_in_passing();
            }
            if spin % SPINS_PER_CALL == 0
                && !hook::call()
                && self.was_awake_for(begun, LONGEST_SPIN)
            {
                break;
            }
            std::hint::spin_loop();
        }
        Ok(false)
    }

    /// Whether it has been awake for the longest allowed time. An oversubscribed rank has no processor while others
    /// have it.
    fn was_awake_for(self, begun: Instant, longest: Duration) -> bool {
        self.at_leisure && !self.is_oversubscribed() && begun.elapsed() >= longest
    }

    /// Tries while this thread has the processor.
    fn snatch(self, done: &mut dyn FnMut() -> Result<bool>) -> Result<bool> {
        for _ in 1..self.snatches {
            if done()? {
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        done()
    }

    /// Waits until the buffer of an endpoint's operation may be used again.
    pub(crate) fn release(self, endpoint: &dyn Endpoint, ticket: Ticket) -> Result<()> {
        if ticket == Ticket::DONE {
            return Ok(());
        }
        self.wait_for_device(endpoint, || Ok(endpoint.released(ticket)?))
    }

    /// Waits for an operation of an endpoint. The device reports a peer that died.
    pub(crate) fn complete(self, endpoint: &dyn Endpoint, ticket: Ticket) -> Result<()> {
        if ticket == Ticket::DONE {
            return Ok(());
        }
        self.wait_for_device(endpoint, || Ok(endpoint.completed(ticket)?))
    }

    /// Polls without pauses while it spins: an answer takes microseconds, and each poll reads a queue, which is pause
    /// enough.
    fn wait_for_device(
        self,
        endpoint: &dyn Endpoint,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        if done()? {
            return Ok(());
        }
        let _waiting = Waiting::begin();
        for _ in EAGER_SPINS.min(self.spins()) + 1..self.spins() {
            if done()? {
                return Ok(());
            }
            // The agent may have no processor until this thread gives its own away.
            serve_in_passing();
        }
        self.wait(done, || Ok(endpoint.intact().map_err(Error::from)?))
    }
}

/// Locks it, even if another thread has panicked with the lock held: the protected data is consistent at any time.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rdma_sys_shim::{Fetch, Width};

    use super::*;
    use crate::error::Misuse;

    impl Patience {
        /// Checks before every sleep, with what it saw a while ago.
        pub(crate) fn suspicious() -> Self {
            Self {
                check_every: Duration::ZERO,
                hesitates: true,
                ..Self::new(2)
            }
        }
    }

    /// Counts what it is told.
    #[derive(Default)]
    pub(crate) struct Told(pub(crate) Cell<u32>);

    impl Witness for Told {
        fn confirm(&self, error: Error) -> Error {
            self.0.set(self.0.get() + 1);
            error
        }
    }

    pub(crate) fn doubt(told: &Told) -> Doubt<'_> {
        Doubt::new(Error::new("test", Misuse::Poisoned), told)
    }

    #[test]
    fn a_wait_ends_when_the_check_fails() {
        let told = Told::default();
        let patience = Patience::new(2);
        let error = patience
            .wait(|| Ok(false), || Err(doubt(&told)))
            .unwrap_err();
        assert_eq!(error.operation(), "test");
        assert_eq!(told.0.get(), 1);
    }

    #[test]
    fn what_happened_before_the_check_failed_counts() {
        let (told, failed) = (Told::default(), Cell::new(false));
        let check = || {
            failed.set(true);
            Err(doubt(&told))
        };
        let waited = Patience::new(1).wait(|| Ok(failed.get()), check);
        waited.unwrap();
        assert_eq!(told.0.get(), 0, "and nobody hears of the doubt");
    }

    #[test]
    fn one_among_rivals_tries_often_between_sleeps() {
        let told = Told::default();
        // The most tries between two of which no sleep fits.
        let longest_burst = |patience: Patience| {
            let (checks, burst, longest) = (Cell::new(0), Cell::new(0), Cell::new(0));
            let last = Cell::new(Instant::now());
            // By the first check it sleeps each time.
            let check = || match checks.replace(checks.get() + 1) {
                0 => {
                    longest.set(0);
                    Ok(())
                }
                _ => Err(doubt(&told)),
            };
            let done = || {
                let slept = last.replace(Instant::now()).elapsed() >= LONGEST_SLEEP / 2;
                burst.set(if slept { 1 } else { burst.get() + 1 });
                longest.set(longest.get().max(burst.get()));
                Ok(false)
            };
            patience.wait(done, check).unwrap_err();
            longest.get()
        };
        let hurried = Patience::new(2);
        assert!(longest_burst(hurried) < 5);
        assert!(longest_burst(hurried.among_rivals()) > SNATCHES / 2);
    }

    #[test]
    fn only_long_waits_at_leisure_sleep_long() {
        let hurried = Patience::new(1);
        let longest = |millis| {
            let waited = Duration::from_millis(millis);
            let leisurely = hurried.at_leisure().longest_sleep(waited);
            [hurried.longest_sleep(waited), leisurely].map(|sleep| sleep.as_micros())
        };
        assert_eq!(longest(0), [1000, 1000]);
        assert_eq!(longest(64), [1000, 2000]);
        assert_eq!(longest(3_600_000), [1000, 10_000]);
    }

    #[test]
    fn all_ranks_of_a_processor_wake_and_check_no_more_often_than_few_do() {
        let hour = Duration::from_secs(3600);
        let of_all = |ranks: u32| {
            let patience = Patience::new(ranks);
            [
                patience.longest_sleep(hour),
                patience.at_leisure().longest_sleep(hour),
                patience.check_every,
            ]
            .map(|every| f64::from(ranks) / every.as_secs_f64())
        };
        let few = of_all(32);
        assert_eq!(Patience::new(32).check_every, LIVENESS_INTERVAL);
        for ranks in [1, 2, 31, 33, 500, 1000, 2000, 65_536] {
            let many = of_all(ranks);
            assert!(
                many.iter().zip(&few).all(|(many, few)| many <= few),
                "{ranks}: {many:?}"
            );
        }
    }

    #[test]
    fn a_wait_among_many_ranks_tries_seldom() {
        let tries = |ranks: u32| {
            let (begun, tries) = (Instant::now(), Cell::new(0_u32));
            let done = || {
                tries.set(tries.get() + 1);
                Ok(begun.elapsed() >= Duration::from_millis(100))
            };
            Patience::new(ranks)
                .at_leisure()
                .wait(done, || Ok(()))
                .unwrap();
            tries.get()
        };
        // 50 of them before it yields.
        assert!(tries(2000) < 80);
    }

    #[test]
    fn who_waits_for_a_device_serves_peers_meanwhile() {
        let [target, origin] = ["tcp"; 2].map(crate::devices::open);
        let region = target.allocate(8, 8).unwrap();
        let endpoint = origin.connect(&target.address()).unwrap();
        let begun = Instant::now();
        let (mut polls, mut served) = (u32::MAX, 0);
        // The agent may have been faster, or this thread without a processor for a while.
        while polls >= SPINS / 2 || served == Assist::served_by_process() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            (polls, served) = (0, Assist::served_by_process());
            let (at, mut old) = (region.remote().at(0), 0);
            // SAFETY: the variable is there until the operation is complete.
            let ticket = unsafe { endpoint.fetch(at, Width::W8, Fetch::Add(1), &raw mut old) };
            let ticket = ticket.unwrap();
            let done = || {
                polls += 1;
                Ok(endpoint.completed(ticket)?)
            };
            Patience::new(1).wait_for_device(&*endpoint, done).unwrap();
        }
    }

    #[test]
    fn long_waits_call_the_hook_but_not_those_inside_it() {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        static NESTED: AtomicU32 = AtomicU32::new(0);
        thread_local! {
            static INSIDE: Cell<bool> = const { Cell::new(false) };
        }
        set_hook(Some(std::sync::Arc::new(|| {
            NESTED.fetch_add(INSIDE.replace(true).into(), Ordering::Relaxed);
            let mut polls = 0;
            let long = || {
                polls += 1;
                Ok(polls > 300)
            };
            Patience::new(2).wait(long, || Ok(())).unwrap();
            INSIDE.set(false);
            CALLS.fetch_add(1, Ordering::Relaxed);
        })));
        let begun = Instant::now();
        let check = || match begun.elapsed() < Duration::from_secs(60) {
            true => Ok(()),
            false => Err(Error::new("test", Misuse::Poisoned).into()),
        };
        let waited = Patience::new(1).wait(|| Ok(CALLS.load(Ordering::Relaxed) >= 500), check);
        set_hook(None);
        waited.unwrap();
        assert_eq!(NESTED.load(Ordering::Relaxed), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_model;
