//! The thread that carries the protocol's messages, and sleeps while there are none.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Queues;
use super::datagram::Datagrams;
use super::protocol::{Protocol, Transmit};
use super::shared::{Order, Shared};
use crate::verbs::events::EventSource;

/// How long a queue pair that failed and could not be started again is left alone.
const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// How often is looked for messages before the clock is looked at.
const LISTEN_ROUNDS: u32 = 32;

pub(super) struct Service<Q> {
    shared: Arc<Shared>,
    protocol: Protocol<Q>,
    datagrams: Datagrams,
    watch: Option<EventSource>,
    /// When a broken queue pair may be started again.
    restart_at: Option<Instant>,
    /// The completion channel cannot report anything any more: the device is gone.
    deaf: bool,
}

impl<Q: Queues> Service<Q> {
    pub(super) fn new(
        shared: Arc<Shared>,
        protocol: Protocol<Q>,
        datagrams: Datagrams,
        watch: Option<EventSource>,
    ) -> Self {
        Self {
            shared,
            protocol,
            datagrams,
            watch,
            restart_at: None,
            deaf: false,
        }
    }

    pub(super) fn run(mut self) {
        let _farewell = Farewell(self.shared.clone());
        while let ControlFlow::Continue(more) = self.obey() {
            // First what has arrived, which may be what would be asked for again.
            let heard = self.listen();
            // One at a time, so that those who come meanwhile are told to wait.
            let worked = self.protocol.work(Instant::now());
            self.protocol.tick(Instant::now());
            self.restart();
            self.transmit();
            self.publish();
            if !more && !heard && !worked && !self.hears_before_sleep() {
                self.sleep();
            }
        }
    }

    /// Does one thing that it was told, which may take long, and says whether there are more;
    /// breaks off when the thread is to end.
    fn obey(&mut self) -> ControlFlow<(), bool> {
        let mut state = self.shared.state();
        if state.stopped {
            return ControlFlow::Break(());
        }
        state.counters = self.protocol.counters();
        let order = state.orders.pop_front();
        let more = !state.orders.is_empty();
        drop(state);
        let now = Instant::now();
        match order {
            Some(Order::Connect(peer)) => self.protocol.connect(now, &peer),
            Some(Order::Abandon(peer)) => self.protocol.abandon(peer),
            Some(Order::Leave(limit)) => self.protocol.leave(now, limit),
            None => {}
        }
        ControlFlow::Continue(more)
    }

    /// Takes what has arrived, if it does not go on for ever, and answers it.
    fn listen(&mut self) -> bool {
        for round in 0..LISTEN_ROUNDS {
            if !self.receive() {
                return round > 0;
            }
            self.transmit();
        }
        true
    }

    /// What arrives from here on makes the descriptor readable; what came before is taken now.
    fn hears_before_sleep(&mut self) -> bool {
        let armed = self.datagrams.arm();
        self.note("arming its completion queue", armed);
        self.receive()
    }

    fn receive(&mut self) -> bool {
        let now = Instant::now();
        let protocol = &mut self.protocol;
        let polled = self
            .datagrams
            .poll(|message| protocol.receive(now, message));
        let found = polled.as_ref().is_ok_and(|&found| found > 0);
        self.note("polling its completion queue", polled.map(|_| ()));
        found
    }

    fn transmit(&mut self) {
        while self.datagrams.is_broken() {
            let Some(lost) = self.protocol.poll_transmit() else {
                return;
            };
            let why = "the queue pair for connection requests has failed";
            self.protocol
                .transmitted(lost.to.instance, Err(why.to_owned()));
        }
        while self.datagrams.can_send() {
            let Some(Transmit { to, bytes }) = self.protocol.poll_transmit() else {
                return;
            };
            let sent = self.datagrams.send(&to, &bytes);
            let sent = sent.map_err(|error| error.to_string());
            if let Err(error) = &sent {
                tracing::debug!(error, peer = ?to.instance, "a message was not sent");
            }
            self.protocol.transmitted(to.instance, sent);
        }
    }

    /// Tells those who wait what has become of their attempts.
    fn publish(&mut self) {
        let mut changed = false;
        while let Some(outcome) = self.protocol.poll_outcome() {
            let mut state = self.shared.state();
            if outcome.result.is_ok() {
                state.connected.insert(outcome.peer);
            }
            if let Some(attempt) = state.attempts.get_mut(&outcome.peer) {
                attempt.outcome = Some(outcome.result);
                changed = true;
            }
        }
        if self.protocol.has_left() {
            let mut state = self.shared.state();
            changed |= !std::mem::replace(&mut state.has_left, true);
        }
        if changed {
            self.shared.wake();
        }
    }

    fn restart(&mut self) {
        if !self.datagrams.is_broken() || self.deaf {
            return;
        }
        let now = Instant::now();
        if self.restart_at.is_some_and(|at| now < at) {
            return;
        }
        let restarted = self.datagrams.restart();
        self.restart_at = Some(now + RESTART_PAUSE);
        self.note("starting it again", restarted);
    }

    fn note(&mut self, what: &str, result: crate::Result<()>) {
        if let Err(error) = result {
            tracing::warn!(%error, "{what}: the queue pair for connection requests failed");
            self.datagrams.give_up();
        }
    }

    /// Until a message arrives, an order is given, something is due, or the watched descriptor has
    /// something to say.
    fn sleep(&mut self) {
        let watched = self.watch.as_ref().map_or(-1, |watch| watch.fd);
        let channel = if self.deaf { -1 } else { self.datagrams.fd() };
        let mut fds = [self.shared.bell.fd(), channel, watched].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let due = self.protocol.next_tick();
        let broken = self.datagrams.is_broken() && !self.deaf;
        let restart = broken.then(|| self.restart_at.unwrap_or_else(Instant::now));
        let timeout = [due, restart].into_iter().flatten().min().map(|at| {
            let rest = at.saturating_duration_since(Instant::now());
            libc::timespec {
                tv_sec: rest.as_secs().min(3600) as libc::time_t,
                tv_nsec: libc::c_long::from(rest.subsec_nanos()),
            }
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), |t| t as *const _);
        // SAFETY: an array of three, a timeout or none, and no signal mask.
        let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), 3, timeout, std::ptr::null()) };
        if ready <= 0 {
            return;
        }
        let [bell, channel, watched] = fds.map(|fd| fd.revents);
        if bell != 0 {
            self.shared.bell.silence();
        }
        if channel != 0 && channel & libc::POLLIN == 0 {
            tracing::error!("the device for connection requests is gone");
            self.deaf = true;
        }
        if watched != 0 {
            let watch = self.watch.as_mut();
            if watch.is_some_and(|watch| (watch.ready)().is_break()) {
                self.watch = None;
            }
        }
    }
}

/// However the thread ends, nobody waits for it afterwards.
struct Farewell(Arc<Shared>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.state().stopped = true;
        self.0.wake();
    }
}
