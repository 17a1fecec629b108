//! When a wait has lasted so long that the log tells of it.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::must_return::must_return;
use super::unseen::{self, Missed};
use crate::diagnostics;

/// What to report about the wait of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongWait {
    pub(crate) waited: Duration,
    /// Whether to warn; otherwise other ranks only have to be able to read of it.
    pub(crate) warns: bool,
}

thread_local! {
    static DUE: Cell<Option<LongWait>> = const { Cell::new(None) };
    static AT_END: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// For checks, which know the call and the awaited rank: what they have to report about this thread's wait.
pub(crate) fn take_due() -> Option<LongWait> {
    DUE.take()
}

/// Runs `act` when the wait of the present check ends.
pub(crate) fn at_end(act: impl FnOnce() + 'static) {
    AT_END.replace(Some(Box::new(act)));
}

/// One wait. The log reports it after the time that the environment sets, and again each time its duration has doubled.
pub(super) struct Lasting {
    begun: Instant,
    warns_after: Option<Duration>,
    /// The time of the next report.
    next: Duration,
    at_end: Option<Box<dyn FnOnce()>>,
    /// The value of the outer wait.
    outer: Option<Missed>,
}

impl Lasting {
    pub(super) fn new(begun: Instant) -> Self {
        Self::warned_of(begun, diagnostics::warns_of_waits_after())
    }

    fn warned_of(begun: Instant, warns_after: Option<Duration>) -> Self {
        Self {
            begun,
            warns_after,
            // Half of the time, so that the awaited rank has published its own wait before any rank warns.
            next: warns_after.unwrap_or_default() / 2,
            at_end: None,
            outer: unseen::begin(),
        }
    }

    /// Calls `check`, which reports the wait if that is due.
    pub(super) fn check<T, E>(
        &mut self,
        now: Instant,
        check: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        DUE.set(self.due(now - self.begun));
        // Its messages go to the program's log.
        let answer = must_return("a look at the awaited rank, or the program's log,", || {
            let answer = check();
            if let Some(LongWait {
                waited,
                warns: true,
            }) = DUE.take()
                && answer.is_ok()
            {
                let waited = in_words(waited);
                let text = format!("has waited {waited} for an operation of the device");
                diagnostics::warn_of_wait(&text, true);
            }
            answer
        });
        if let Some(act) = AT_END.take() {
            self.at_end = Some(act);
        }
        answer
    }

    fn due(&mut self, waited: Duration) -> Option<LongWait> {
        let first = self.warns_after.filter(|_| waited >= self.next)?;
        let warns = waited >= first;
        self.next = self.next.max(first / 2);
        while self.next <= waited {
            self.next *= 2;
        }
        Some(LongWait { waited, warns })
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        unseen::end(self.outer.take());
        if let Some(act) = self.at_end.take() {
            act();
        }
    }
}

pub(crate) fn in_words(waited: Duration) -> String {
    match waited.as_secs() {
        0 => format!("{} ms", waited.as_millis()),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_warned_of_ever_more_seldom() {
        let first = Some(Duration::from_secs(10));
        let mut lasting = Lasting::warned_of(Instant::now(), first);
        let mut told = Vec::new();
        for second in 0..200 {
            if let Some(due) = lasting.due(Duration::from_secs(second)) {
                told.push((due.waited.as_secs(), due.warns));
            }
        }
        let expected = [
            (5, false),
            (10, true),
            (20, true),
            (40, true),
            (80, true),
            (160, true),
        ];
        assert_eq!(told, expected);
        let late = Duration::from_secs(50);
        let mut lasting = Lasting::warned_of(Instant::now(), first);
        assert!(
            lasting.due(late).unwrap().warns,
            "whose first check comes late"
        );
        assert_eq!(lasting.due(Duration::from_secs(79)), None);
        assert!(lasting.due(Duration::from_secs(80)).is_some());
        assert_eq!(Lasting::warned_of(Instant::now(), None).due(late), None);
    }

    #[test]
    fn what_a_check_leaves_is_done_when_its_wait_ends() {
        use std::rc::Rc;
        let done = Rc::new(Cell::new(false));
        let begun = Instant::now();
        let mut lasting = Lasting::warned_of(begun, Some(Duration::from_secs(2)));
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(lasting.check(at(0), || Ok::<_, ()>(take_due())), Ok(None));
        let act = done.clone();
        let told = lasting.check(at(1), || {
            assert!(!take_due().unwrap().warns);
            at_end(move || act.set(true));
            Ok::<_, ()>(())
        });
        assert_eq!(told, Ok(()));
        {
            let _other = Lasting::warned_of(begun, None);
        }
        assert!(!done.get());
        drop(lasting);
        assert!(done.get());
    }
}
