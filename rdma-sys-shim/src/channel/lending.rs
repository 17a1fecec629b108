//! Whether requests wake the agent. They do not while a waiting thread of the process serves them: the agent would take
//! the processor from that thread, and find nothing to do.
//!
//! One thread at a time serves all connections. When its wait ends or it goes to sleep, and no other thread serves,
//! requests wake the agent again, and those that have arrived by then wake it at once. A thread that serves may be held
//! up: by an operation of its own, by a hook of the program, or by preemption. So a timer wakes the agent while a
//! thread serves; if the thread has not served since the last tick, requests wake the agent again. The agent then also
//! sends the answers that threads have deferred. If a thread is preempted in the middle of a request, others wait for it,
//! as they would for the agent.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::socket::OwnDescriptor;
use crate::assist::try_lock;
use crate::{Error, Result};

/// How often the agent checks that a thread which promised to serve still does. The thread may meanwhile wait for
/// something else, compute in a hook of the program, or have lost its processor.
const TICK: Duration = Duration::from_millis(1);

/// Threads that pass by have not promised to serve. Their looks are at least `BETWEEN` apart, since each is a system
/// call. If they come at most `FREQUENT` apart and find requests, these do not wake the agent until none was found for a
/// time of between half of `ABSENCE` and all of it.
const BETWEEN: Duration = Duration::from_nanos(500);
const FREQUENT: Duration = Duration::from_micros(20);
const ABSENCE: Duration = Duration::from_micros(200);

/// Divides events between the agent and threads that serve in its place.
pub(super) struct Lending {
    /// The agent's epoll instance: the listener, connections without a proof, orders, the timer, and `served` unless a
    /// thread serves.
    own: OwnDescriptor<OwnedFd>,
    /// Connections with a proof.
    served: OwnDescriptor<OwnedFd>,
    timer: OwnDescriptor<OwnedFd>,
    /// The token of `served` in `own`.
    token: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of threads that have promised to serve.
    lenders: usize,
    /// Whether requests do not wake the agent.
    is_agent_asleep: bool,
    /// Whether the timer runs. It may outlast the threads, so that threads that soon serve again need not start it.
    ticks: bool,
    /// Whether a thread has served since the last tick.
    has_served: bool,
    /// The last look of a thread that passes by, and whether it came soon after the one before.
    looked: Option<Instant>,
    is_frequent: bool,
    /// When such a thread last set the timer.
    put_off: Option<Instant>,
}

impl Lending {
    /// The tokens of requests and of the timer in [`own`](Self::own).
    pub(super) fn new(token: u64, timer_token: u64) -> Result<Self> {
        let failed =
            |call: &'static str| move |errno: rustix::io::Errno| Error::os(call, errno.into());
        let create = || epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll_create"));
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags);
        let this = Self {
            own: OwnDescriptor::new(create()?),
            served: OwnDescriptor::new(create()?),
            timer: OwnDescriptor::new(timer.map_err(failed("timerfd_create"))?),
            token,
            state: Mutex::default(),
        };
        for (fd, token) in [
            (this.served.as_fd(), token),
            (this.timer.as_fd(), timer_token),
        ] {
            let added = epoll::add(&*this.own, fd, EventData::new_u64(token), EventFlags::IN);
            added.map_err(failed("epoll_ctl"))?;
        }
        Ok(this)
    }

    pub(super) fn own(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    pub(super) fn served(&self) -> BorrowedFd<'_> {
        self.served.as_fd()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread is about to serve repeatedly.
    pub(super) fn lend(&self) {
        let mut state = self.state();
        state.lenders += 1;
        if state.lenders == 1 {
            self.put_to_sleep(&mut state, true);
            if !state.ticks {
                self.set_timer(&mut state, TICK, true);
            }
        }
    }

    /// The calling thread stops serving for a while. True if no other thread serves; then requests wake the agent,
    /// including those that have arrived.
    pub(super) fn withdraw(&self) -> bool {
        let mut state = self.state();
        state.lenders -= 1;
        if state.lenders == 0 {
            self.put_to_sleep(&mut state, false);
        }
        state.lenders == 0
    }

    /// Notes that a thread serves.
    pub(super) fn note_look(&self) {
        self.state().has_served = true;
    }

    /// `None` if a thread that passes by should not look for requests now; otherwise whether the agent sleeps.
    pub(super) fn pass(&self, now: Instant) -> Option<bool> {
        let mut state = self.try_state()?;
        let since = state.looked.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < BETWEEN) {
            return None;
        }
        state.looked = Some(now);
        state.is_frequent = since.is_some_and(|since| since <= FREQUENT);
        state.has_served = true;
        Some(state.is_agent_asleep)
    }

    /// Notes that this look has found requests. Returns whether the agent sleeps.
    pub(super) fn note_found_in_passing(&self, now: Instant) -> bool {
        let Some(mut state) = self.try_state() else {
            return false;
        };
        if state.lenders > 0 {
            return state.is_agent_asleep;
        }
        let is_due = match state.is_agent_asleep {
            true => (state.put_off)
                .is_none_or(|since| now.saturating_duration_since(since) >= ABSENCE / 2),
            false => state.is_frequent,
        };
        if is_due {
            if !state.is_agent_asleep {
                self.put_to_sleep(&mut state, true);
            }
            state.put_off = Some(now);
            self.set_timer(&mut state, ABSENCE, false);
        }
        state.is_agent_asleep
    }

    /// `None` while another thread has it.
    fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        try_lock(&self.state)
    }

    pub(super) fn is_agent_asleep(&self) -> bool {
        self.state().is_agent_asleep
    }

    /// Handles a tick of the timer. True if no thread has served since the last tick, though one promised to, or none
    /// passes by any more. Then requests wake the agent again, until a thread lends anew or finds some.
    pub(super) fn tick(&self) -> bool {
        let _ = rustix::io::read(&*self.timer, &mut [0; 8]);
        let mut state = self.state();
        let is_idle = !std::mem::take(&mut state.has_served);
        if state.lenders == 0 && state.ticks {
            self.set_timer(&mut state, Duration::ZERO, false);
        }
        // Without a thread that has promised to serve, the timer says that none has found requests in passing.
        let wakes = state.is_agent_asleep && (is_idle || state.lenders == 0);
        if wakes {
            self.put_to_sleep(&mut state, false);
        }
        wakes
    }

    fn put_to_sleep(&self, state: &mut State, is_asleep: bool) {
        let events = match is_asleep {
            true => EventFlags::empty(),
            false => EventFlags::IN,
        };
        let data = EventData::new_u64(self.token);
        match epoll::modify(&*self.own, &*self.served, data, events) {
            Ok(()) => state.is_agent_asleep = is_asleep,
            Err(error) => tracing::error!(%error, "the agent cannot change what it waits for"),
        }
    }

    /// Sets the timer to a time from now; zero stops it. `ticks`: it goes on at this interval.
    fn set_timer(&self, state: &mut State, time: Duration, ticks: bool) {
        let spec = |time: Duration| Timespec {
            tv_sec: 0,
            tv_nsec: time.as_nanos() as i64,
        };
        let time = Itimerspec {
            it_interval: spec(if ticks { time } else { Duration::ZERO }),
            it_value: spec(time),
        };
        match timerfd_settime(&*self.timer, TimerfdTimerFlags::empty(), &time) {
            Ok(_) => state.ticks = ticks,
            Err(error) => tracing::error!(%error, "the agent cannot set its timer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use rustix::event::epoll::Event;
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    const REQUESTS: u64 = 1;
    const TIMER: u64 = 2;

    /// What wakes the agent within `ticks`.
    fn woken(lending: &Lending, ticks: u32) -> Vec<u64> {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; 4];
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(ticks) * TICK.as_nanos() as i64,
        };
        let (events, _) = epoll::wait(lending.own(), &mut room, Some(&limit)).unwrap();
        events.iter().map(|event| { event.data }.u64()).collect()
    }

    #[test]
    fn requests_wake_the_agent_unless_a_thread_serves() {
        let lending = Lending::new(REQUESTS, TIMER).unwrap();
        let request = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let data = EventData::new_u64(7);
        epoll::add(lending.served(), &request, data, EventFlags::IN).unwrap();
        assert!(woken(&lending, 0).contains(&REQUESTS));

        lending.lend();
        lending.lend();
        lending.note_look();
        assert_eq!(woken(&lending, 1000), [TIMER]);
        assert!(!lending.tick(), "a thread has served");
        assert!(!lending.withdraw());
        assert!(lending.is_agent_asleep());
        assert!(lending.withdraw());
        assert!(woken(&lending, 0).contains(&REQUESTS));

        // It serves nobody.
        lending.lend();
        assert!(lending.is_agent_asleep());
        assert!(lending.tick());
        assert!(!lending.is_agent_asleep());
        assert!(!lending.tick(), "once");
        assert!(woken(&lending, 0).contains(&REQUESTS));
        assert!(lending.withdraw());

        // The timer ends where nobody serves any more.
        assert!(!lending.tick());
        epoll::delete(lending.served(), &request).unwrap();
        assert!(woken(&lending, 20).is_empty());
    }

    #[test]
    fn threads_that_find_requests_in_passing_put_the_agent_to_sleep_for_a_moment() {
        let lending = Lending::new(REQUESTS, TIMER).unwrap();
        let request = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let data = EventData::new_u64(7);
        epoll::add(lending.served(), &request, data, EventFlags::IN).unwrap();
        let mut now = Instant::now();
        let mut passes = |after: Duration| {
            now += after;
            lending
                .pass(now)
                .map(|was_asleep| (was_asleep, lending.note_found_in_passing(now)))
        };
        assert_eq!(passes(FREQUENT), Some((false, false)), "the first");
        assert_eq!(passes(BETWEEN / 2), None, "soon");
        assert_eq!(passes(FREQUENT * 2), Some((false, false)), "seldom");
        assert!(woken(&lending, 0).contains(&REQUESTS));

        assert_eq!(passes(FREQUENT), Some((false, true)));
        assert_eq!(woken(&lending, 1000), [TIMER], "after that time alone");
        assert!(lending.tick());
        assert!(woken(&lending, 0).contains(&REQUESTS));
        assert!(!lending.tick(), "once");

        // Beside a thread that has promised to serve.
        assert_eq!(passes(FREQUENT), Some((false, true)));
        lending.lend();
        assert_eq!(passes(FREQUENT), Some((true, true)));
        assert!(!lending.tick(), "it has looked");
        assert!(lending.withdraw());
        assert_eq!(passes(FREQUENT), Some((false, true)));
        assert_eq!(woken(&lending, 1000), [TIMER]);
        assert!(lending.tick());
        epoll::delete(lending.served(), &request).unwrap();
        assert!(woken(&lending, 20).is_empty(), "the timer has ended");
    }
}
