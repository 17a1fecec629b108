//! Queue pairs: reliable connections, their states and their queues.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::abi::{
    access, ibv_ah_attr, ibv_qp_attr, ibv_qp_cap, ibv_recv_wr, ibv_sge, mask, send_flag,
};
use crate::completion::{CompletionQueue, lock};
use crate::context::Context;
use crate::error::{Errno, Result};
use crate::fabric::{PairEntry, Piece, RECEIVE_PIECES, RECEIVES, Receive};
use crate::failure::{Call, Fate};
use crate::misuse;
use crate::personality::{Atomics, InlineData, Link};
use crate::region;
use crate::request::Request;

/// The states of a queue pair, in the numbers of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum State {
    Reset = 0,
    Init = 1,
    ReadyToReceive = 2,
    ReadyToSend = 3,
    Error = 6,
}

impl State {
    fn of(number: c_int) -> Option<Self> {
        let all = [
            Self::Reset,
            Self::Init,
            Self::ReadyToReceive,
            Self::ReadyToSend,
            Self::Error,
        ];
        all.into_iter().find(|state| *state as c_int == number)
    }

    /// Whether it answers its peer.
    pub(crate) fn responds(self) -> bool {
        matches!(self, Self::ReadyToReceive | Self::ReadyToSend)
    }
}

impl PairEntry {
    pub(crate) fn state(&self) -> State {
        State::of(self.state.load(Ordering::Acquire)).unwrap_or(State::Reset)
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as i32, Ordering::Release);
    }
}

/// The way to the peer, and how long to wait for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Route {
    pub(crate) attributes: ibv_qp_attr,
}

impl Route {
    /// How long a request may be unanswered, over all retries; `None` is for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let once = match self.attributes.timeout & 31 {
            0 => return None,
            exponent => Duration::from_nanos(4096 << exponent),
        };
        Some(once * (u32::from(self.attributes.retry_cnt & 7) + 1))
    }
}

/// Attempts to have a request carried out.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    /// When it was put on the wire.
    pub(crate) begun: Instant,
    pub(crate) fate: Option<Fate>,
    /// Since when it has no answer.
    pub(crate) unanswered: Option<Instant>,
    /// How often the peer was not ready to receive, and when it is asked again.
    pub(crate) not_ready: u8,
    pub(crate) again: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct SendQueue {
    pub(crate) requests: VecDeque<Request>,
    /// The number of the next request.
    next: u32,
    /// The number of the last request that was signalled.
    last_signalled: Option<u32>,
    /// What was tried with the oldest request.
    pub(crate) attempt: Option<Attempt>,
    /// Nothing completes any more.
    pub(crate) hangs: bool,
}

pub(crate) struct QueuePair {
    pub(crate) number: u32,
    pub(crate) domain: u32,
    pub(crate) limits: ibv_qp_cap,
    pub(crate) signals_all: bool,
    pub(crate) send_completions: Arc<CompletionQueue>,
    pub(crate) receive_completions: Arc<CompletionQueue>,
    pub(crate) send: Mutex<SendQueue>,
    pub(crate) route: Mutex<Route>,
    /// The number up to which requests of the send queue are known to be complete: their places are free.
    pub(crate) released: Arc<AtomicU32>,
    /// Receive requests whose completions are reported.
    pub(crate) taken: AtomicU32,
    /// Whether the thread of the device has it on its list.
    pub(crate) is_listed: AtomicBool,
    /// Whether it was told that the peer serves fewer reads than are sent.
    pub(crate) is_told_of_reads: AtomicBool,
    /// Held while the thread serves it.
    pub(crate) served: Mutex<()>,
    /// The address of the program's object.
    pub(crate) handle: AtomicUsize,
}

impl QueuePair {
    /// Makes a queue pair with at least these limits.
    pub(crate) fn new(
        context: &Context,
        domain: u32,
        [send_completions, receive_completions]: [Arc<CompletionQueue>; 2],
        wanted: ibv_qp_cap,
        signals_all: bool,
    ) -> Result<Arc<Self>> {
        context.settings().failures.of_call(Call::CreateQp)?;
        let limits = granted(context, wanted)?;
        let (number, entry) = context.fabric().take_pair().ok_or(Errno::NO_MEMORY)?;
        let order = Ordering::Relaxed;
        entry.set_state(State::Reset);
        entry.adapter.store(context.adapter() as u32, order);
        entry.context.store(context.place() as u32, order);
        entry.domain.store(domain, order);
        entry.access.store(0, order);
        for zero in [&entry.peer, &entry.event, &entry.posted, &entry.filled] {
            zero.store(0, order);
        }
        entry.number.store(number, Ordering::Release);
        let pair = Arc::new(Self {
            number,
            domain,
            limits,
            signals_all,
            send_completions,
            receive_completions,
            send: Mutex::default(),
            route: Mutex::default(),
            released: Arc::default(),
            taken: AtomicU32::new(0),
            is_listed: AtomicBool::new(false),
            is_told_of_reads: AtomicBool::new(false),
            served: Mutex::default(),
            handle: AtomicUsize::new(0),
        });
        context.counters().queue_pairs.add(1);
        context.add_pair(&pair);
        Ok(pair)
    }

    pub(crate) fn entry<'a>(&self, context: &'a Context) -> &'a PairEntry {
        context.fabric().pair(self.number)
    }

    /// Ends all work without completions, as drivers do.
    pub(crate) fn destroy(&self, context: &Context) {
        context.remove_pair(self.number);
        // After this, nobody begins to send to it, and the thread does not serve it.
        let entry = self.entry(context);
        {
            let _responder = context.fabric().adapter(context.adapter()).posted.lock();
            entry.set_state(State::Reset);
            entry.number.store(0, Ordering::Release);
        }
        let _served = lock(&self.served);
        self.drop_requests(context);
        entry.owner.release();
    }

    /// Empties the queues, and drops the completions of what was in them: those polled later would free places that
    /// other requests have by then. Neither this process's threads nor peers serve the queue pair meanwhile.
    fn drop_requests(&self, context: &Context) {
        for queue in [&self.send_completions, &self.receive_completions] {
            queue.forget(self.number);
        }
        let mut send = lock(&self.send);
        for request in send.requests.drain(..) {
            region::use_pieces(context.fabric(), &request.pieces, region::end);
        }
        *send = SendQueue::default();
        self.released.store(0, Ordering::Release);
        let entry = self.entry(context);
        let posted = entry.posted.load(Ordering::Acquire);
        let mut at = self.taken.swap(posted, Ordering::AcqRel);
        entry.filled.store(posted, Ordering::Release);
        while at != posted {
            region::use_pieces(
                context.fabric(),
                &self.receive_pieces(context, at),
                region::end,
            );
            at = at.wrapping_add(1);
        }
    }

    /// Changes the state, after the table of the specification (11.2.5.2), and attributes.
    pub(crate) fn modify(&self, context: &Context, to: &ibv_qp_attr, what: c_int) -> Result<()> {
        let entry = self.entry(context);
        if what & mask::STATE != 0 {
            let state = State::of(to.qp_state).ok_or(Errno::INVALID)?;
            self.change_state(context, entry, state, to, what)?;
        }
        if what & mask::ACCESS_FLAGS != 0 {
            entry.access.store(to.qp_access_flags, Ordering::Release);
            lock(&self.route).attributes.qp_access_flags = to.qp_access_flags;
        }
        if what & mask::MIN_RNR_TIMER != 0 {
            (entry.receive_timer).store(to.min_rnr_timer.into(), Ordering::Release);
            lock(&self.route).attributes.min_rnr_timer = to.min_rnr_timer;
        }
        Ok(())
    }

    fn change_state(
        &self,
        context: &Context,
        entry: &PairEntry,
        state: State,
        to: &ibv_qp_attr,
        what: c_int,
    ) -> Result<()> {
        let from = entry.state();
        let needed = match (from, state) {
            (_, State::Reset | State::Error) => 0,
            (State::Reset, State::Init) | (State::Init, State::Init) => {
                context.settings().failures.of_call(Call::ToInit)?;
                match from {
                    State::Init => 0,
                    _ => mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS,
                }
            }
            (State::Init, State::ReadyToReceive) => {
                context.settings().failures.of_call(Call::ToRtr)?;
                mask::AV
                    | mask::PATH_MTU
                    | mask::DEST_QPN
                    | mask::RQ_PSN
                    | mask::MAX_DEST_RD_ATOMIC
                    | mask::MIN_RNR_TIMER
            }
            (State::ReadyToReceive, State::ReadyToSend) => {
                context.settings().failures.of_call(Call::ToRts)?;
                mask::TIMEOUT
                    | mask::RETRY_CNT
                    | mask::RNR_RETRY
                    | mask::SQ_PSN
                    | mask::MAX_QP_RD_ATOMIC
            }
            (State::ReadyToSend, State::ReadyToSend) => 0,
            _ => return Err(Errno::INVALID),
        };
        if what & needed != needed {
            return Err(Errno::INVALID);
        }
        let personality = context.personality();
        let mut route = lock(&self.route);
        let known = &mut route.attributes;
        match state {
            State::Init if from == State::Reset => {
                if to.port_num != 1 || to.pkey_index != 0 {
                    return Err(Errno::INVALID);
                }
                let atomics = to.qp_access_flags & access::REMOTE_ATOMIC != 0;
                if atomics && personality.atomics == Atomics::None {
                    return Err(Errno::INVALID);
                }
                (known.port_num, known.pkey_index) = (to.port_num, to.pkey_index);
            }
            State::ReadyToReceive => {
                let to_itself = to.dest_qp_num == self.number;
                if to.max_dest_rd_atomic > personality.reads_in
                    || !(1..=5).contains(&to.path_mtu)
                    || to_itself && !personality.connects_to_itself
                    || !has_way(context, &to.ah_attr)
                {
                    return Err(Errno::INVALID);
                }
                (entry.reads_in).store(to.max_dest_rd_atomic.into(), Ordering::Relaxed);
                entry.receive_psn.store(to.rq_psn, Ordering::Relaxed);
                entry.peer.store(to.dest_qp_num, Ordering::Release);
                (known.ah_attr, known.path_mtu) = (to.ah_attr, to.path_mtu);
                (known.dest_qp_num, known.rq_psn) = (to.dest_qp_num, to.rq_psn);
                known.max_dest_rd_atomic = to.max_dest_rd_atomic;
            }
            State::ReadyToSend if from == State::ReadyToReceive => {
                if to.max_rd_atomic > personality.reads_out {
                    return Err(Errno::INVALID);
                }
                (known.timeout, known.retry_cnt) = (to.timeout, to.retry_cnt);
                (known.rnr_retry, known.sq_psn) = (to.rnr_retry, to.sq_psn);
                known.max_rd_atomic = to.max_rd_atomic;
            }
            _ => {}
        }
        drop(route);
        if state == State::Reset {
            // What is being served may end in the error state, and does so before.
            let _served = lock(&self.served);
            let _responder = context.fabric().adapter(context.adapter()).posted.lock();
            entry.set_state(state);
            self.drop_requests(context);
            return Ok(());
        }
        entry.set_state(state);
        if matches!(state, State::Error | State::ReadyToSend) {
            context.wake_for(self.number);
        }
        Ok(())
    }

    /// Takes a work request into the send queue. The caller rings the doorbell.
    pub(crate) fn post_send(&self, context: &Context, mut request: Request) -> Result<()> {
        context.settings().failures.of_call(Call::PostSend)?;
        // 10.8.2 of the specification: posting before the queue pair is ready to send is an immediate error.
        let state = self.entry(context).state();
        if !matches!(state, State::ReadyToSend | State::Error) {
            misuse::tell(
                context,
                format_args!(
                    "a request is posted to queue pair {} in state {state:?}",
                    self.number
                ),
            );
            return Err(Errno::INVALID);
        }
        let personality = context.personality();
        let pieces = match request.fetches() {
            true => personality.read_pieces.min(self.limits.max_send_sge),
            false => self.limits.max_send_sge,
        };
        if request.pieces.len() > pieces as usize {
            return Err(Errno::INVALID);
        }
        if request.is_atomic() && (request.len != 8 || personality.atomics == Atomics::None) {
            return Err(Errno::INVALID);
        }
        if request.is(send_flag::INLINE) {
            self.take_inline(personality.inline_data, &mut request)?;
        }
        let mut send = lock(&self.send);
        let released = self.released.load(Ordering::Acquire);
        let used = send.next.wrapping_sub(released);
        if used >= self.limits.max_send_wr {
            let is_among_them = |number: u32| number.wrapping_sub(released) < used;
            if !send.last_signalled.is_some_and(is_among_them) {
                misuse::tell(
                    context,
                    format_args!(
                        "the {used} requests in the send queue of queue pair {} are all unsignalled, \
                         so no completion ever frees their places",
                        self.number
                    ),
                );
            }
            return Err(Errno::NO_MEMORY);
        }
        request.number = send.next;
        send.next = send.next.wrapping_add(1);
        let is_signalled = self.signals_all || request.is(send_flag::SIGNALED);
        if is_signalled {
            send.last_signalled = Some(request.number);
        }
        context.count_posted(&request, is_signalled);
        let is_inline = request.inline.is_some();
        request.modelled = context.model().post(request.len, is_inline);
        region::use_pieces(context.fabric(), &request.pieces, region::begin);
        send.requests.push_back(request);
        Ok(())
    }

    /// Copies the data of a request that is to carry it inline.
    fn take_inline(&self, how: InlineData, request: &mut Request) -> Result<()> {
        if request.fetches() || request.len > self.limits.max_inline_data.into() {
            return Err(Errno::INVALID);
        }
        match how {
            InlineData::Ignored => return Ok(()),
            InlineData::Refused(more_than) if request.len > more_than.into() => {
                return Err(Errno::INVALID);
            }
            InlineData::Carried | InlineData::Refused(_) => {}
        }
        let mut data = Vec::with_capacity(request.len as usize);
        // A piece without bytes may have any address.
        for piece in request.pieces.drain(..).filter(|piece| piece.length > 0) {
            let address = piece.addr as usize as *const u8;
            // SAFETY: the program says that its data is there; a driver copies it in the same way.
            let bytes = unsafe { std::slice::from_raw_parts(address, piece.length as usize) };
            data.extend_from_slice(bytes);
        }
        request.inline = Some(data.into_boxed_slice());
        Ok(())
    }

    /// Takes a receive request.
    pub(crate) fn post_receive(
        &self,
        context: &Context,
        request: &ibv_recv_wr,
        pieces: &[ibv_sge],
    ) -> Result<()> {
        context.settings().failures.of_call(Call::PostRecv)?;
        let entry = self.entry(context);
        // As above: only a queue pair in Reset takes none.
        if entry.state() == State::Reset || pieces.len() > self.limits.max_recv_sge as usize {
            return Err(Errno::INVALID);
        }
        let posted = entry.posted.load(Ordering::Acquire);
        if posted.wrapping_sub(self.taken.load(Ordering::Acquire)) >= self.limits.max_recv_wr {
            return Err(Errno::NO_MEMORY);
        }
        let place = context.fabric().receive(self.number, posted);
        place.id.store(request.wr_id, Ordering::Relaxed);
        place
            .piece_count
            .store(pieces.len() as u32, Ordering::Relaxed);
        for (to, piece) in place.pieces.iter().zip(pieces) {
            to.address.store(piece.addr, Ordering::Relaxed);
            to.len.store(piece.length, Ordering::Relaxed);
            to.key.store(piece.lkey, Ordering::Relaxed);
        }
        region::use_pieces(context.fabric(), pieces, region::begin);
        entry
            .posted
            .store(posted.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// The memory of a receive request.
    pub(crate) fn receive_pieces(&self, context: &Context, at: u32) -> Vec<ibv_sge> {
        pieces_of(context.fabric().receive(self.number, at))
    }
}

pub(crate) fn pieces_of(receive: &Receive) -> Vec<ibv_sge> {
    let count = receive.piece_count.load(Ordering::Relaxed) as usize;
    let pieces = receive.pieces.iter().take(count);
    let piece = |piece: &Piece| ibv_sge {
        addr: piece.address.load(Ordering::Relaxed),
        length: piece.len.load(Ordering::Relaxed),
        lkey: piece.key.load(Ordering::Relaxed),
    };
    pieces.map(piece).collect()
}

/// Whether the kernel finds a way to an address: on Ethernet, from a GID of the port's table, and by one family.
fn has_way(context: &Context, to: &ibv_ah_attr) -> bool {
    if context.link() == Link::InfiniBand {
        return true;
    }
    let gids = context.identity().gids();
    let from = gids.get(usize::from(to.sgid_index));
    to.is_global != 0 && from.is_some_and(|from| from.is_ipv4() == to.dgid.is_ipv4())
}

/// The limits of a queue pair: at least what is asked for, with queues of a power of two as in the drivers.
fn granted(context: &Context, wanted: ibv_qp_cap) -> Result<ibv_qp_cap> {
    let personality = context.personality();
    let most = ibv_qp_cap {
        max_send_wr: personality.send_queue,
        max_recv_wr: RECEIVES as u32,
        max_send_sge: personality.pieces,
        max_recv_sge: RECEIVE_PIECES as u32,
        max_inline_data: personality.inline,
    };
    if wanted.max_send_wr > most.max_send_wr
        || wanted.max_recv_wr > most.max_recv_wr
        || wanted.max_send_sge > most.max_send_sge
        || wanted.max_recv_sge > most.max_recv_sge
        || wanted.max_inline_data > most.max_inline_data
    {
        return Err(Errno::INVALID);
    }
    Ok(ibv_qp_cap {
        max_send_wr: wanted.max_send_wr.next_power_of_two().min(most.max_send_wr),
        max_recv_wr: wanted.max_recv_wr.next_power_of_two().min(most.max_recv_wr),
        max_send_sge: wanted.max_send_sge.max(1),
        ..wanted
    })
}
