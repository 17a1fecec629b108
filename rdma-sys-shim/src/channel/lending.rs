//! Whether requests wake the agent. They do not while a waiting thread of the process serves them: the agent would take
//! the processor from that thread, and find nothing to do.
//!
//! One thread at a time serves all connections. When its wait ends or it goes to sleep, and no other thread serves,
//! requests wake the agent again, and those that have arrived by then wake it at once. A thread that serves may be held
//! up: by an operation of its own, by a hook of the program, or by preemption. So a timer wakes the agent while a
//! thread serves; if the thread has not served since the last tick, requests wake the agent again. If a thread is
//! preempted in the middle of a request, others wait for it, as they would for the agent.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::socket::OwnDescriptor;
use crate::{Error, Result};

/// How often the agent checks that a thread which promised to serve still does. The thread may meanwhile wait for
/// something else, compute in a hook of the program, or have lost its processor.
const TICK: Duration = Duration::from_millis(1);

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
                self.tick_every(&mut state, TICK);
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

    pub(super) fn is_agent_asleep(&self) -> bool {
        self.state().is_agent_asleep
    }

    /// Handles a tick of the timer. True if no thread has served since the last tick, though one promised to. Then
    /// requests wake the agent again, until a thread lends anew.
    pub(super) fn tick(&self) -> bool {
        let _ = rustix::io::read(&*self.timer, &mut [0; 8]);
        let mut state = self.state();
        let is_idle = !std::mem::take(&mut state.has_served);
        if state.lenders == 0 {
            self.tick_every(&mut state, Duration::ZERO);
        } else if is_idle && state.is_agent_asleep {
            self.put_to_sleep(&mut state, false);
            return true;
        }
        false
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

    /// Sets the timer's interval; zero stops it.
    fn tick_every(&self, state: &mut State, interval: Duration) {
        let interval = Timespec {
            tv_sec: 0,
            tv_nsec: interval.as_nanos() as i64,
        };
        let time = Itimerspec {
            it_interval: interval,
            it_value: interval,
        };
        match timerfd_settime(&*self.timer, TimerfdTimerFlags::empty(), &time) {
            Ok(_) => state.ticks = interval.tv_nsec != 0,
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
}
