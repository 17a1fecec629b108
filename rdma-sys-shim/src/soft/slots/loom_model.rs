//! Every interleaving of origins and an agent: what is asked is answered once, nobody touches a slot
//! that is another's, and nobody sleeps for ever. A wake-up that is lost is a deadlock here, since
//! sleep has no limit.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicU32 as Counter, Ordering::Relaxed};
use loom::thread;

use super::*;
use crate::device::LIVENESS_INTERVAL;

/// The slots of one process, with one word of data each.
struct Queue {
    bell: Bell,
    assist: AssistWords,
    slots: Vec<Slot>,
    data: Vec<UnsafeCell<u64>>,
    served: Counter,
}

impl Slots for Queue {
    fn bell(&self) -> &Bell {
        &self.bell
    }

    fn assist(&self) -> &AssistWords {
        &self.assist
    }

    fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }
}

// SAFETY: the data of a slot belongs to whoever the slot's state says: that is what the models find
// out, since loom's cell notices when two threads use it at once.
unsafe impl Sync for Queue {}

fn slot() -> Slot {
    let word = || AtomicU64::new(0);
    Slot {
        state: AtomicU32::new(IDLE),
        operation: AtomicU32::new(0),
        width: AtomicU32::new(0),
        offered: AtomicU32::new(0),
        sleeping: AtomicU32::new(0),
        len: AtomicU32::new(0),
        rkey: word(),
        address: word(),
        operands: [word(), word(), word()],
        owner: word(),
    }
}

impl Queue {
    fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self {
            bell: Bell {
                running: AtomicU32::new(1),
                ready: AtomicU32::new(0),
                rung: AtomicU32::new(0),
                sleeping: AtomicU32::new(0),
            },
            assist: AssistWords {
                lent: AtomicU32::new(0),
                called: AtomicU32::new(0),
                asleep: AtomicU32::new(0),
                passed: AtomicU32::new(0),
            },
            slots: (0..slots).map(|_| slot()).collect(),
            data: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
            served: Counter::new(0),
        })
    }

    /// A slot with a request for twice this number.
    fn claim(&self, number: u64) -> usize {
        let count = self.slots.len();
        let index = loop {
            match claim(self, count, number as usize % count, number + 1) {
                Some(index) => break index,
                None => thread::yield_now(),
            }
        };
        self.slot(index).len.store(number as u32, Relaxed);
        // SAFETY: the slot is claimed.
        self.data[index].with_mut(|data| unsafe { *data = number });
        index
    }

    fn take(&self, index: usize, number: u64, answer: Option<u64>) {
        assert_eq!(answer, Some(2 * number), "another's answer");
        // SAFETY: the slot is answered.
        self.data[index].with(|data| assert_eq!(unsafe { *data }, 3 * number));
        give_back(self.slot(index));
    }

    /// An origin offers its number, and takes it back if it is not served at once. False: it was not.
    fn offer(&self, number: u64) -> bool {
        let index = self.claim(number);
        offer(self.slot(index), milliseconds());
        let offered = collect(self, index, || false, || Ok(())).expect("nobody is gone");
        match offered {
            Offered::Answered(answer) => {
                self.take(index, number, answer);
                true
            }
            Offered::TakenBack => {
                // SAFETY: the slot is the origin's again.
                self.data[index].with_mut(|data| unsafe {
                    assert_eq!(*data, number, "it was carried out");
                    *data = 0;
                });
                give_back(self.slot(index));
                false
            }
        }
    }

    /// What a thread that assists does again and again.
    fn lend(&self) {
        let carry_out = |index, slot: &Slot| self.carry_out(index, slot);
        serve_offered(self, 0..self.slots.len(), carry_out);
    }

    /// An origin asks for twice its number, once. False: there was no agent.
    fn ask(&self, number: u64) -> bool {
        let index = self.claim(number);
        match exchange(self, index, || Ok(())) {
            Ok(answer) => {
                self.take(index, number, answer);
                true
            }
            Err(unanswered) => {
                assert_eq!(unanswered, Unanswered::NoAgent);
                false
            }
        }
    }

    fn carry_out(&self, index: usize, slot: &Slot) -> Option<u64> {
        let number = slot.len.load(Relaxed).into();
        // SAFETY: the slot is being served.
        self.data[index].with_mut(|data| unsafe {
            assert_eq!(*data, number, "data of another request");
            *data = 3 * number;
        });
        self.served.fetch_add(1, Relaxed);
        Some(2 * number)
    }

    /// The agent, until it has served so many.
    fn serve(&self, requests: u32) {
        let mut round_robin = RoundRobin::default();
        while self.served.load(Relaxed) < requests {
            if !serve_ready(self, &mut round_robin, |index, slot| {
                self.carry_out(index, slot)
            }) {
                self.bell.sleep(LIVENESS_INTERVAL);
            }
        }
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn one_origin_asks_twice() {
    check(4, || {
        let queue = Queue::new(1);
        let origin = thread::spawn({
            let queue = queue.clone();
            move || assert!(queue.ask(1) && queue.ask(2))
        });
        queue.serve(2);
        origin.join().expect("the origin");
    });
}

#[test]
fn two_origins_share_slots() {
    two_origins(2);
}

#[test]
fn two_origins_use_one_slot_in_succession() {
    two_origins(1);
}

fn two_origins(slots: usize) {
    check(2, move || {
        let queue = Queue::new(slots);
        let origins: Vec<_> = [1, 2]
            .map(|number| {
                let queue = queue.clone();
                thread::spawn(move || assert!(queue.ask(number)))
            })
            .into();
        queue.serve(2);
        for origin in origins {
            origin.join().expect("an origin");
        }
    });
}

/// Each request is answered, or taken back and not carried out.
#[test]
fn an_agent_that_leaves_serves_or_lets_go() {
    check(3, || {
        let queue = Queue::new(1);
        let origin = thread::spawn({
            let queue = queue.clone();
            move || queue.ask(1)
        });
        serve_ready(&*queue, &mut RoundRobin::default(), |index, slot| {
            queue.carry_out(index, slot)
        });
        leave(&*queue, |index, slot| queue.carry_out(index, slot));
        let answered = origin.join().expect("the origin");
        assert_eq!(queue.served.load(Relaxed), answered.into());
        assert_eq!(queue.slots[0].owner.load(Relaxed), 0, "it is free");
    });
}

/// What is offered is carried out once, or taken back and not carried out, whoever looks at it.
#[test]
fn an_offer_is_taken_up_or_taken_back() {
    check(3, || {
        let queue = Queue::new(1);
        let assist: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || queue.lend())
            })
            .collect();
        let served = [1, 2].map(|number| u32::from(queue.offer(number)));
        for assist in assist {
            assist.join().expect("the assisting thread");
        }
        assert_eq!(queue.served.load(Relaxed), served.iter().sum());
        assert_eq!(queue.slots[0].owner.load(Relaxed), 0, "it is free");
    });
}

/// One origin asks an agent that leaves, which an assisting thread forestalls or does not, and another offers in the same slot.
#[test]
fn assist_and_an_agent_share_slots() {
    check(3, || {
        let queue = Queue::new(1);
        let agent = thread::spawn({
            let queue = queue.clone();
            move || leave(&*queue, |index, slot| queue.carry_out(index, slot))
        });
        let asker = thread::spawn({
            let queue = queue.clone();
            move || queue.ask(1)
        });
        queue.lend();
        let offered = u32::from(queue.offer(2));
        let asked = u32::from(asker.join().expect("the one who asks"));
        agent.join().expect("the agent");
        assert_eq!(queue.served.load(Relaxed), asked + offered);
        assert_eq!(queue.slots[0].owner.load(Relaxed), 0, "it is free");
    });
}

/// Two clean up after one that died, while a live one gets the slot as soon as it is free.
#[test]
fn cleaners_free_what_is_the_dead_ones_and_nothing_else() {
    const DEAD: u64 = 99;
    check(3, || {
        let queue = Queue::new(1);
        let index = claim(&*queue, 1, 0, DEAD).expect("it is free");
        offer(queue.slot(index), milliseconds());
        let cleaners: Vec<_> = (100..102)
            .map(|cleaner| {
                let queue = queue.clone();
                thread::spawn(move || free_if_dead(queue.slot(0), cleaner, |owner| owner == DEAD))
            })
            .collect();
        if let Some(index) = claim(&*queue, 1, 0, 1) {
            offer(queue.slot(index), milliseconds());
            let offered = collect(&*queue, index, || false, || Ok(()));
            assert_eq!(
                offered,
                Ok(Offered::TakenBack),
                "it was taken from a live one"
            );
            give_back(queue.slot(index));
        }
        for cleaner in cleaners {
            cleaner.join().expect("a cleaner");
        }
        assert_eq!(queue.slots[0].owner.load(Relaxed), 0, "it is free");
    });
}
