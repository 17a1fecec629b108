//! How the agent answers connection requests, and what it learns about peers.
//!
//! Making a queue pair takes time, and many peers may ask at once. They are answered in order, one in each round of the
//! agent. Once a second, the agent tells waiting peers that they will be answered.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::address::Address;
use super::message::{Message, Numbers};
use super::pairing::{Ends, PAUSE, Pairing};
use crate::channel::{Moved, Next, Presence, SILENCE, Serve, receive, send};
use crate::verbs::events::EventSource;

/// The most messages from or to one connection before others have their turn.
const MESSAGES: u32 = 16;
/// How often a waiting peer is told that it has to wait.
const TOLD_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Answering {
    ends: Arc<Ends>,
    /// The events of the device.
    events: Option<EventSource>,
    /// Whether a peer has been answered in this round.
    has_answered: bool,
    is_leaving: bool,
}

/// A TCP connection with a peer.
pub(crate) struct Contact {
    /// The peer's instance.
    instance: u64,
    pairing: Arc<Pairing>,
    /// The peer's request, until it is answered.
    question: Option<(Numbers, Box<Address>)>,
    /// When to try again to answer it.
    again: Option<Instant>,
    /// Whether it was answered, and has not yet said that it is connected.
    is_open: bool,
    /// Whether both have said that they are connected. Then an end without a farewell means that the peer died.
    is_connected: bool,
    /// When this side said so. Until the peer has read it, the kernel of a dying peer resets the connection.
    said: Option<Instant>,
    /// When the peer was last told that it has to wait.
    told: Option<Instant>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Contact {
    fn new(instance: u64, pairing: Arc<Pairing>) -> Self {
        Self {
            instance,
            pairing,
            question: None,
            again: None,
            is_open: false,
            is_connected: false,
            said: None,
            told: None,
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// A connection whose exchange is finished.
    pub(crate) fn connected(instance: u64, pairing: Arc<Pairing>) -> Self {
        Self {
            is_connected: true,
            said: Some(Instant::now()),
            ..Self::new(instance, pairing)
        }
    }

    fn say(&mut self, message: &Message) {
        self.output.extend(message.encode());
    }

    /// Whether the end of the connection means that the peer has died. A silent peer may live on, with only the TCP
    /// network down. A late reset may come from a peer whose side had ended the connection after silence.
    fn is_death(&self, error: Option<&io::Error>, now: Instant) -> bool {
        self.is_connected
            && match error {
                None => true,
                Some(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.said.is_some_and(|said| now - said < SILENCE)
                }
                Some(_) => false,
            }
    }

    /// Sends the output. False if the socket does not accept all of it.
    fn send(&mut self, stream: &TcpStream) -> io::Result<bool> {
        while !self.output.is_empty() {
            match send(stream, &self.output)? {
                Moved::Bytes(sent) => drop(self.output.drain(..sent)),
                Moved::Nothing => return Ok(false),
                Moved::End => return Err(ErrorKind::ConnectionReset.into()),
            }
        }
        Ok(true)
    }
}

impl Answering {
    pub(crate) fn new(ends: Arc<Ends>, events: Option<EventSource>) -> Self {
        Self {
            ends,
            events,
            has_answered: false,
            is_leaving: false,
        }
    }

    fn hear(&mut self, contact: &mut Contact, message: Message) -> io::Result<()> {
        match message {
            Message::Ask { ours, from }
                if from.record.instance == contact.instance
                    && contact.question.is_none()
                    && !contact.is_open =>
            {
                contact.question = Some((ours, from));
            }
            Message::Connected if contact.is_open => {
                contact.is_open = false;
                contact.is_connected = true;
                contact.pairing.note(|state| {
                    state.asked -= 1;
                    state.is_heard = true;
                });
            }
            Message::Leave => contact.pairing.status.becomes(Presence::Closed),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    /// Reads the messages that have arrived; `None` if there may be more.
    fn listen(&mut self, stream: &TcpStream, contact: &mut Contact) -> io::Result<Option<Next>> {
        let mut room = [0; 512];
        match receive(stream, &mut room)? {
            Moved::Bytes(got) => contact.input.extend(&room[..got]),
            Moved::Nothing => return Ok(Some(Next::Waits(EventFlags::IN))),
            Moved::End => return Ok(Some(Next::Ends)),
        }
        while let Some(message) = Message::take(&mut contact.input)? {
            self.hear(contact, message)?;
        }
        Ok(None)
    }

    /// Answers the request of a peer, unless the device has not found the peer's address yet.
    fn answer(&mut self, contact: &mut Contact, theirs: Numbers, from: Box<Address>) {
        let Ends { own, queues, .. } = &*self.ends;
        let pairing = contact.pairing.clone();
        let mut state = pairing.state();
        let answer = match own.obstacle_to(&from) {
            Some(obstacle) => Err(obstacle),
            None => state
                .numbers(&**queues, &from, &pairing.status)
                .and_then(|ours| Ok((ours, state.listen(&self.ends, &from, &theirs)?)))
                .map_err(|error| error.to_string()),
        };
        let said = match answer {
            Ok((_, false)) => {
                contact.again = Some(Instant::now() + PAUSE);
                contact.question = Some((theirs, from));
                return;
            }
            Ok((ours, true)) => {
                state.asked += 1;
                contact.is_open = true;
                Message::Answer(ours)
            }
            Err(words) => {
                let (pid, host) = (from.record.pid, &from.record.host);
                tracing::warn!(pid, host, words, "refused a connection");
                Message::Refusal(words)
            }
        };
        contact.say(&said);
    }
}

impl Serve for Answering {
    type Peer = Contact;

    fn admit(&mut self, origin: u64) -> Contact {
        Contact::new(origin, self.ends.pairing(origin))
    }

    fn serve(&mut self, stream: &TcpStream, contact: &mut Contact, _: bool) -> io::Result<Next> {
        for _ in 0..MESSAGES {
            match contact.send(stream) {
                Ok(true) => {}
                Ok(false) => return Ok(Next::Waits(EventFlags::OUT)),
                // The peer may have said that it leaves before it ended the connection.
                Err(error) => {
                    while let Ok(None) = self.listen(stream, contact) {}
                    return Err(error);
                }
            }
            let pauses = contact.again.is_some_and(|again| Instant::now() < again);
            if contact.question.is_some() && (self.has_answered || pauses) {
                if contact.told.is_some_and(|told| told.elapsed() < TOLD_EVERY) {
                    return Ok(if pauses { Next::Pauses } else { Next::Ready });
                }
                contact.told = Some(Instant::now());
                contact.say(&Message::Wait);
                continue;
            }
            if let Some((theirs, from)) = contact.question.take() {
                // A leaving process has said so, which is an answer.
                if !self.is_leaving {
                    self.has_answered = true;
                    self.answer(contact, theirs, from);
                }
                continue;
            }
            if let Some(next) = self.listen(stream, contact)? {
                return Ok(next);
            }
        }
        Ok(Next::Ready)
    }

    fn leave(&mut self, contact: &mut Contact) {
        self.is_leaving = true;
        contact.say(&Message::Leave);
    }

    fn is_all_sent(contact: &Contact) -> bool {
        contact.output.is_empty()
    }

    fn ended(&mut self, contact: Contact, error: Option<&io::Error>) {
        if contact.is_open {
            contact.pairing.note(|state| state.asked -= 1);
        }
        if contact.is_death(error, Instant::now()) {
            contact.pairing.status.becomes(Presence::Gone);
        }
    }

    fn begin_round(&mut self) {
        self.has_answered = false;
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(EventSource::fd)
    }

    fn look(&mut self) -> ControlFlow<()> {
        match &mut self.events {
            Some(events) => (events.ready)(),
            None => ControlFlow::Break(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_a_death_until_silence_could_have_ended_the_connection() {
        let reset = io::Error::from(ErrorKind::ConnectionReset);
        let silence = io::Error::from(ErrorKind::TimedOut);
        let asked = Contact::new(1, Arc::default());
        let asks = Contact::connected(1, Arc::default());
        let said = asks.said.unwrap();
        assert!(!asked.is_death(None, said), "not connected yet");
        assert!(asks.is_death(None, said + 2 * SILENCE));
        assert!(asks.is_death(Some(&reset), said + SILENCE / 2));
        assert!(!asks.is_death(Some(&reset), said + SILENCE));
        assert!(!asks.is_death(Some(&silence), said));
        let answered = Contact {
            is_connected: true,
            ..asked
        };
        assert!(answered.is_death(None, said));
        assert!(!answered.is_death(Some(&reset), said));
    }
}
