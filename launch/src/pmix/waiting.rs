//! Calls that may never return, waited for with a limit.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What `call` returns, made in a thread of its own. `None`: it has not returned within `limit`, and the
/// thread stays in it.
///
/// # Errors
/// There was no thread to be had.
pub(super) fn within<T: Send + 'static>(
    limit: Option<Duration>,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (done, ended) = channel();
    let thread = thread::Builder::new().name("transom-pmix".to_owned());
    let running = thread.spawn(move || {
        // Nobody may be there any more to hear of it.
        let _ = done.send(call());
    })?;
    let answer = match limit {
        Some(limit) => ended.recv_timeout(limit),
        None => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => match running.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the call returned, and was not heard"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_waited_for_and_given_up() {
        assert_eq!(within(None, || 7).unwrap(), Some(7));
        assert_eq!(
            within(Some(Duration::from_secs(600)), || 7).unwrap(),
            Some(7)
        );
        let (hold, held) = channel::<()>();
        let stuck = within(Some(Duration::from_millis(1)), move || held.recv());
        assert_eq!(stuck.unwrap(), None);
        drop(hold);
    }
}
