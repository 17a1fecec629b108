//! The target's side of an adapter: what it checks, and what it does to memory.
//!
//! The thread of the *sender* does this work, on the memory of the target's process, while it holds the lock of the
//! target's adapter. So the target's process need not run, as with a real adapter; atomics are atomic to all other
//! operations of this adapter and to nothing else. What is allowed follows from the target's entries in the fabric, and
//! never from what the sender knows: its key may be of a region that no longer exists, or of another protection domain.

use std::sync::atomic::Ordering;

use crate::abi::{Event, Status, access, completion, ibv_sge, send_flag};
use crate::completion::lock;
use crate::context::Context;
use crate::fabric::{PairEntry, Receive};
use crate::misuse;
use crate::personality::Link;
use crate::placement::{Destination, Posted};
use crate::process::{self, Refusal};
use crate::queue_pair::{QueuePair, Route, State, pieces_of};
use crate::region::{self, Wanted};
use crate::request::{Operation, Request};

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ended(Status),
    /// Nobody answers.
    NoAnswer,
    /// There is no receive request; the target's timer says when to ask again.
    NotReady(u32),
}

impl Outcome {
    const REFUSED: Self = Self::Ended(Status::RemoteAccess);
    const SENSELESS: Self = Self::Ended(Status::RemoteInvalidRequest);
}

/// The most bytes that a write places as a whole where it is placed in parts.
const PAGE: u32 = 4096;

pub(crate) fn carry_out(context: &Context, pair: &QueuePair, request: &Request) -> Outcome {
    if request.len > context.personality().max_message.into() {
        return Outcome::Ended(Status::LocalLength);
    }
    let right = if request.fetches() {
        access::LOCAL_WRITE
    } else {
        0
    };
    if !region::allows_all(context, pair.domain, &request.pieces, right) {
        return Outcome::Ended(Status::LocalProtection);
    }
    let route = *lock(&pair.route);
    let target = Target::of(context, &route);
    if context.port_is_down(context.adapter()) || context.port_is_down(target.adapter) {
        return Outcome::NoAnswer;
    }
    let mut posted = context.fabric().adapter(target.adapter).posted.lock();
    let has_data = request.len > 0 && context.personality_of(target.adapter).late.is_zero();
    if !target.answers(pair, &route) || !has_data && !target.is_alive() {
        return Outcome::NoAnswer;
    }
    if request.fetches() {
        target.check_reads(pair, route.attributes.max_rd_atomic.into());
    }
    let (outcome, answer) = target.serve(&mut posted, request);
    drop(posted);
    match (outcome, answer) {
        (Outcome::Ended(Status::Success), Some(answer)) => take_answer(context, request, &answer)
            .unwrap_or_else(|refusal| refused(context, "memory of the sender", refusal)),
        (outcome, _) => outcome,
    }
}

/// Whether nothing in a request itself will have it refused. Then its packets may come before those of another one.
pub(crate) fn permits(context: &Context, pair: &QueuePair, request: &Request) -> bool {
    let target = Target::of(context, &lock(&pair.route));
    let right = request.right();
    request.len <= context.personality().max_message.into()
        && region::allows_all(context, pair.domain, &request.pieces, 0)
        && target.entry.access.load(Ordering::Acquire) & right == right
        && target.allows(request.key, request.address, request.len, right)
}

/// Writes the answer of a read or an atomic to the sender's memory: a posted write of its adapter, like any other.
fn take_answer(context: &Context, request: &Request, answer: &[u8]) -> Result<Outcome, Refusal> {
    context.place_own();
    let mut from = 0;
    for piece in &request.pieces {
        let part = &answer[from..from + piece.length as usize];
        // SAFETY: `carry_out` has found that this memory is registered for local writes.
        unsafe { process::write(process::own_thread(), piece.addr, &[process::piece(part)])? };
        from += part.len();
    }
    Ok(Outcome::Ended(Status::Success))
}

fn refused(context: &Context, what: &str, refusal: Refusal) -> Outcome {
    match refusal {
        Refusal::Ended => return Outcome::NoAnswer,
        Refusal::Unmapped => misuse::tell(
            context,
            format_args!(
                "{what} is registered, and no longer mapped: an adapter would access other pages"
            ),
        ),
        Refusal::Forbidden => eprintln!(
            "soft-hca: the system does not let process {} access another process's memory; both must have the same \
             user, and a container's filter must allow process_vm_readv",
            process::own()
        ),
    }
    Outcome::Ended(Status::RemoteOperation)
}

/// The queue pair that a request goes to.
struct Target<'a> {
    context: &'a Context,
    entry: &'a PairEntry,
    number: u32,
    adapter: usize,
}

impl<'a> Target<'a> {
    fn of(context: &'a Context, route: &Route) -> Self {
        let number = route.attributes.dest_qp_num;
        let entry = context.fabric().pair(number);
        Self {
            context,
            entry,
            number,
            adapter: entry.adapter.load(Ordering::Acquire) as usize,
        }
    }

    /// Whether packets of this sender reach it, and are expected.
    fn answers(&self, pair: &QueuePair, route: &Route) -> bool {
        let order = Ordering::Acquire;
        let attributes = &route.attributes;
        self.entry.number.load(order) == self.number
            && self.entry.state().responds()
            && self.entry.peer.load(order) == pair.number
            && (self.entry.receive_psn.load(order) ^ attributes.sq_psn) & 0xff_ffff == 0
            && self.is_addressed(route)
    }

    /// Tells once if the sender may have more reads and atomics under way than the target serves.
    fn check_reads(&self, pair: &QueuePair, sent: u32) {
        let served = self.entry.reads_in.load(Ordering::Relaxed);
        if sent > served && !pair.is_told_of_reads.swap(true, Ordering::Relaxed) {
            misuse::tell(
                self.context,
                format_args!(
                    "queue pair {} may have {sent} reads and atomics under way, and its peer serves {served}",
                    pair.number
                ),
            );
        }
    }

    /// Whether the address is that of the target's adapter.
    fn is_addressed(&self, route: &Route) -> bool {
        let to = &route.attributes.ah_attr;
        let identity = self.context.identity_of(self.adapter);
        match self.context.personality().link {
            Link::InfiniBand => to.dlid == identity.lid(),
            Link::Ethernet => to.is_global != 0 && identity.gids().contains(&to.dgid),
        }
    }

    /// Requests that copy no data to its memory do not show whether the process lives, so a byte of it is read.
    fn is_alive(&self) -> bool {
        let order = Ordering::Acquire;
        let place = self.entry.context.load(order) as usize;
        let pulse = self.context.fabric().context(place).pulse.load(order);
        let mut byte = [0];
        // SAFETY: the array outlives the call; the target has the address of a constant of its library there.
        let read = unsafe { process::read(self.thread(), pulse, &[process::piece_mut(&mut byte)]) };
        read != Err(Refusal::Ended)
    }

    /// The thread of the target's device.
    fn thread(&self) -> i32 {
        let place = self.entry.context.load(Ordering::Acquire) as usize;
        self.context
            .fabric()
            .context(place)
            .thread
            .load(Ordering::Acquire)
    }

    /// Carries a request out. The second part is the data of the answer.
    fn serve(&self, posted: &mut Posted, request: &Request) -> (Outcome, Option<Vec<u8>>) {
        if self.entry.access.load(Ordering::Acquire) & request.right() != request.right() {
            return (self.fail(Event::QpReqErr, Outcome::SENSELESS), None);
        }
        if request.is_atomic() && !request.address.is_multiple_of(8) {
            return (self.fail(Event::QpReqErr, Outcome::SENSELESS), None);
        }
        let receive = match request.is_received().then(|| self.next_receive()) {
            Some(None) => {
                let timer = self.entry.receive_timer.load(Ordering::Relaxed);
                return (Outcome::NotReady(timer), None);
            }
            receive => receive.flatten(),
        };
        // 9.7.4.1.5 of the specification: without data, no key is checked.
        let names_memory = request.operation != Operation::Send && request.len > 0;
        if names_memory && !self.allows(request.key, request.address, request.len, request.right())
        {
            return (self.fail(Event::QpAccessErr, Outcome::REFUSED), None);
        }
        let done = match request.operation {
            Operation::Read => self.read(posted, request),
            Operation::CompareSwap { .. } | Operation::FetchAdd(_) => {
                self.update(posted, request).map(Some)
            }
            Operation::Write => self.write(posted, request).map(|()| None),
            Operation::Send => Ok(None),
        };
        let answer = match done {
            Ok(answer) => answer,
            Err(refusal) => return (refused(self.context, "memory of the target", refusal), None),
        };
        let outcome = match receive {
            Some(receive) => self.fill(posted, request, receive),
            None => Outcome::Ended(Status::Success),
        };
        (outcome, answer)
    }

    fn allows(&self, key: u32, address: u64, len: u64, rights: u32) -> bool {
        let order = Ordering::Acquire;
        let wanted = Wanted {
            process: self.entry.owner.process(),
            adapter: self.adapter as u32,
            domain: self.entry.domain.load(order),
            rights,
        };
        region::allows(self.context.fabric(), key, address, len, wanted)
    }

    /// Puts the target's queue pair in error, as a request that it refuses does.
    fn fail(&self, event: Event, outcome: Outcome) -> Outcome {
        self.entry.set_state(State::Error);
        let event = event as u32 + 1;
        self.entry.event.store(event, Ordering::Release);
        self.call();
        outcome
    }

    /// Calls the thread of the target's device.
    fn call(&self) {
        let order = Ordering::AcqRel;
        let place = self.entry.context.load(Ordering::Acquire) as usize;
        let entry = self.context.fabric().context(place);
        entry.attention.fetch_add(1, order);
        entry.ring();
    }

    fn write(&self, posted: &mut Posted, request: &Request) -> Result<(), Refusal> {
        let inline = request.inline.as_ref().map(|data| [process::piece(data)]);
        let pieces = inline.as_ref().map_or(&*request.pieces, |piece| piece);
        let personality = self.context.personality_of(self.adapter);
        let delay = personality.late;
        if !delay.is_zero() {
            self.context.note_late(self.adapter);
        }
        let mut place = |address, piece: &[ibv_sge]| {
            let to = Destination {
                thread: self.thread(),
                address,
            };
            // SAFETY: `carry_out` has checked the sender's pieces, unless they are the request's own copy, and `serve`
            // that the target's memory is registered for remote writes.
            unsafe { posted.accept(to, piece, delay) }
        };
        if !personality.split {
            return place(request.address, pieces);
        }
        let mut address = request.address;
        for piece in pieces {
            let len = piece.length;
            let half = if len > PAGE {
                (len / 2).next_multiple_of(PAGE) % len
            } else {
                0
            };
            let rest = ibv_sge {
                addr: piece.addr + u64::from(half),
                length: len - half,
                ..*piece
            };
            place(address + u64::from(half), &[rest])?;
            if half > 0 {
                place(
                    address,
                    &[ibv_sge {
                        length: half,
                        ..*piece
                    }],
                )?;
            }
            address += u64::from(len);
        }
        Ok(())
    }

    /// A read sees everything that was written before it. Its data goes to the sender's memory at once, unless writes
    /// of the sender's adapter may still be on their way there.
    fn read(&self, posted: &mut Posted, request: &Request) -> Result<Option<Vec<u8>>, Refusal> {
        posted.place_all();
        if self.context.personality().late.is_zero() {
            // SAFETY: `serve` has found the target's memory registered for reads, and `carry_out` the sender's for
            // local writes.
            unsafe { process::read(self.thread(), request.address, &request.pieces)? };
            return Ok(None);
        }
        let mut data = vec![0; request.len as usize];
        let to = [process::piece_mut(&mut data)];
        // SAFETY: as above, to a buffer that outlives the call.
        unsafe { process::read(self.thread(), request.address, &to)? };
        Ok(Some(data))
    }

    fn update(&self, posted: &mut Posted, request: &Request) -> Result<Vec<u8>, Refusal> {
        posted.place_all();
        let mut old = [0; 8];
        let to = [process::piece_mut(&mut old)];
        // SAFETY: `serve` has found the target's memory registered for atomics; the buffer outlives the call.
        unsafe { process::read(self.thread(), request.address, &to)? };
        let value = u64::from_ne_bytes(old);
        let new = match request.operation {
            Operation::FetchAdd(operand) => value.wrapping_add(operand),
            Operation::CompareSwap { expect, new } if value == expect => new,
            _ => value,
        };
        if new != value {
            let new = new.to_ne_bytes();
            // SAFETY: as above.
            unsafe { process::write(self.thread(), request.address, &[process::piece(&new)])? };
        }
        if self.context.personality().big_endian {
            old = value.to_be_bytes();
        }
        Ok(old.to_vec())
    }

    /// The receive request that is next, if there is one.
    fn next_receive(&self) -> Option<&Receive> {
        let order = Ordering::Acquire;
        let filled = self.entry.filled.load(order);
        let is_there = self.entry.posted.load(order) != filled;
        is_there.then(|| self.context.fabric().receive(self.number, filled))
    }

    /// Has a request end a receive request, with its data if it is a send.
    fn fill(&self, posted: &mut Posted, request: &Request, receive: &Receive) -> Outcome {
        use Ordering::{Relaxed, Release};
        let is_send = request.operation == Operation::Send;
        let (status, outcome) = match is_send.then(|| self.deliver(posted, request, receive)) {
            None | Some(Ok(())) => (Status::Success, Outcome::Ended(Status::Success)),
            Some(Err((status, outcome))) => (status, outcome),
        };
        receive.status.store(status as u32, Relaxed);
        let opcode = match is_send {
            true => completion::RECV,
            false => completion::RECV_RDMA_WITH_IMM,
        };
        receive.opcode.store(opcode as u32, Relaxed);
        receive.len.store(request.len as u32, Relaxed);
        receive
            .immediate
            .store(request.immediate.unwrap_or(0), Relaxed);
        let with = if request.immediate.is_some() {
            completion::WITH_IMM
        } else {
            0
        };
        let solicited = request.flags & send_flag::SOLICITED;
        receive.flags.store(with | solicited << 16, Relaxed);
        self.entry.filled.fetch_add(1, Release);
        if status != Status::Success {
            self.entry.set_state(State::Error);
        }
        self.call();
        outcome
    }

    /// Writes what is sent to the memory of a receive request. On failure: how each side's request ends.
    fn deliver(
        &self,
        posted: &mut Posted,
        request: &Request,
        receive: &Receive,
    ) -> Result<(), (Status, Outcome)> {
        let room = pieces_of(receive);
        let total: u64 = room.iter().map(|piece| u64::from(piece.length)).sum();
        if request.len > total {
            return Err((Status::LocalLength, Outcome::SENSELESS));
        }
        let is_allowed = |piece: &ibv_sge| {
            let len = piece.length.into();
            len == 0 || self.allows(piece.lkey, piece.addr, len, access::LOCAL_WRITE)
        };
        let failed = Outcome::Ended(Status::RemoteOperation);
        if !room.iter().all(is_allowed) {
            return Err((Status::LocalProtection, failed));
        }
        let mut data = vec![0; request.len as usize];
        let mut copy = || {
            match &request.inline {
                Some(inline) => data.copy_from_slice(inline),
                None => {
                    let mut rest = &mut *data;
                    for piece in &request.pieces {
                        let (part, behind) = rest.split_at_mut(piece.length as usize);
                        let to = [process::piece_mut(part)];
                        // SAFETY: `carry_out` has found this memory registered; the buffer outlives the call.
                        unsafe { process::read(process::own_thread(), piece.addr, &to)? };
                        rest = behind;
                    }
                }
            }
            posted.place_all();
            let mut rest = &*data;
            for piece in &room {
                let (part, behind) = rest.split_at(rest.len().min(piece.length as usize));
                // SAFETY: it was checked above that this memory is registered for local writes.
                unsafe { process::write(self.thread(), piece.addr, &[process::piece(part)])? };
                rest = behind;
            }
            Ok(())
        };
        copy().map_err(|refusal| {
            let outcome = refused(self.context, "memory of a receive request", refusal);
            (Status::LocalProtection, outcome)
        })
    }
}
