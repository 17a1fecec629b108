//! Failures by request: calls that return an error, and requests that go wrong.

use std::ffi::c_int;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Errno;

/// A call that can fail by request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    OpenDevice,
    AllocPd,
    RegMr,
    CreateCq,
    CreateQp,
    ToInit,
    ToRtr,
    ToRts,
    PostSend,
    PostRecv,
}

const CALLS: [(&str, Call); 10] = [
    ("open_device", Call::OpenDevice),
    ("alloc_pd", Call::AllocPd),
    ("reg_mr", Call::RegMr),
    ("create_cq", Call::CreateCq),
    ("create_qp", Call::CreateQp),
    ("init", Call::ToInit),
    ("rtr", Call::ToRtr),
    ("rts", Call::ToRts),
    ("post_send", Call::PostSend),
    ("post_recv", Call::PostRecv),
];

/// What happens to a request, or with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its peer does not answer.
    Unanswered,
    /// Its peer is never ready to receive.
    NotReady,
    /// Its peer refuses it.
    Refused,
    /// It is lost on the way and sent again, which the port counts.
    Lost,
    /// It is carried out, and neither it nor any later request of the queue pair completes.
    Hangs,
    /// The port goes down before it.
    PortDown,
    /// The device is removed before it: nothing completes any more.
    Gone,
}

const FATES: [(&str, Fate); 7] = [
    ("unanswered", Fate::Unanswered),
    ("not-ready", Fate::NotReady),
    ("refused", Fate::Refused),
    ("lost", Fate::Lost),
    ("hangs", Fate::Hangs),
    ("port-down", Fate::PortDown),
    ("gone", Fate::Gone),
];

const ERRNOS: [(&str, c_int); 8] = [
    ("EAGAIN", libc::EAGAIN),
    ("EINVAL", libc::EINVAL),
    ("EIO", libc::EIO),
    ("ENOMEM", libc::ENOMEM),
    ("ENOSPC", libc::ENOSPC),
    ("EPERM", libc::EPERM),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("ENETUNREACH", libc::ENETUNREACH),
];

/// All failures of a process. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    calls: Vec<Arc<FailingCall>>,
    requests: Vec<(u32, Fate)>,
    begun: Arc<AtomicU32>,
}

#[derive(Debug)]
struct FailingCall {
    call: Call,
    errno: Errno,
    /// The calls that succeed first, and then those that fail.
    good: u32,
    bad: u32,
    made: AtomicU32,
}

impl Failures {
    /// `CALL=ERROR[:TIMES[:AFTER]]` or `FATE@REQUEST`, separated by commas: `rtr=ETIMEDOUT:3,hangs@100`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut failures = Self::default();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            if let Some((fate, at)) = word.split_once('@') {
                let fate = named(&FATES, fate, word)?;
                failures.requests.push((number(at, word)?, fate));
                continue;
            }
            let (call, rest) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is not CALL=ERROR or FATE@REQUEST"))?;
            let mut parts = rest.split(':');
            let errno = named(&ERRNOS, parts.next().unwrap_or_default(), word)?;
            let bad = parts
                .next()
                .map_or(Ok(u32::MAX), |times| number(times, word))?;
            let good = parts.next().map_or(Ok(0), |after| number(after, word))?;
            failures.calls.push(Arc::new(FailingCall {
                call: named(&CALLS, call, word)?,
                errno: Errno(errno),
                good,
                bad,
                made: AtomicU32::new(0),
            }));
        }
        Ok(failures)
    }

    /// Whether this call fails.
    pub(crate) fn of_call(&self, call: Call) -> Result<(), Errno> {
        for failing in self.calls.iter().filter(|failing| failing.call == call) {
            let made = failing.made.fetch_add(1, Ordering::Relaxed);
            let end = failing.good.saturating_add(failing.bad);
            if (failing.good..end).contains(&made) {
                return Err(failing.errno);
            }
        }
        Ok(())
    }

    /// The fate of the next request of this process; they count from one.
    pub(crate) fn of_request(&self) -> Option<Fate> {
        if self.requests.is_empty() {
            return None;
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let mut requests = self.requests.iter();
        requests
            .find(|(at, _)| *at == number)
            .map(|(_, fate)| *fate)
    }
}

fn named<T: Copy>(known: &[(&str, T)], name: &str, word: &str) -> Result<T, String> {
    let found = known.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        format!("{word:?}: no {name:?} (known: {})", names.join(", "))
    })
}

fn number(text: &str, word: &str) -> Result<u32, String> {
    u32::from_str(text).map_err(|_| format!("{word:?}: {text:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_requests_fail_as_often_and_as_late_as_was_asked() {
        let failures = Failures::parse("rtr=ETIMEDOUT:2:1, hangs@2").unwrap();
        let made: Vec<_> = (0..4)
            .map(|_| failures.of_call(Call::ToRtr).is_ok())
            .collect();
        assert_eq!(made, [true, false, false, true]);
        assert!(failures.of_call(Call::RegMr).is_ok());
        let fates: Vec<_> = (0..3).map(|_| failures.of_request()).collect();
        assert_eq!(fates, [None, Some(Fate::Hangs), None]);
        assert_eq!(Failures::default().of_request(), None);
    }

    #[test]
    fn what_is_no_failure_is_told() {
        for (text, words) in [
            ("rtr", "is not CALL=ERROR"),
            ("rtr=EWHAT", "known: EAGAIN"),
            ("fork=EAGAIN", "known: open_device"),
            ("late@1", "known: unanswered"),
            ("hangs@x", "not a number"),
        ] {
            let error = Failures::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
