//! The agent: the thread of a process that serves all connections of its peers. It sleeps while none has a request.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::call_bell::CallBell;
use super::lending::Lending;
use super::record::{MAGIC, Record};
use super::socket::{OwnDescriptor, Stream};
use super::stream::{Moved, SILENCE, Side, prepare, receive, send};
use crate::assist::{Assisted, Attached, try_lock};
use crate::proof::{CHALLENGE, Host, HostStep, LONGEST, Refused, Secret};
use crate::signals::without_signals;
use crate::system::random;
use crate::{Error, Result};

/// The most connections that are accepted before others are served.
const ACCEPTED: u32 = 64;
/// A process that connects has to prove within this time that it belongs to the job. At most `MOST_UNPROVEN`
/// connections without a proof are kept, and at most `MOST_OF_ADDRESS` from one address: a further one from there takes
/// the place of the oldest. At the first number, new ones are accepted only after the oldest has had `LEAST_PROOF_TIME`.
const PROOF_TIME: Duration = Duration::from_secs(5);
const MOST_UNPROVEN: usize = 256;
const MOST_OF_ADDRESS: usize = 128;
const LEAST_PROOF_TIME: Duration = Duration::from_secs(1);
/// How long nothing is accepted after accepting has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// What is sent in place of an answer when no descriptor is free for the connection. It proves nothing, and affects only
/// the origin's error.
pub(super) const FULL: [u8; CHALLENGE] = [0xff; CHALLENGE];

/// How long a connection pauses.
const RETRY: Duration = Duration::from_millis(1);

/// The most events that the agent takes at a time.
const EVENTS: usize = 64;

/// The most events that an assisting thread takes at a time, so that it soon checks its own wait again.
const EVENTS_OF_ASSIST: usize = 4;

/// Deferred answers are sent after so many looks that find no request, some tens of microseconds, or after so many looks
/// altogether. If no thread looks, the agent sends them when its timer wakes it.
const EMPTY_LOOKS: u32 = 128;
const LOOKS: u32 = 1024;

const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const WATCHED: u64 = 2;
const SERVED: u64 = 3;
const TIMER: u64 = 4;
const FIRST: u64 = 5;

/// Serves connections whose peers have proven that they belong to the job. One thread at a time calls it: the agent's,
/// or one that assists it.
pub(crate) trait Serve: Send + 'static {
    /// Whether waiting threads of this process serve peers. Then a request need not wake the agent.
    const ASSISTED: bool = false;

    /// The state of a connection.
    type Peer: Send;

    /// Called when a process whose device has instance `origin` has connected.
    fn admit(&mut self, origin: u64) -> Self::Peer;

    /// Does what is possible without waiting. An error ends the connection. `may_defer`: answers that the peer does not
    /// wait for may be left to a later call.
    fn serve(
        &mut self,
        stream: &TcpStream,
        peer: &mut Self::Peer,
        may_defer: bool,
    ) -> io::Result<Next>;

    /// Whether answers are left to a later call.
    fn has_deferred(_peer: &Self::Peer) -> bool {
        false
    }

    /// Prepares the message that this process leaves; the next `serve` sends it.
    fn leave(&mut self, peer: &mut Self::Peer);

    /// Whether everything has been sent.
    fn is_all_sent(peer: &Self::Peer) -> bool;

    /// Called when the connection has ended: by the peer, or by an error.
    fn ended(&mut self, peer: Self::Peer, error: Option<&io::Error>);

    /// Called before all connections that can go on are served, once each.
    fn begin_round(&mut self) {}

    /// Another descriptor for the agent to watch.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called when that descriptor is readable or broken; `Break` ends the watch.
    fn look(&mut self) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

pub(crate) struct ChannelAgent<S: Serve> {
    shared: Arc<Shared<S::Peer>>,
    thread: Option<JoinHandle<()>>,
    _attached: Option<Attached>,
}

struct Shared<P> {
    /// Wakes the agent, so that it reads the orders.
    wake: OwnDescriptor<OwnedFd>,
    orders: Mutex<Orders<P>>,
    has_left: Condvar,
}

struct Orders<P> {
    /// Connections that this process made and that the agent is to serve.
    adopted: Vec<(Stream, P)>,
    /// `leave`: all peers are to be told that this process leaves. `left`: that is done.
    leave: bool,
    left: bool,
    end: bool,
}

impl<P> Shared<P> {
    fn orders(&self) -> MutexGuard<'_, Orders<P>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // The write fails only if the counter is full, which also wakes the agent.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

impl<S: Serve> ChannelAgent<S> {
    /// `own` is the record of this process.
    pub(crate) fn start(
        listener: OwnDescriptor<TcpListener>,
        own: &Record,
        service: S,
    ) -> Result<Self> {
        let failed = |call: &str, error: io::Error| Error::os(call, error);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed("eventfd", error.into()))?;
        listener
            .set_nonblocking(true)
            .map_err(|error| failed("listening", error))?;
        let lending = Arc::new(Lending::new(SERVED, TIMER)?);
        let shared = Arc::new(Shared {
            wake: OwnDescriptor::new(wake),
            orders: Mutex::new(Orders {
                adopted: Vec::new(),
                leave: false,
                left: false,
                end: false,
            }),
            has_left: Condvar::new(),
        });
        let watch = |fd: BorrowedFd<'_>, token| {
            let data = EventData::new_u64(token);
            let added = epoll::add(lending.own(), fd, data, EventFlags::IN);
            added.map_err(|error| failed("epoll_ctl", error.into()))
        };
        watch(listener.as_fd(), LISTENER)?;
        watch(shared.wake.as_fd(), WAKE)?;
        if let Some(fd) = service.watched() {
            watch(fd, WATCHED)?;
        }
        let running = Running {
            shared: shared.clone(),
            listener,
            lending: lending.clone(),
            instance: own.instance,
            key: own.proven(own.secret),
            service,
            connections: HashMap::new(),
            next: FIRST,
            unproven: VecDeque::new(),
            ready: Vec::new(),
            paused: 0,
            deferred: Vec::new(),
            looks: 0,
            empty_looks: 0,
            has_left: false,
            paused_until: None,
            spare: spare(),
        };
        let channel = Arc::new(Channel {
            shared: shared.clone(),
            lending,
            running: Mutex::new(running),
            bell: CallBell::default(),
        });
        let served = channel.clone();
        let thread = without_signals(|| {
            thread::Builder::new()
                .name("transom-agent".into())
                .stack_size(128 << 10)
                .spawn(move || served.run())
        });
        let thread = thread.map_err(|error| failed("starting the agent thread", error))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            _attached: S::ASSISTED.then(|| Attached::new(channel, false)),
        })
    }

    /// Serves a connection that this process has made, once no other thread waits for it.
    #[cfg(feature = "verbs")]
    pub(crate) fn adopt(&self, stream: Stream, peer: S::Peer) {
        self.shared.orders().adopted.push((stream, peer));
        self.shared.wake();
    }

    /// Tells all peers that this process leaves in good order, and waits until they have been told.
    pub(crate) fn leave(&self) {
        let mut orders = self.shared.orders();
        orders.leave = true;
        self.shared.wake();
        let told = (self.shared.has_left)
            .wait_timeout_while(orders, SILENCE, |orders| !orders.left)
            .unwrap_or_else(PoisonError::into_inner);
        if told.1.timed_out() {
            tracing::warn!("not all peers could be told that this process leaves");
        }
    }
}

impl<S: Serve> Drop for ChannelAgent<S> {
    fn drop(&mut self) {
        self.shared.orders().end = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Connection<P> {
    stream: Stream,
    stage: Stage<P>,
    /// The events that the connection waits for.
    awaited: EventFlags,
}

enum Stage<P> {
    Proving(Host),
    Serving(P),
}

/// The next step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It waits for the socket.
    Waits(EventFlags),
    /// It can go on at once, but others are served first.
    Ready,
    /// It can perhaps go on after [`RETRY`]: it waits for what no event tells.
    Pauses,
    Ends,
}

/// The state that the agent's thread shares with assisting threads.
struct Channel<S: Serve> {
    shared: Arc<Shared<S::Peer>>,
    lending: Arc<Lending>,
    running: Mutex<Running<S>>,
    bell: CallBell,
}

struct Running<S: Serve> {
    shared: Arc<Shared<S::Peer>>,
    listener: OwnDescriptor<TcpListener>,
    lending: Arc<Lending>,
    instance: u64,
    key: Secret,
    service: S,
    connections: HashMap<u64, Connection<S::Peer>>,
    next: u64,
    /// Connections without a proof, oldest first.
    unproven: VecDeque<Unproven>,
    /// Connections that can go on without an event.
    ready: Vec<u64>,
    /// How many of these pause.
    paused: usize,
    /// Connections with deferred answers. While there are some, a timer of [`Lending`] runs, or is about to.
    deferred: Vec<u64>,
    /// The looks of threads since the first of them was added, and those without a request since the last one was.
    looks: u32,
    empty_looks: u32,
    /// Whether peers are being told that this process leaves.
    has_left: bool,
    /// No connection is accepted until then.
    paused_until: Option<Instant>,
    /// Closed for a moment when no other descriptor is free, to refuse a connection.
    spare: Option<OwnDescriptor<OwnedFd>>,
}

/// A connection whose process has not proven yet that it belongs to the job.
struct Unproven {
    token: u64,
    since: Instant,
    from: IpAddr,
}

fn spare() -> Option<OwnDescriptor<OwnedFd>> {
    let made = eventfd(0, EventfdFlags::CLOEXEC);
    made.ok().map(OwnDescriptor::new)
}

impl<S: Serve> Channel<S> {
    fn running(&self) -> MutexGuard<'_, Running<S>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while another thread serves.
    fn try_running(&self) -> Option<MutexGuard<'_, Running<S>>> {
        try_lock(&self.running)
    }

    fn run(&self) {
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        loop {
            let limit = self.running().longest_sleep();
            let events = match wait(self.lending.own(), &mut room, limit) {
                Ok(events) => events,
                Err(error) => {
                    tracing::error!(%error, "the agent cannot wait for its peers, and ends");
                    return;
                }
            };
            match self.running().take(events) {
                Some(0) => {}
                Some(_) => self.bell.ring(),
                None => return,
            }
        }
    }
}

impl<S: Serve> Assisted for Channel<S> {
    fn lend(&self) {
        self.lending.lend();
    }

    fn withdraw(&self) {
        // A thread that is serving now may leave connections to the agent.
        if self.lending.withdraw() && self.try_running().is_none_or(|it| !it.ready.is_empty()) {
            self.shared.wake();
        }
    }

    fn serve(&self) -> usize {
        self.lending.note_look();
        let Some(mut running) = self.try_running() else {
            return 0;
        };
        let served = running.assist(true);
        // The agent may be waiting without knowledge of these connections. If it is asleep, they are left to threads
        // that serve.
        if !running.ready.is_empty() && !self.lending.is_agent_asleep() {
            self.shared.wake();
        }
        served
    }

    fn serve_in_passing(&self, now: Instant) -> usize {
        let Some(is_agent_asleep) = self.lending.pass(now) else {
            return 0;
        };
        let Some(mut running) = self.try_running() else {
            return 0;
        };
        // Only then does a timer wake the agent.
        let served = running.assist(is_agent_asleep);
        // If the agent sleeps, the next look goes on with the rest, or else the timer wakes it.
        if served > 0 && !self.lending.note_found_in_passing(now) {
            // It may have been woken since.
            running.send_deferred();
            if !running.ready.is_empty() {
                self.shared.wake();
            }
        }
        served
    }

    fn sleep(&self, limit: Duration) {
        self.bell.wait(limit);
    }

    fn take_call(&self) -> bool {
        self.bell.take()
    }
}

/// Waits for events, for `limit` at most.
fn wait<'a>(
    epoll: BorrowedFd<'_>,
    room: &'a mut [MaybeUninit<Event>],
    limit: Option<Duration>,
) -> io::Result<&'a [Event]> {
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    match epoll::wait(epoll, room, limit.as_ref()) {
        Ok((events, _)) => Ok(events),
        Err(rustix::io::Errno::INTR) => Ok(&[]),
        Err(error) => Err(error.into()),
    }
}

impl<S: Serve> Running<S> {
    /// How long the agent may wait. While it is to sleep, connections that can go on are left to a thread that serves.
    fn longest_sleep(&self) -> Option<Duration> {
        let goes_on = !self.ready.is_empty() && !self.lending.is_agent_asleep();
        let limit = match (goes_on, self.unproven.is_empty()) {
            (true, _) if self.ready.len() == self.paused => Some(RETRY),
            (true, _) => Some(Duration::ZERO),
            (false, false) => Some(LEAST_PROOF_TIME),
            (false, true) => None,
        };
        let paused = self.paused_until.map(|_| PAUSE);
        limit.into_iter().chain(paused).min()
    }

    /// Handles the events, and returns how many connections that concerned. `None` if the agent is to end.
    fn take(&mut self, events: &[Event]) -> Option<usize> {
        let mut ready = std::mem::take(&mut self.ready);
        self.paused = 0;
        for event in events {
            match { event.data }.u64() {
                LISTENER => self.accept(),
                WAKE if !self.look_at_orders() => return None,
                WAKE => {}
                WATCHED => self.look(),
                SERVED => self.add_requests::<EVENTS>(&mut ready),
                TIMER if self.lending.tick() => self.add_requests::<EVENTS>(&mut ready),
                TIMER => {}
                token if !ready.contains(&token) => ready.push(token),
                _ => {}
            }
        }
        self.service.begin_round();
        let count = ready.len();
        for token in ready {
            self.go_on(token, false);
        }
        self.send_deferred();
        self.drop_unproven();
        self.accept_again();
        self.note_that_all_are_told();
        Some(count)
    }

    /// Adds connections with requests, at most `MOST`.
    fn add_requests<const MOST: usize>(&self, ready: &mut Vec<u64>) {
        let mut room = [const { MaybeUninit::uninit() }; MOST];
        let events = match wait(self.lending.served(), &mut room, Some(Duration::ZERO)) {
            Ok(events) => events,
            Err(error) => {
                static LOGGED: Once = Once::new();
                LOGGED.call_once(|| tracing::error!(%error, "peers cannot be served any more"));
                return;
            }
        };
        for event in events {
            let token = { event.data }.u64();
            if !ready.contains(&token) {
                ready.push(token);
            }
        }
    }

    /// Serves connections with requests, and those that can go on. Everything else is left to the agent.
    fn assist(&mut self, may_defer: bool) -> usize {
        let mut ready = std::mem::take(&mut self.ready);
        self.paused = 0;
        self.add_requests::<EVENTS_OF_ASSIST>(&mut ready);
        if !self.deferred.is_empty() {
            self.looks += 1;
            self.empty_looks += u32::from(ready.is_empty());
            if self.empty_looks >= EMPTY_LOOKS || self.looks >= LOOKS {
                self.send_deferred();
            }
        }
        if ready.is_empty() {
            return self.ready.len();
        }
        self.service.begin_round();
        // Only a few, so that the assisting thread soon checks its own wait again.
        let count = ready.len().min(EVENTS_OF_ASSIST);
        self.ready.extend(ready.split_off(count));
        for token in ready {
            self.go_on(token, may_defer);
        }
        self.note_that_all_are_told();
        count
    }

    fn send_deferred(&mut self) {
        for token in std::mem::take(&mut self.deferred) {
            let connection = self.connections.get(&token);
            if connection.is_some_and(Connection::has_deferred::<S>) {
                self.go_on(token, false);
            }
        }
        self.looks = 0;
        self.note_that_all_are_told();
    }

    /// Carries out the orders. False if the agent is to end.
    fn look_at_orders(&mut self) -> bool {
        let _ = rustix::io::read(&*self.shared.wake, &mut [0; 8]);
        let (adopted, leave, end) = {
            let mut orders = self.shared.orders();
            let adopted = std::mem::take(&mut orders.adopted);
            (adopted, orders.leave && !self.has_left, orders.end)
        };
        for (stream, mut peer) in adopted {
            if self.has_left {
                self.service.leave(&mut peer);
            }
            match self.keep(stream, Stage::Serving(peer)) {
                Ok(token) => self.ready.push(token),
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be watched, and is closed");
                }
            }
        }
        if leave {
            self.has_left = true;
            for connection in self.connections.values_mut() {
                if let Stage::Serving(peer) = &mut connection.stage {
                    self.service.leave(peer);
                }
            }
            let all: Vec<u64> = self.connections.keys().copied().collect();
            for token in all {
                self.go_on(token, false);
            }
        }
        !end
    }

    /// Ends the wait of [`ChannelAgent::leave`] once all peers have been told.
    fn note_that_all_are_told(&self) {
        let is_told = |connection: &Connection<S::Peer>| match &connection.stage {
            Stage::Serving(peer) => S::is_all_sent(peer),
            _ => true,
        };
        if !self.has_left || !self.connections.values().all(is_told) {
            return;
        }
        let mut orders = self.shared.orders();
        if !orders.left {
            orders.left = true;
            self.shared.has_left.notify_all();
        }
    }

    /// Stops accepting connections for a while.
    fn pause_accepting(&mut self) {
        self.paused_until = Some(Instant::now() + PAUSE);
        self.listen_for(EventFlags::empty());
    }

    fn accept_again(&mut self) {
        let is_over = |until: Instant| Instant::now() >= until;
        if self.paused_until.is_some_and(is_over) {
            self.paused_until = None;
            self.listen_for(EventFlags::IN);
        }
    }

    fn listen_for(&self, events: EventFlags) {
        let data = EventData::new_u64(LISTENER);
        if let Err(error) = epoll::modify(self.lending.own(), &*self.listener, data, events) {
            tracing::warn!(%error, "the agent cannot change what it waits for");
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            if self.unproven.len() >= MOST_UNPROVEN && !self.end_oldest() {
                return self.pause_accepting();
            }
            match self.listener.accept() {
                Ok((stream, from)) => {
                    self.make_room_for(from.ip());
                    if let Err(error) = self.admit(OwnDescriptor::new(stream), from.ip()) {
                        tracing::warn!(%error, %from, "a connection cannot be served");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    static WARNED: Once = Once::new();
                    let error = Error::os("accepting a connection of a peer", error);
                    WARNED.call_once(|| tracing::warn!(%error));
                    if !self.end_oldest() && !self.turn_away() {
                        return self.pause_accepting();
                    }
                }
            }
        }
    }

    /// Ends the oldest connection without a proof, if it has had time for one.
    fn end_oldest(&mut self) -> bool {
        let oldest = self.unproven.front();
        let late = oldest.filter(|oldest| oldest.since.elapsed() >= LEAST_PROOF_TIME);
        let Some(token) = late.map(|late| late.token) else {
            return false;
        };
        self.end(token, None);
        true
    }

    /// Ends the oldest connection without a proof of those from this address, if they are too many.
    fn make_room_for(&mut self, from: IpAddr) {
        let of_address = self.unproven.iter().filter(|one| one.from == from);
        let tokens: Vec<u64> = of_address.map(|one| one.token).collect();
        if tokens.len() >= MOST_OF_ADDRESS {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "{} connections from {from} prove nothing; further ones from there replace the oldest",
                    tokens.len()
                );
            });
            self.end(tokens[0], None);
        }
    }

    /// Tells the next peer that connects that no descriptor is free. False if no peer could be told.
    fn turn_away(&mut self) -> bool {
        if self.spare.take().is_none() {
            return false;
        }
        let told = self.listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(true)?;
            // With unread input, closing would send a reset, and the peer could lose the answer.
            let _ = receive(&stream, &mut [0; LONGEST])?;
            send(&stream, &FULL)
        });
        self.spare = spare();
        told.is_ok()
    }

    fn admit(&mut self, stream: Stream, from: IpAddr) -> io::Result<()> {
        prepare(&stream, Side::Target)?;
        let nonce = random().map_err(io::Error::other)?;
        let token = self.keep(stream, Stage::Proving(Host::new(&MAGIC, &nonce)))?;
        self.unproven.push_back(Unproven {
            token,
            since: Instant::now(),
            from,
        });
        Ok(())
    }

    fn keep(&mut self, stream: Stream, stage: Stage<S::Peer>) -> io::Result<u64> {
        let token = self.next;
        self.next += 1;
        let connection = Connection {
            stream,
            stage,
            awaited: EventFlags::IN,
        };
        let data = EventData::new_u64(token);
        epoll::add(
            connection.epoll(&self.lending),
            &*connection.stream,
            data,
            EventFlags::IN,
        )?;
        self.connections.insert(token, connection);
        Ok(token)
    }

    fn look(&mut self) {
        if self.service.look().is_break()
            && let Some(fd) = self.service.watched()
        {
            let _ = epoll::delete(self.lending.own(), fd);
        }
    }

    fn drop_unproven(&mut self) {
        while let Some(&Unproven { token, since, from }) = self.unproven.front()
            && since.elapsed() >= PROOF_TIME
        {
            tracing::debug!(%from, "a connection that proved nothing in {PROOF_TIME:?} was dropped");
            self.end(token, None);
        }
    }

    fn go_on(&mut self, token: u64, may_defer: bool) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let was_proven = connection.is_proven();
        let own = (self.instance, &self.key, self.has_left);
        let next = connection.go_on(own, &mut self.service, may_defer);
        if may_defer && connection.has_deferred::<S>() && !self.deferred.contains(&token) {
            self.deferred.push(token);
            self.empty_looks = 0;
        }
        let data = EventData::new_u64(token);
        if connection.is_proven() && !was_proven {
            self.unproven.retain(|other| other.token != token);
            let (stream, events) = (&*connection.stream, connection.awaited);
            let moved = epoll::delete(self.lending.own(), stream)
                .and_then(|()| epoll::add(self.lending.served(), stream, data, events));
            if let Err(error) = moved {
                return self.end(token, Some(&error.into()));
            }
        }
        let awaited = match next {
            Ok(Next::Waits(events)) => events,
            // What has arrived would end the pause.
            Ok(Next::Pauses) => EventFlags::empty(),
            _ => connection.awaited,
        };
        if awaited != connection.awaited {
            connection.awaited = awaited;
            let epoll = connection.epoll(&self.lending);
            if let Err(error) = epoll::modify(epoll, &*connection.stream, data, awaited) {
                return self.end(token, Some(&error.into()));
            }
        }
        match next {
            Ok(Next::Waits(_)) => {}
            Ok(Next::Ready | Next::Pauses) if self.ready.contains(&token) => {}
            Ok(next @ (Next::Ready | Next::Pauses)) => {
                self.ready.push(token);
                self.paused += usize::from(next == Next::Pauses);
            }
            Ok(Next::Ends) => self.end(token, None),
            Err(error) => self.end(token, Some(&error)),
        }
    }

    fn end(&mut self, token: u64, error: Option<&io::Error>) {
        let Some(connection) = self.connections.remove(&token) else {
            return;
        };
        // A forked child may have a copy of the descriptor, and then closing ours neither ends the connection nor
        // removes it from epoll.
        let _ = epoll::delete(connection.epoll(&self.lending), &*connection.stream);
        match connection.stage {
            Stage::Serving(peer) => self.service.ended(peer, error),
            _ => self.unproven.retain(|other| other.token != token),
        }
        let _ = connection.stream.shutdown(Shutdown::Both);
    }
}

/// Whether a failure to accept concerns only that connection.
fn is_of_connection(error: &io::Error) -> bool {
    let kinds = [ErrorKind::ConnectionAborted, ErrorKind::Interrupted];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::EPROTO)
}

impl<P> Connection<P> {
    fn is_proven(&self) -> bool {
        matches!(self.stage, Stage::Serving(_))
    }

    fn has_deferred<S: Serve<Peer = P>>(&self) -> bool {
        match &self.stage {
            Stage::Serving(peer) => S::has_deferred(peer),
            Stage::Proving(_) => false,
        }
    }

    /// The epoll instance that watches it.
    fn epoll<'a>(&self, lending: &'a Lending) -> BorrowedFd<'a> {
        match self.is_proven() {
            true => lending.served(),
            false => lending.own(),
        }
    }

    /// Does what is possible without waiting. An error concerns this connection.
    fn go_on<S: Serve<Peer = P>>(
        &mut self,
        (instance, key, has_left): (u64, &Secret, bool),
        service: &mut S,
        may_defer: bool,
    ) -> io::Result<Next> {
        loop {
            let next = match &mut self.stage {
                Stage::Proving(host) => {
                    let mut bytes = [0; LONGEST];
                    let step = match receive(&self.stream, &mut bytes[..host.wants()])? {
                        Moved::Bytes(got) => host.receive(key, &bytes[..got]),
                        Moved::Nothing => return Ok(Next::Waits(EventFlags::IN)),
                        Moved::End => return Ok(Next::Ends),
                    };
                    match step {
                        HostStep::Receive => continue,
                        // Nothing is answered to a process that means another one.
                        HostStep::Send(challenge, [meant, _]) => {
                            if meant != instance || !is_sent(&self.stream, &challenge)? {
                                return Ok(Next::Ends);
                            }
                            continue;
                        }
                        HostStep::Admit(answer, [_, origin], _) => {
                            if !is_sent(&self.stream, &answer)? {
                                return Ok(Next::Ends);
                            }
                            let mut peer = service.admit(origin);
                            if has_left {
                                service.leave(&mut peer);
                            }
                            Stage::Serving(peer)
                        }
                        HostStep::Refuse(answer, refused, _) => {
                            if matches!(refused, Refused::Secret) {
                                tracing::warn!("a connection with a wrong key was dropped");
                            }
                            if !answer.is_empty() {
                                is_sent(&self.stream, &answer)?;
                            }
                            return Ok(Next::Ends);
                        }
                    }
                }
                Stage::Serving(peer) => return service.serve(&self.stream, peer, may_defer),
            };
            self.stage = next;
        }
    }
}

/// Sends a short message, for which the socket has room: little was sent before.
fn is_sent(stream: &TcpStream, bytes: &[u8]) -> io::Result<bool> {
    let sent = send(stream, bytes)?;
    Ok(matches!(sent, Moved::Bytes(sent) if sent == bytes.len()))
}
