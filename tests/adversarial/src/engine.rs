//! The thread that carries out operations. A device has one for all its endpoints.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use rdma_sys_shim::without_signals;
use rdma_sys_shim::{Error, Result};

use crate::late;
use crate::operation::PendingOperation;
use crate::queue::Queue;
use crate::random::Random;
use crate::schedule::Next;

/// For a shorter wait the thread does not sleep.
const NAP: Duration = Duration::from_micros(20);

pub(crate) enum Message {
    Open(u64, Box<Queue>),
    Post(u64, PendingOperation),
    /// A caller waits for the operations of this queue, or of all queues.
    Ask(Option<u64>),
    /// Flush the queue, drop the sender, and access nothing of the queue any more.
    Close(u64, Sender<()>),
}

#[derive(Default)]
struct Shared {
    inbox: SegQueue<Message>,
    asleep: AtomicBool,
    stop: AtomicBool,
    /// The thread has ended, by `stop` or by a panic. After that, the senders empty the inbox.
    ended: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Shared {
    fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn discard(&self) {
        while self.inbox.pop().is_some() {}
    }

    fn sleep(&self, until: Option<Instant>) {
        let pause = until.map(|until| until.saturating_duration_since(Instant::now()));
        if pause.is_some_and(|pause| pause < NAP) {
            thread::yield_now();
            return;
        }
        self.asleep.store(true, Ordering::SeqCst);
        // A message that came before `asleep` was set is seen here. A later one unparks the thread.
        if self.inbox.is_empty() && !self.stop.load(Ordering::SeqCst) {
            match pause {
                Some(pause) => thread::park_timeout(pause),
                None => thread::park(),
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

pub(crate) struct Engine {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The process of the thread. A forked child has no such thread.
    pid: u32,
}

impl Engine {
    pub(crate) fn start(seed: u64) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let spawned = without_signals(|| {
            thread::Builder::new()
                .name("transom-engine".into())
                .spawn(move || run(&theirs, seed))
        });
        Ok(Self {
            shared,
            thread: Some(spawned.map_err(|error| Error::os("starting the engine thread", error))?),
            pid: std::process::id(),
        })
    }

    /// False in a forked child.
    pub(crate) fn is_here(&self) -> bool {
        self.pid == std::process::id()
    }

    pub(crate) fn send(&self, message: Message) {
        self.shared.inbox.push(message);
        self.shared.wake();
        if self.shared.ended.load(Ordering::SeqCst) {
            self.shared.discard();
        }
    }

    /// Returns when the thread no longer accesses the queue.
    pub(crate) fn close(&self, queue: u64) {
        if !self.is_here() {
            return;
        }
        let (sender, closed) = channel();
        self.send(Message::Close(queue, sender));
        // Nothing is ever sent: this returns when the sender is dropped.
        let _ = closed.recv();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        if !self.is_here() {
            // The handle is that of a thread of the parent process.
            std::mem::forget(thread);
            return;
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        let _ = thread.join();
    }
}

/// Ends the engine even if it panics: queues fail, and threads that wait for a message to be processed are released.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.discard();
    }
}

fn run(shared: &Shared, seed: u64) {
    let _ = shared.thread.set(thread::current());
    let _ending = Ending(shared);
    let mut random = Random::new(seed, u64::MAX);
    let mut queues = BTreeMap::<u64, Box<Queue>>::new();
    while !shared.stop.load(Ordering::SeqCst) {
        let now = Instant::now();
        while let Some(message) = shared.inbox.pop() {
            take_in(&mut queues, now, message);
        }
        let mut worked = false;
        let mut next = late::carry_out_due(now);
        let first = random.below(queues.len().max(1) as u64) as usize;
        // Operations of different endpoints are not ordered.
        let (before, after): (Vec<_>, Vec<_>) = queues
            .values_mut()
            .enumerate()
            .partition(|(index, _)| *index < first);
        for (_, queue) in after.into_iter().chain(before) {
            match queue.step(now) {
                Next::Do(_) => worked = true,
                Next::At(moment) => next = Some(next.map_or(moment, |other| other.min(moment))),
                Next::Idle => {}
            }
        }
        if !worked {
            shared.sleep(next);
        }
    }
}

fn take_in(queues: &mut BTreeMap<u64, Box<Queue>>, now: Instant, message: Message) {
    match message {
        Message::Open(number, queue) => {
            queues.insert(number, queue);
        }
        Message::Post(number, operation) => {
            if let Some(queue) = queues.get_mut(&number) {
                queue.post(now, operation);
            }
        }
        Message::Ask(Some(number)) => {
            if let Some(queue) = queues.get_mut(&number) {
                queue.take_on(now);
            }
        }
        Message::Ask(None) => queues.values_mut().for_each(|queue| queue.take_on(now)),
        Message::Close(number, sender) => {
            drop(queues.remove(&number));
            drop(sender);
        }
    }
}
