//! Who says what when: a state machine without clock, socket or thread.
//!
//! Each side has one queue pair per peer. A queue pair *listens* once it was told the peer's
//! numbers (state RTS); it may *send* once the peer's is known to listen to it. A request carries
//! the sender's numbers, and whoever receives it listens from then on and says so in a reply,
//! which carries the receiver's numbers. So a reply, or a request that says "mine listens to
//! yours", lets its receiver send. Everything may be lost, repeated or overtaken: the numbers
//! never change, so that saying them again does no harm, and requests that cross meet in the same
//! state as one that was answered.
//!
//! Making a queue pair takes a while, and many may ask at once: they are served in the order in which
//! they came, one with each [`Protocol::work`], and those who have to wait for others are told that they
//! were heard. To such, silence is counted from that word on.
//!
//! A goodbye is repeated until a farewell answers it, or the peer says goodbye itself. Who has said
//! it accepts no new connections.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::{Address, PeerId};
use super::failure::ConnectFailure;
use super::message::{Body, Message, Numbers};
use super::peer::PeerState;
use super::retry::{Due, Jitter, Retry};
use super::{Queues, Timing};

/// A datagram to be sent to the queue pair that `to` names.
pub(crate) struct Transmit {
    pub(crate) to: Arc<Address>,
    pub(crate) bytes: Vec<u8>,
}

/// How an attempt to connect ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) peer: PeerId,
    pub(crate) result: Result<(), ConnectFailure>,
}

/// What has passed, for those who look for the reason of trouble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) sent: u64,
    /// Of those sent, how many repeated an earlier one.
    pub(crate) repeated: u64,
    pub(crate) received: u64,
    /// Of those received, how many were no messages.
    pub(crate) malformed: u64,
    /// Of those received, how many did not know this process's instance and secret.
    pub(crate) strangers: u64,
    pub(crate) refused: u64,
    /// How often somebody was told to wait.
    pub(crate) put_off: u64,
}

pub(crate) struct Protocol<Q> {
    own: Arc<Address>,
    timing: Timing,
    queues: Q,
    peers: HashMap<PeerId, PeerState>,
    /// When to look at a peer; entries whose time was moved do no harm.
    timers: BTreeSet<(Instant, PeerId)>,
    /// Those who have asked and wait for their turn.
    backlog: VecDeque<PeerId>,
    jitter: Jitter,
    transmits: VecDeque<Transmit>,
    outcomes: VecDeque<Outcome>,
    /// How long goodbyes are repeated, once they are said.
    leaving: Option<Duration>,
    counters: Counters,
}

impl<Q: Queues> Protocol<Q> {
    pub(crate) fn new(own: Arc<Address>, timing: Timing, queues: Q) -> Self {
        Self {
            jitter: Jitter::new(own.instance.0),
            own,
            timing,
            queues,
            peers: HashMap::new(),
            timers: BTreeSet::new(),
            backlog: VecDeque::new(),
            transmits: VecDeque::new(),
            outcomes: VecDeque::new(),
            leaving: None,
            counters: Counters::default(),
        }
    }

    /// Begins to connect, unless that is under way; the outcome follows.
    pub(crate) fn connect(&mut self, now: Instant, address: &Arc<Address>) {
        let id = address.instance;
        if let Some(obstacle) = self.own.obstacle_to(address) {
            return self.end(id, Err(ConnectFailure::Obstacle(obstacle)));
        }
        let peer = PeerState::of(&mut self.peers, address);
        if let Some(failure) = &peer.broken {
            let failure = failure.clone();
            return self.end(id, Err(failure));
        }
        if peer.heard {
            return self.end(id, Ok(()));
        }
        if peer.left {
            return self.end(id, Err(ConnectFailure::Left));
        }
        if peer.request.is_some() {
            return;
        }
        let numbers = match peer.numbers(&mut self.queues) {
            Ok(numbers) => numbers,
            Err(failure) => return self.end(id, Err(failure)),
        };
        if id == self.own.instance {
            let result = peer.listen(&mut self.queues, &numbers);
            peer.heard = result.is_ok();
            return self.end(id, result.map(|_| ()));
        }
        let retry = Retry::start(now, self.timing.timeout, &self.timing, &mut self.jitter);
        self.timers.insert((retry.at(), id));
        peer.request = Some(retry);
        self.send_request(id);
    }

    /// Takes in a datagram.
    pub(crate) fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.counters.received += 1;
        let Some(message) = Message::decode(bytes) else {
            self.counters.malformed += 1;
            tracing::debug!(len = bytes.len(), "a datagram that is no message");
            return;
        };
        let from = message.from;
        if message.to != (self.own.instance, self.own.secret) || from.instance == self.own.instance
        {
            self.counters.strangers += 1;
            let strangers = self.counters.strangers;
            // However many there are, the log stays short.
            if strangers.is_power_of_two() {
                tracing::warn!(
                    host = from.host,
                    pid = from.pid,
                    strangers,
                    "a datagram that is not for this process was dropped"
                );
            }
            return;
        }
        tracing::trace!(from = ?from.instance, body = ?message.body, "received");
        match message.body {
            Body::Request { numbers, heard } => self.requested(now, from, numbers, heard),
            Body::Reply { numbers, heard } => self.replied(now, from.instance, numbers, heard),
            Body::Busy => self.put_off(now, from.instance),
            Body::Refusal { words } => self.refused(from.instance, words),
            Body::Goodbye => self.goodbye_from(from),
            Body::Farewell { leaving } => self.farewell_from(from.instance, leaving),
        }
    }

    fn requested(&mut self, now: Instant, from: Address, theirs: Numbers, heard: Option<u32>) {
        if let Some(obstacle) = self.own.obstacle_to(&from) {
            return self.refuse(Arc::new(from), &obstacle);
        }
        let id = from.instance;
        let peer = PeerState::of(&mut self.peers, &Arc::new(from));
        if peer.theirs.is_some() {
            // There is nothing to make.
            return self.answer(now, id, theirs, heard);
        }
        let waits = peer.asked.replace((theirs, heard)).is_some();
        if waits || !self.backlog.is_empty() {
            self.counters.put_off += 1;
            let address = peer.address.clone();
            self.send(address, Body::Busy);
        }
        if !waits {
            self.backlog.push_back(id);
        }
    }

    /// Serves the next of those who have asked; false if there is none.
    pub(crate) fn work(&mut self, now: Instant) -> bool {
        let Some(id) = self.backlog.pop_front() else {
            return false;
        };
        let peer = self.peers.get_mut(&id);
        if let Some(peer) = peer
            && let Some((theirs, heard)) = peer.asked.take()
            && !peer.left
        {
            self.answer(now, id, theirs, heard);
        }
        true
    }

    fn answer(&mut self, now: Instant, id: PeerId, theirs: Numbers, heard: Option<u32>) {
        let Some(peer) = self.peers.get(&id) else {
            return;
        };
        let address = peer.address.clone();
        let known = peer.theirs.is_some() || peer.request.is_some();
        if self.leaving.is_some() && !known {
            return self.refuse(address, &ConnectFailure::Left.to_string());
        }
        match self.listen(now, id, &theirs) {
            Ok(ours) => {
                if heard == Some(ours.qpn) {
                    self.heard(id);
                }
                let reply = Body::Reply {
                    numbers: ours,
                    heard: theirs.qpn,
                };
                self.send(address, reply);
            }
            Err(failure) => self.refuse(address, &failure.to_string()),
        }
    }

    fn replied(&mut self, now: Instant, id: PeerId, theirs: Numbers, heard: u32) {
        let ours = self.peers.get(&id).and_then(|peer| peer.ours);
        // A reply to nothing that was asked here.
        if ours.is_none_or(|ours| ours.qpn != heard) {
            return;
        }
        match self.listen(now, id, &theirs) {
            Ok(_) => self.heard(id),
            Err(failure) => self.fail(id, failure),
        }
    }

    fn put_off(&mut self, now: Instant, id: PeerId) {
        let peer = self.peers.get_mut(&id);
        if let Some(request) = peer.and_then(|peer| peer.request.as_mut()) {
            request.put_off(now, &self.timing, &mut self.jitter);
        }
    }

    fn refused(&mut self, id: PeerId, words: String) {
        let waits = |peer: &PeerState| peer.request.is_some() && !peer.heard;
        if self.peers.get(&id).is_some_and(waits) {
            self.fail(id, ConnectFailure::There(words));
        }
    }

    /// Lets the queue pair for this peer listen, and returns its numbers.
    fn listen(
        &mut self,
        now: Instant,
        id: PeerId,
        theirs: &Numbers,
    ) -> Result<Numbers, ConnectFailure> {
        let peer = self.peers.get_mut(&id).ok_or(ConnectFailure::Stopped)?;
        let ours = peer.numbers(&mut self.queues)?;
        match peer.listen(&mut self.queues, theirs) {
            Ok(first) => {
                if let (true, Some(limit)) = (first, self.leaving) {
                    self.say_goodbye(now, id, limit);
                }
                Ok(ours)
            }
            Err(failure) => {
                self.fail(id, failure.clone());
                Err(failure)
            }
        }
    }

    /// The peer's queue pair listens to ours.
    fn heard(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.heard = true;
            if peer.request.take().is_some() {
                self.end(id, Ok(()));
            }
        }
    }

    /// Ends the attempt to connect, if one is under way.
    fn fail(&mut self, id: PeerId, failure: ConnectFailure) {
        let peer = self.peers.get_mut(&id);
        if peer.is_some_and(|peer| peer.request.take().is_some()) {
            self.end(id, Err(failure));
        }
    }

    fn end(&mut self, peer: PeerId, result: Result<(), ConnectFailure>) {
        self.outcomes.push_back(Outcome { peer, result });
    }

    /// Says goodbye to everyone who has been in touch, for at most `limit`.
    pub(crate) fn leave(&mut self, now: Instant, limit: Duration) {
        if self.leaving.replace(limit).is_some() {
            return;
        }
        let known: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in known {
            self.say_goodbye(now, id, limit);
        }
    }

    /// Whether nobody is left to say goodbye to.
    pub(crate) fn has_left(&self) -> bool {
        self.leaving.is_some() && self.peers.values().all(|peer| peer.goodbye.is_none())
    }

    /// Waits no longer for this peer: what was sent to it did not arrive.
    pub(crate) fn abandon(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.abandoned = true;
            peer.goodbye = None;
        }
    }

    fn say_goodbye(&mut self, now: Instant, id: PeerId, limit: Duration) {
        let own = self.own.instance;
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if peer.theirs.is_none() || peer.abandoned || id == own {
            return;
        }
        // Who leaves as well may be gone before it can answer.
        if !peer.left {
            let retry = Retry::start(now, limit, &self.timing, &mut self.jitter);
            self.timers.insert((retry.at(), id));
            peer.goodbye = Some(retry);
        }
        let address = peer.address.clone();
        self.send(address, Body::Goodbye);
    }

    fn goodbye_from(&mut self, from: Address) {
        self.has_gone(from.instance);
        let leaving = self.leaving.is_some();
        self.send(Arc::new(from), Body::Farewell { leaving });
    }

    fn farewell_from(&mut self, id: PeerId, leaving: bool) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.goodbye = None;
        }
        if leaving {
            self.has_gone(id);
        }
    }

    fn has_gone(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        peer.goodbye = None;
        if !std::mem::replace(&mut peer.left, true) && peer.ours.is_some() {
            self.queues.peer_closed(id);
        }
        self.fail(id, ConnectFailure::Left);
    }

    /// When [`Protocol::tick`] is to be called, if nothing else happens.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Repeats what is due, and gives up what has taken too long.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            self.look_at(now, id);
        }
    }

    fn look_at(&mut self, now: Instant, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let mut due = |retry: &mut Option<Retry>| {
            let retry = retry.as_mut();
            let due = retry.map(|retry| retry.due(now, &self.timing, &mut self.jitter));
            due.unwrap_or(Due::Nothing)
        };
        let (request, goodbye) = (due(&mut peer.request), due(&mut peer.goodbye));
        if goodbye == Due::GiveUp {
            peer.goodbye = None;
        }
        for retry in peer.request.iter().chain(&peer.goodbye) {
            self.timers.insert((retry.at(), id));
        }
        let address = peer.address.clone();
        let silence = peer.silence(&self.own);
        match request {
            Due::Nothing => {}
            Due::SayAgain => {
                self.counters.repeated += 1;
                self.send_request(id);
            }
            Due::GiveUp => self.fail(id, silence),
        }
        if goodbye == Due::SayAgain {
            self.counters.repeated += 1;
            self.send(address, Body::Goodbye);
        }
    }

    fn send_request(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else {
            return;
        };
        if let Some(numbers) = peer.ours {
            let heard = peer.theirs.map(|theirs| theirs.qpn);
            self.send(peer.address.clone(), Body::Request { numbers, heard });
        }
    }

    fn refuse(&mut self, to: Arc<Address>, words: &str) {
        self.counters.refused += 1;
        tracing::warn!(host = to.host, pid = to.pid, words, "refused a connection");
        self.send(to, Body::refusal(words));
    }

    fn send(&mut self, to: Arc<Address>, body: Body) {
        tracing::trace!(to = ?to.instance, ?body, "sending");
        self.counters.sent += 1;
        let message = Message {
            to: (to.instance, to.secret),
            from: Address::clone(&self.own),
            body,
        };
        let bytes = message.encode();
        self.transmits.push_back(Transmit { to, bytes });
    }

    /// The next datagram to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// What became of the last datagram to this peer: sent, or why not. For the message when
    /// nothing is heard from it.
    pub(crate) fn transmitted(&mut self, id: PeerId, result: Result<(), String>) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.trouble = result.err();
        }
    }

    /// The next attempt that has ended.
    pub(crate) fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}
