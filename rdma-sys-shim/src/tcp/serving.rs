//! How the agent serves an origin: requests are received and carried out, and answers sent, without waiting.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use super::frame::REQUEST;
use super::regions::Regions;
use super::target::Target;
use crate::channel::{KnownPeers, Moved, Next, Serve, receive, send};

/// So many bytes are received at a time.
const SCRATCH: usize = 64 << 10;
/// Receptions from one connection before it is the others' turn.
const ROUNDS: u32 = 16;
/// And pieces of answers that are sent to one.
const PIECES: u32 = 16;

pub(super) struct Serving {
    regions: Arc<Regions>,
    peers: Arc<KnownPeers>,
    scratch: Vec<u8>,
}

impl Serving {
    pub(super) fn new(regions: Arc<Regions>, peers: Arc<KnownPeers>) -> Self {
        Self {
            regions,
            peers,
            scratch: vec![0; SCRATCH],
        }
    }
}

pub(super) struct Served {
    target: Target,
    /// Bytes that were received and not used: a part of a request, or requests behind a read that is being answered.
    held: Vec<u8>,
}

impl Serve for Serving {
    const ASSISTED: bool = true;
    type Peer = Served;

    fn admit(&mut self, origin: u64) -> Served {
        let origin = self.peers.status(origin);
        Served {
            target: Target::new(self.regions.clone(), origin),
            held: Vec::new(),
        }
    }

    fn serve(&mut self, stream: &TcpStream, peer: &mut Served) -> io::Result<Next> {
        serve(stream, &mut peer.target, &mut peer.held, &mut self.scratch)
    }

    fn leave(&mut self, peer: &mut Served) {
        peer.target.leave();
    }

    fn is_all_sent(peer: &Served) -> bool {
        peer.target.is_all_sent()
    }

    fn ended(&mut self, peer: Served, _: Option<&io::Error>) {
        peer.target.ended();
    }
}

/// Carries out what has come, and answers, as long as it is this connection's turn.
fn serve(
    stream: &TcpStream,
    target: &mut Target,
    held: &mut Vec<u8>,
    scratch: &mut [u8],
) -> io::Result<Next> {
    for _ in 0..ROUNDS {
        if let Some(next) = send_answers(stream, target)? {
            return Ok(next);
        }
        // What was held up by a read is carried out before more is received.
        let used = target.take(held).ok_or(ErrorKind::InvalidData)?;
        held.drain(..used);
        if target.is_blocked() {
            continue;
        }
        let kept = held.len();
        scratch[..kept].copy_from_slice(held);
        let got = match receive(stream, &mut scratch[kept..])? {
            Moved::Bytes(bytes) => bytes,
            Moved::Nothing => 0,
            Moved::End => return Ok(Next::Ends),
        };
        let whole = &scratch[..kept + got];
        let used = target.take(whole).ok_or(ErrorKind::InvalidData)?;
        held.clear();
        held.extend_from_slice(&whole[used..]);
        // All that had come, most likely.
        if whole.len() < scratch.len() && !target.is_blocked() {
            held.shrink_to(REQUEST);
            target.acknowledge();
            let next = send_answers(stream, target)?;
            return Ok(next.unwrap_or(Next::Waits(EventFlags::IN)));
        }
    }
    target.acknowledge();
    Ok(Next::Ready)
}

/// Sends answers as far as the socket takes them and it is this connection's turn; `None` if that is all of them.
fn send_answers(stream: &TcpStream, target: &mut Target) -> io::Result<Option<Next>> {
    for _ in 0..PIECES {
        let output = target.output();
        if output.is_empty() {
            return Ok(None);
        }
        match send(stream, output)? {
            Moved::Bytes(sent) => target.has_sent(sent),
            Moved::Nothing => return Ok(Some(Next::Waits(EventFlags::OUT))),
            Moved::End => return Err(ErrorKind::ConnectionReset.into()),
        }
    }
    Ok(Some(Next::Ready))
}
