//! What the program's threads do to connect: they dial, ask, and wait for the answer.

use std::io::{self, ErrorKind, Write as _};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::address::Address;
use super::answering::{Answering, Contact};
use super::message::{Message, Numbers};
use super::pairing::{Ends, PAUSE, PairState, Pairing};
use super::{OPERATION, Queues};
use crate::channel::{self, ChannelAgent, Opened, Presence, Stream, Until};
use crate::fork::OfProcess;
use crate::provider::JobSecret;
use crate::verbs::events::EventSource;
use crate::verbs::port::{PortAddress, Transport};
use crate::{Error, Result};

pub(crate) struct Connector {
    ends: Arc<Ends>,
    agent: OfProcess<ChannelAgent<Answering>>,
}

impl Connector {
    /// Listens for peers, with a thread that answers them and watches `events`. `port` describes this process's port,
    /// one of `device`, to peers.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn start(
        secret: JobSecret,
        (port, transport): (PortAddress, Transport),
        device: &str,
        queues: impl Queues + 'static,
        timeout: Duration,
        events: Option<EventSource>,
    ) -> Result<Self> {
        let Opened {
            record, listener, ..
        } = channel::open(&channel::named_interface(), secret, None)?;
        let ends = Arc::new(Ends {
            own: Address {
                record,
                port,
                transport,
                device: device.to_owned(),
            },
            queues: Box::new(queues),
            timeout,
            pairings: Mutex::default(),
        });
        let answering = Answering::new(ends.clone(), events);
        let agent = ChannelAgent::start(listener, &ends.own.record, answering)?;
        Ok(Self {
            ends,
            agent: OfProcess::new(agent),
        })
    }

    /// The address that this process publishes.
    pub(crate) fn address(&self) -> &Address {
        &self.ends.own
    }

    /// Returns when both queue pairs are connected and this side may send. The process itself is a legal peer.
    ///
    /// # Errors
    /// The peer cannot be reached, refuses, has left, or is silent for longer than the limit.
    pub(crate) fn connect(&self, peer: &Address) -> Result<()> {
        let pairing = self.ends.pairing(peer.record.instance);
        let mut state = pairing.state();
        if state.asks {
            // The thread that asks gives up in time, and its result is for all waiting threads.
            state = pairing.wait(state, Duration::MAX, |state| state.asks && !state.is_heard);
            if let (false, Some(failure)) = (state.is_heard, &state.failure) {
                return Err(failure.clone());
            }
        }
        if state.asked > 0 {
            let is_open = |it: &PairState| it.asked > 0 && !it.is_heard && it.broken.is_none();
            state = pairing.wait(state, self.ends.timeout, is_open);
        }
        if state.is_heard {
            return Ok(());
        }
        if let Some(failure) = &state.broken {
            return Err(failure.clone());
        }
        match pairing.status.presence() {
            Presence::Here | Presence::Reset => {}
            Presence::Closed => return Err(closed(peer)),
            Presence::Gone => return Err(gone(peer)),
        }
        state.asks = true;
        drop(state);
        let result = self.ask(peer, &pairing);
        pairing.note(|state| {
            state.asks = false;
            state.failure = result.as_ref().err().cloned();
        });
        result
    }

    fn ask(&self, peer: &Address, pairing: &Arc<Pairing>) -> Result<()> {
        let Ends {
            own,
            queues,
            timeout,
            ..
        } = &*self.ends;
        let queues = &**queues;
        let here = |error: Error| peer.unreachable(&error.to_string());
        if let Some(obstacle) = own.obstacle_to(peer) {
            return Err(peer.unreachable(&obstacle));
        }
        if peer.record.instance == own.record.instance {
            let numbers = pairing.state().numbers(queues, peer, &pairing.status);
            let numbers = numbers.map_err(here)?;
            self.listen(peer, pairing, &numbers).map_err(here)?;
            pairing.state().is_heard = true;
            return Ok(());
        }
        let stream = channel::dial(&own.record, &peer.record, *timeout, OPERATION, None)?;
        let ours = pairing.state().numbers(queues, peer, &pairing.status);
        let ours = ours.map_err(here)?;
        let theirs = self.exchange(&stream, ours, peer, pairing)?;
        self.listen(peer, pairing, &theirs).map_err(here)?;
        let said = (&*stream)
            .write_all(&Message::Connected.encode())
            .and_then(|()| stream.set_nonblocking(true));
        said.map_err(|error| self.silence(peer, &error, false))?;
        pairing.state().is_heard = true;
        let contact = Contact::connected(peer.record.instance, pairing.clone());
        self.agent.adopt(stream, contact);
        Ok(())
    }

    /// Makes our queue pair ready to receive from the peer's.
    fn listen(&self, peer: &Address, pairing: &Pairing, theirs: &Numbers) -> Result<()> {
        while !pairing.state().listen(&self.ends, peer, theirs)? {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Sends our queue pair's numbers to the peer, and waits for the peer's.
    fn exchange(
        &self,
        stream: &Stream,
        ours: Numbers,
        peer: &Address,
        pairing: &Pairing,
    ) -> Result<Numbers> {
        let from = Box::new(self.ends.own.clone());
        let limit = self.ends.timeout;
        let next = || Message::read(Until(stream, Instant::now() + limit));
        let mut is_put_off = false;
        let asked = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_write_timeout(Some(limit)))
            .and_then(|()| (&**stream).write_all(&Message::Ask { ours, from }.encode()));
        let mut answer = asked.and_then(|()| next());
        loop {
            match answer {
                Ok(Message::Answer(theirs)) => return Ok(theirs),
                Ok(Message::Wait) => {
                    if !std::mem::replace(&mut is_put_off, true) {
                        let (pid, host) = (peer.record.pid, &peer.record.host);
                        tracing::info!(
                            pid,
                            host,
                            "waiting for a peer that connects to others first"
                        );
                    }
                    answer = next();
                }
                Ok(Message::Refusal(words)) => {
                    return Err(peer.unreachable(&format!("the other side refused: {words}")));
                }
                Ok(Message::Leave) => {
                    pairing.status.becomes(Presence::Closed);
                    return Err(closed(peer));
                }
                Ok(_) => return Err(peer.no_answer("its answer makes no sense".to_owned())),
                Err(error) => return Err(self.silence(peer, &error, is_put_off)),
            }
        }
    }

    fn silence(&self, peer: &Address, error: &io::Error, is_put_off: bool) -> Error {
        let why = match error.kind() {
            ErrorKind::WouldBlock => format!(
                "nothing within {} s{}; does the process still run? TRANSOM_CONNECT_TIMEOUT=SECONDS lets it take longer",
                self.ends.timeout.as_secs_f64(),
                match is_put_off {
                    true => " after it last said that it connects to others first",
                    false => "",
                }
            ),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                return gone(peer);
            }
            _ => error.to_string(),
        };
        peer.no_answer(why)
    }

    /// Tells all peers with a connection that this process leaves. New connections are refused.
    pub(crate) fn close(&self) {
        self.agent.leave();
    }
}

fn closed(peer: &Address) -> Error {
    Error::PeerClosed {
        pid: peer.record.pid,
        host: Some(peer.record.host.as_str().into()),
    }
}

fn gone(peer: &Address) -> Error {
    let pid = peer.record.pid;
    Error::PeerGone { pid }
}
