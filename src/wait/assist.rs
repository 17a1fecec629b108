//! What a waiting thread does for peers: it reads and writes memory of this process that they cannot map, and serves
//! TCP connections. It stays awake while requests are frequent.

use std::time::{Duration, Instant};

use rdma_sys_shim::Assist;

use super::hook;
use crate::error::Result;

/// The number of tests of the awaited event, and of looks for requests, between two reads of the clock and calls of the
/// hook.
const TURNS: u32 = 64;
/// How long it stays awake without requests: at first, and after peers have called or made requests. A peer may make
/// its next request only after its longest transfer by the kernel.
const IDLE: Duration = Duration::from_micros(50);
const IDLE_ONCE_ASKED: Duration = Duration::from_micros(500);
/// The longest time of one assist.
const LONGEST: Duration = Duration::from_millis(20);

/// How an assist ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssistEnd {
    /// The awaited event has happened.
    Over,
    /// Peers have made no requests for a while.
    Idle,
    /// They still make requests, but the wait has to check.
    Asked,
}

/// Serves peers until the awaited event has happened, or for a while; longer if they have called or made requests.
pub(super) fn lend(
    assist: &mut Assist,
    was_asked: bool,
    done: &mut dyn FnMut() -> Result<bool>,
) -> Result<AssistEnd> {
    // The first look at the slots may take longer than a request waits, if other ranks hold the cache lines.
    let is_asked = assist.serve();
    assist.lend();
    let end = serve(assist, is_asked, was_asked, done);
    // Meanwhile the caller may do something that takes long.
    assist.withdraw();
    end
}

/// As [`lend`], once peers know of the assist.
fn serve(
    assist: &Assist,
    mut is_asked: bool,
    was_asked: bool,
    done: &mut dyn FnMut() -> Result<bool>,
) -> Result<AssistEnd> {
    let begun = Instant::now();
    let mut asked = begun;
    let mut idle = if was_asked { IDLE_ONCE_ASKED } else { IDLE };
    let mut turn = 0u32;
    loop {
        if done()? {
            return Ok(AssistEnd::Over);
        }
        is_asked |= assist.serve();
        turn += 1;
        if turn.is_multiple_of(TURNS) {
            hook::call();
            let now = Instant::now();
            if std::mem::take(&mut is_asked) {
                asked = now;
                idle = IDLE_ONCE_ASKED;
            }
            if now - asked >= idle {
                return Ok(AssistEnd::Idle);
            }
            if now - begun >= LONGEST {
                return Ok(AssistEnd::Asked);
            }
        }
        std::hint::spin_loop();
    }
}
