//! How the agent serves an origin: requests are received and carried out, and answers sent, without waiting.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use super::frame::REQUEST;
use super::regions::Regions;
use super::target::Target;
use crate::channel::{KnownPeers, Moved, Next, Presence, Serve, receive, receive_to, send_parts};
use crate::device::combine::GivenCombiner;

/// The size of the buffer for received bytes. The data of long writes bypasses it.
const SCRATCH: usize = 64 << 10;
/// The bytes that are received from or sent to a connection before the others have their turn. Parts of a read may
/// exceed it by up to a piece.
const TURN: usize = 256 << 10;

pub(super) struct Serving {
    regions: Arc<Regions>,
    combiner: GivenCombiner,
    peers: Arc<KnownPeers>,
    scratch: Vec<u8>,
}

impl Serving {
    pub(super) fn new(
        regions: Arc<Regions>,
        combiner: GivenCombiner,
        peers: Arc<KnownPeers>,
    ) -> Self {
        Self {
            regions,
            combiner,
            peers,
            scratch: vec![0; SCRATCH],
        }
    }
}

pub(super) struct Served {
    target: Target,
    /// Received bytes not used yet: a part of a request, or requests behind a read that is being answered.
    held: Vec<u8>,
}

impl Serve for Serving {
    const ASSISTED: bool = true;
    type Peer = Served;

    fn admit(&mut self, origin: u64) -> Served {
        let origin = self.peers.status(origin);
        // An earlier connection may have been reset.
        origin.becomes(Presence::Here);
        Served {
            target: Target::new(self.regions.clone(), self.combiner.clone(), origin),
            held: Vec::new(),
        }
    }

    fn serve(
        &mut self,
        stream: &TcpStream,
        peer: &mut Served,
        may_defer: bool,
    ) -> io::Result<Next> {
        let (target, held) = (&mut peer.target, &mut peer.held);
        serve(stream, target, held, &mut self.scratch, TURN, may_defer)
    }

    fn has_deferred(peer: &Served) -> bool {
        peer.target.has_deferred()
    }

    fn leave(&mut self, peer: &mut Served) {
        peer.target.leave();
    }

    fn is_all_sent(peer: &Served) -> bool {
        peer.target.is_all_sent()
    }

    fn ended(&mut self, peer: Served, error: Option<&io::Error>) {
        peer.target.ended(error);
    }
}

/// Carries out received requests and sends answers, as long as it is this connection's turn. `may_defer`: once it has
/// carried out all that have arrived, it acknowledges them only if the origin asks for that.
pub(super) fn serve(
    stream: &TcpStream,
    target: &mut Target,
    held: &mut Vec<u8>,
    scratch: &mut [u8],
    mut turn: usize,
    may_defer: bool,
) -> io::Result<Next> {
    while turn > 0 {
        if let Some(next) = send_answers(stream, target, &mut turn)? {
            return Ok(next);
        }
        // Requests that a read held up are carried out before more is received.
        let used = target.take(held).ok_or(ErrorKind::InvalidData)?;
        held.drain(..used);
        if target.is_blocked() {
            continue;
        }
        if target.is_locked_out() {
            target.acknowledge();
            let next = send_answers(stream, target, &mut turn)?;
            return Ok(next.unwrap_or(Next::Pauses));
        }
        let kept = held.len();
        let direct = if kept == 0 {
            target.direct().min(turn)
        } else {
            0
        };
        let (room, moved) = if direct > 0 {
            // SAFETY: the memory is of a region, for as many bytes.
            let moved = target.receive(|to| unsafe { receive_to(stream, to, direct) })?;
            (direct, moved)
        } else {
            scratch[..kept].copy_from_slice(held);
            (scratch.len() - kept, receive(stream, &mut scratch[kept..])?)
        };
        let got = match moved {
            Moved::Bytes(bytes) => bytes,
            Moved::Nothing => 0,
            Moved::End => return Ok(Next::Ends),
        };
        if direct == 0 {
            let whole = &scratch[..kept + got];
            let used = target.take(whole).ok_or(ErrorKind::InvalidData)?;
            held.clear();
            held.extend_from_slice(&whole[used..]);
        }
        // This was probably all that had arrived.
        if got < room && !target.is_blocked() && !target.is_locked_out() {
            held.shrink_to(REQUEST);
            if !may_defer || target.is_asked() {
                target.acknowledge();
            }
            let next = send_answers(stream, target, &mut turn)?;
            return Ok(next.unwrap_or(Next::Waits(EventFlags::IN)));
        }
        turn = turn.saturating_sub(got);
    }
    target.acknowledge();
    Ok(Next::Ready)
}

/// Sends answers while the socket accepts them and it is this connection's turn. `None` if all are sent.
fn send_answers(
    stream: &TcpStream,
    target: &mut Target,
    turn: &mut usize,
) -> io::Result<Option<Next>> {
    while *turn > 0 {
        // SAFETY: the parts are answers, and memory of a region.
        match target.send(|parts| unsafe { send_parts(stream, parts) }) {
            None => return Ok(None),
            Some(moved) => match moved? {
                Moved::Bytes(sent) => *turn = turn.saturating_sub(sent),
                Moved::Nothing => return Ok(Some(Next::Waits(EventFlags::OUT))),
                Moved::End => return Err(ErrorKind::ConnectionReset.into()),
            },
        }
    }
    Ok(Some(Next::Ready))
}
