//! In which call a thread is, and that it waits there.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use super::counters::{Counters, Tally};
use super::{counts_waits, trace};

/// The call to which a thread's waits are attributed.
#[derive(Clone)]
struct Call {
    name: &'static str,
    target: Option<u32>,
    counters: Option<Arc<Counters>>,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
    /// Whether this thread waits. Nested waits are part of the outer one.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call.
pub(super) fn is_in_call() -> bool {
    CALL.try_with(|call| call.borrow().is_some())
        .unwrap_or(true)
}

/// Kept while a thread is in a call.
pub(crate) struct InCall {
    outer: Option<Call>,
    /// When it began, if the trace shows it.
    begun: Option<Instant>,
    /// It belongs to one thread.
    _thread: PhantomData<*const ()>,
}

impl InCall {
    /// `shown`: whether the trace shows it.
    pub(crate) fn enter(
        name: &'static str,
        target: Option<u32>,
        counters: Option<&Arc<Counters>>,
        shown: bool,
    ) -> Self {
        let call = Call {
            name,
            target,
            counters: counters.cloned(),
        };
        Self {
            // When a thread ends, the thread-local may be gone.
            outer: CALL
                .try_with(|inner| inner.replace(Some(call)))
                .ok()
                .flatten(),
            begun: (shown && trace::is_on()).then(Instant::now),
            _thread: PhantomData,
        }
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        let outer = self.outer.take();
        let call = CALL.try_with(|inner| inner.replace(outer)).ok().flatten();
        if let (Some(begun), Some(call)) = (self.begun, call) {
            let window = call.counters.as_deref().map(Counters::title);
            trace::slice(call.name, "call", begun, window, call.target);
        }
    }
}

/// Waits outside of windows: in communicators, and for connections to peers.
pub(super) static ELSEWHERE: Tally = Tally::new();

/// Kept while a thread waits.
pub(crate) struct Waiting(Option<Begun>);

struct Begun {
    at: Instant,
    /// Whether the trace already has its beginning.
    told: bool,
}

impl Waiting {
    /// Costs one load if waits are not counted.
    #[inline]
    pub(crate) fn begin() -> Self {
        match counts_waits() {
            true => Self::begin_counted(),
            false => Self(None),
        }
    }

    #[cold]
    fn begin_counted() -> Self {
        let waits_already = WAITS.try_with(|waits| waits.replace(true)).unwrap_or(true);
        Self((!waits_already).then(|| Begun {
            at: Instant::now(),
            told: false,
        }))
    }

    /// The wait is about to sleep. If this process is killed, the trace shows what it waited for.
    pub(crate) fn is_long(&mut self) {
        if let Some(begun) = &mut self.0
            && !begun.told
            && trace::is_on()
        {
            begun.told = true;
            with_call(|name, target, counters| {
                trace::begin_wait(name, begun.at, counters.map(Counters::title), target);
            });
            trace::flush();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(begun) = self.0.take() else {
            return;
        };
        let _ = WAITS.try_with(|waits| waits.set(false));
        let time = begun.at.elapsed();
        with_call(|name, target, counters| {
            let waits = counters.map_or(&ELSEWHERE, |counters| &counters.waits);
            waits.add_wait(time);
            if begun.told {
                trace::end_wait(name);
            } else if trace::is_on() {
                trace::slice(
                    name,
                    "wait",
                    begun.at,
                    counters.map(Counters::title),
                    target,
                );
            }
        });
    }
}

fn with_call(act: impl FnOnce(&str, Option<u32>, Option<&Counters>)) {
    let call = CALL.try_with(|call| call.borrow().clone()).ok().flatten();
    match call {
        Some(call) => {
            let name = format!("wait in {}", call.name);
            act(&name, call.target, call.counters.as_deref());
        }
        None => act("wait", None, None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::terms::Flavor;

    #[test]
    fn a_wait_is_of_the_call_that_it_is_in_and_counts_once() {
        let watches = [1, 2].map(|number| Counters::new(number, Flavor::Allocate));
        let wait = || {
            let _outer = Waiting::begin();
            let _inner = Waiting::begin();
            std::thread::sleep(Duration::from_millis(2));
        };
        let counts = || [0, 1].map(|index: usize| watches[index].statistics().waits.count);
        {
            let _call = InCall::enter("fence", None, Some(&watches[0]), true);
            wait();
            {
                let _within = InCall::enter("lock", Some(1), Some(&watches[1]), true);
                wait();
                assert_eq!(counts(), [1, 1]);
            }
            wait();
        }
        wait();
        assert_eq!(counts(), [2, 1]);
        assert!(watches[0].statistics().waits.time >= Duration::from_millis(4));
        assert!(ELSEWHERE.waits().count >= 1);
    }
}
