//! The thread of an open device: it takes requests from send queues, has them carried out, and reports how they end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::abi::{Event, Status, completion, ibv_wc, send_flag};
use crate::completion::{Release, lock};
use crate::context::Context;
use crate::failure::Fate;
use crate::misuse;
use crate::placement::until;
use crate::process;
use crate::queue_pair::{Attempt, QueuePair, State, pieces_of};
use crate::region;
use crate::request::{Operation, Request};
use crate::responder::{self, Outcome};
use crate::sysfs;

/// How long the thread sleeps without a bell, if nothing is due earlier.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// How long after the bell it begins: programs that poll have their requests carried out before.
const DELAY: Duration = Duration::from_micros(20);
/// How long a request waits that has no answer, before it is sent again.
const RESEND: Duration = Duration::from_micros(200);
/// The most requests of a queue pair that are carried out before others have their turn.
const AT_ONCE: u32 = 64;

/// Serves a device until it is closed.
pub(crate) fn run(context: &Context) {
    let own = process::own_thread();
    context.entry().thread.store(own, Ordering::Release);
    let mut blocked: Vec<Arc<QueuePair>> = Vec::new();
    let mut port_is_down = false;
    while !context.is_closed() {
        let seen = context.entry().rings();
        let mut sleep = LONGEST_SLEEP;
        let mut is_busy = hear_all(context);
        let mut still_blocked = Vec::new();
        for pair in context.take_listed().chain(blocked) {
            match serve(context, &pair) {
                Served::All(progress) => is_busy |= progress,
                Served::Blocked(wait) => {
                    sleep = sleep.min(wait);
                    if !still_blocked.iter().any(|other| Arc::ptr_eq(other, &pair)) {
                        still_blocked.push(pair);
                    }
                }
            }
        }
        blocked = still_blocked;
        let down = context.port_is_down(context.adapter());
        if down != port_is_down {
            port_is_down = down;
            let event = if down {
                Event::PortErr
            } else {
                Event::PortActive
            };
            context.report(event, 1);
        }
        if let Some(due) = context.place_due() {
            sleep = sleep.min(due);
        }
        if is_busy || sleep.is_zero() {
            std::thread::yield_now();
        } else {
            context.entry().sleep(seen, sleep);
            std::thread::sleep(DELAY);
        }
    }
}

/// Does in a thread that polls, and finds nothing, what the device's thread would do: with more threads than
/// processors, that one may not run for milliseconds.
pub(crate) fn help(context: &Context) {
    let mut is_idle = !hear_all(context);
    for pair in context.take_listed() {
        is_idle = false;
        if let Served::Blocked(_) = serve(context, &pair) {
            context.list(&pair);
        }
    }
    // What it polls for is another process's work, which may need this processor.
    if is_idle {
        std::thread::yield_now();
    }
}

/// Takes note of what peers have done. Whether there was something.
fn hear_all(context: &Context) -> bool {
    let is_called = context.is_called();
    if is_called {
        for pair in context.pairs() {
            hear(context, &pair);
        }
    }
    is_called
}

enum Served {
    /// Nothing is left; whether there was something.
    All(bool),
    /// Something is left, which can go on after this time.
    Blocked(Duration),
}

fn serve(context: &Context, pair: &QueuePair) -> Served {
    let _served = lock(&pair.served);
    // From here on, who posts a request puts the queue pair on the list again.
    pair.is_listed.store(false, Ordering::SeqCst);
    // It may have been destroyed; then the entry is another's, or nobody's.
    if pair.entry(context).number.load(Ordering::Acquire) != pair.number {
        return Served::All(false);
    }
    for done in 0..AT_ONCE {
        match step(context, pair) {
            Step::Ended => {}
            Step::Nothing => {
                receive(context, pair);
                return Served::All(done > 0);
            }
            Step::Wait(time) => return Served::Blocked(time),
        }
    }
    Served::Blocked(Duration::ZERO)
}

enum Step {
    Ended,
    Nothing,
    Wait(Duration),
}

/// Does what can be done with the oldest request.
fn step(context: &Context, pair: &QueuePair) -> Step {
    let state = pair.entry(context).state();
    let mut send = lock(&pair.send);
    if send.hangs || context.is_gone() {
        return Step::Nothing;
    }
    if state == State::Error {
        let Some(request) = send.requests.pop_front() else {
            return Step::Nothing;
        };
        drop(send);
        end(context, pair, request, Status::Flushed);
        return Step::Ended;
    }
    if state != State::ReadyToSend || send.requests.is_empty() {
        return Step::Nothing;
    }
    let mut attempt = *send.attempt.get_or_insert_with(|| Attempt {
        begun: Instant::now(),
        fate: context.settings().failures.of_request(),
        unanswered: None,
        not_ready: 0,
        again: None,
    });
    let arrives = attempt.begun + context.personality().wire;
    let wait = until(attempt.again.map_or(arrives, |again| arrives.max(again)));
    if !wait.is_zero() {
        return Step::Wait(wait);
    }
    let Some(mut request) = send.requests.pop_front() else {
        return Step::Nothing;
    };
    let mut next = None;
    if request.ended.is_none() && overtakes(context, pair, &request, send.requests.front()) {
        next = send.requests.pop_front();
    }
    drop(send);
    if let Some(next) = &mut next
        && let Outcome::Ended(status) = responder::carry_out(context, pair, next)
    {
        next.ended = Some(status);
    }
    let outcome = match (request.ended, attempt.fate) {
        (Some(status), _) => Outcome::Ended(status),
        (None, fate) => carry_out(context, pair, &request, fate),
    };
    let mut send = lock(&pair.send);
    if let Some(next) = next {
        send.requests.push_front(next);
    }
    if attempt.fate == Some(Fate::Hangs) {
        send.hangs = true;
        send.requests.push_front(request);
        return Step::Nothing;
    }
    let route = *lock(&pair.route);
    let status = match outcome {
        Outcome::Ended(status) => status,
        Outcome::NoAnswer => {
            let since = *attempt.unanswered.get_or_insert_with(Instant::now);
            match route.patience() {
                Some(patience) if since.elapsed() >= patience => Status::RetryExceeded,
                _ => {
                    attempt.again = Some(Instant::now() + RESEND);
                    send.attempt = Some(attempt);
                    send.requests.push_front(request);
                    return Step::Wait(RESEND);
                }
            }
        }
        Outcome::NotReady(timer) => {
            let retries = route.attributes.rnr_retry & 7;
            if retries < FOR_EVER && attempt.not_ready >= retries {
                Status::RnrRetryExceeded
            } else {
                attempt.not_ready = attempt.not_ready.saturating_add(1);
                let wait = receive_timer(timer);
                attempt.again = Some(Instant::now() + wait);
                send.attempt = Some(attempt);
                send.requests.push_front(request);
                return Step::Wait(wait);
            }
        }
    };
    send.attempt = None;
    drop(send);
    request.ended = None;
    end(context, pair, request, status);
    Step::Ended
}

/// The number of retries that means no end, where a receiver is not ready.
const FOR_EVER: u8 = 7;

fn carry_out(
    context: &Context,
    pair: &QueuePair,
    request: &Request,
    fate: Option<Fate>,
) -> Outcome {
    match fate {
        Some(Fate::Unanswered) => return Outcome::NoAnswer,
        Some(Fate::NotReady) => return Outcome::NotReady(1),
        Some(Fate::Refused) => return Outcome::Ended(Status::RemoteAccess),
        Some(Fate::Lost) => context.count_at_port(sysfs::UNACKNOWLEDGED),
        Some(Fate::PortDown) => context.take_port_down(),
        Some(Fate::Gone) => context.be_gone(),
        Some(Fate::Hangs) | None => {}
    }
    responder::carry_out(context, pair, request)
}

/// Whether the next request, which was posted before the first was complete, is carried out first: a write may overtake
/// reads and atomics, and its packets those of another write. What is posted later is behind the first one on PCIe, too.
fn overtakes(context: &Context, pair: &QueuePair, first: &Request, next: Option<&Request>) -> bool {
    let personality = context.personality();
    next.is_some_and(|next| {
        let is_plain_write = next.operation == Operation::Write && !next.is_received();
        let may_pass = match first.operation {
            Operation::Write => {
                personality.any_order && !first.is_received() && !first.overlaps(next)
            }
            Operation::Send => false,
            _ => personality.overtake && !next.is_fenced(),
        };
        is_plain_write
            && may_pass
            && next.ended.is_none()
            && context.chooses(next.number)
            && responder::permits(context, pair, next)
    })
}

/// Reports the end of a request.
fn end(context: &Context, pair: &QueuePair, request: Request, status: Status) {
    region::use_pieces(context.fabric(), &request.pieces, region::end);
    let is_good = status == Status::Success;
    if !is_good {
        pair.entry(context).set_state(State::Error);
    }
    let is_signalled = pair.signals_all || request.is(send_flag::SIGNALED);
    // 10.7.3.1 of the specification: a request that fails is reported in any case.
    if is_good && !is_signalled {
        return;
    }
    let completion = ibv_wc {
        wr_id: request.id,
        status: status as i32,
        // On failure, these are not valid.
        opcode: if is_good { request.completion() } else { 0xee },
        byte_len: if is_good { request.len as u32 } else { 0xdead },
        qp_num: pair.number,
        ..ibv_wc::default()
    };
    let release = Release {
        released: pair.released.clone(),
        up_to: request.number.wrapping_add(1),
    };
    // The entry in the queue is a posted write behind the data that this adapter has placed.
    context.place_own();
    context.counters().completions.add(1);
    if !pair
        .send_completions
        .add(completion, Some(release), false, request.modelled)
    {
        overflow(context, pair, pair.send_completions.handle());
    }
}

fn overflow(context: &Context, pair: &QueuePair, queue: usize) {
    misuse::tell(
        context,
        format_args!(
            "the completion queue of queue pair {} has no room, and loses completions",
            pair.number
        ),
    );
    pair.entry(context).set_state(State::Error);
    context.report(Event::CqErr, queue);
}

/// Takes note of what peers have done to a queue pair.
fn hear(context: &Context, pair: &Arc<QueuePair>) {
    let event = pair.entry(context).event.swap(0, Ordering::AcqRel);
    let known = [Event::QpReqErr, Event::QpAccessErr];
    if let Some(event) = known.into_iter().find(|known| *known as u32 + 1 == event) {
        context.report(event, pair.handle.load(Ordering::Acquire));
    }
    context.list(pair);
}

/// Reports receive requests that have ended.
fn receive(context: &Context, pair: &QueuePair) {
    let entry = pair.entry(context);
    if entry.state() == State::Error {
        flush_receives(context, pair);
    }
    let filled = entry.filled.load(Ordering::Acquire);
    let mut at = pair.taken.load(Ordering::Acquire);
    while at != filled {
        let receive = context.fabric().receive(pair.number, at);
        region::use_pieces(context.fabric(), &pieces_of(receive), region::end);
        let flags = receive.flags.load(Ordering::Relaxed);
        let status = Status::of(receive.status.load(Ordering::Relaxed));
        let completion = ibv_wc {
            wr_id: receive.id.load(Ordering::Relaxed),
            status: status as i32,
            opcode: receive.opcode.load(Ordering::Relaxed) as i32,
            byte_len: receive.len.load(Ordering::Relaxed),
            imm_data: receive.immediate.load(Ordering::Relaxed),
            wc_flags: flags & completion::WITH_IMM,
            qp_num: pair.number,
            src_qp: entry.peer.load(Ordering::Relaxed),
            ..ibv_wc::default()
        };
        at = at.wrapping_add(1);
        pair.taken.store(at, Ordering::Release);
        context.counters().completions.add(1);
        let is_solicited = flags >> 16 & send_flag::SOLICITED != 0;
        if !pair
            .receive_completions
            .add(completion, None, is_solicited, 0)
        {
            overflow(context, pair, pair.receive_completions.handle());
        }
    }
}

/// Ends all receive requests of a queue pair in error.
fn flush_receives(context: &Context, pair: &QueuePair) {
    let entry = pair.entry(context);
    // No sender fills one meanwhile.
    let _responder = context.fabric().adapter(context.adapter()).posted.lock();
    let posted = entry.posted.load(Ordering::Acquire);
    let mut at = entry.filled.load(Ordering::Acquire);
    while at != posted {
        let receive = context.fabric().receive(pair.number, at);
        receive
            .status
            .store(Status::Flushed as u32, Ordering::Relaxed);
        receive
            .opcode
            .store(completion::RECV as u32, Ordering::Relaxed);
        receive.flags.store(0, Ordering::Relaxed);
        at = at.wrapping_add(1);
    }
    entry.filled.store(posted, Ordering::Release);
}

/// How long a sender waits before it asks a receiver again that was not ready: table 45 of the specification.
fn receive_timer(code: u32) -> Duration {
    const TEN_MICROSECONDS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(10 * TEN_MICROSECONDS[code as usize % 32])
}
