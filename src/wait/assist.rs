//! What a waiting thread does for peers: it reads and writes memory of this process that they cannot map, and serves
//! TCP connections. It stays awake while requests are frequent.

use std::time::{Duration, Instant};

use rdma_sys_shim::Assist;

use super::hook;
use crate::error::Result;

/// Looks at what is awaited, and for requests, between two at the clock and calls of the hook.
const TURNS: u32 = 64;
/// So long it stays awake for requests that do not come: at first, and where peers have called or asked. A peer may ask
/// again after its longest transfer by the kernel.
const IDLE: Duration = Duration::from_micros(50);
const IDLE_ONCE_ASKED: Duration = Duration::from_micros(500);
/// And so long at a time.
const LONGEST: Duration = Duration::from_millis(20);

/// How assisting peers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssistEnd {
    /// What is awaited has happened.
    Over,
    /// Peers have not asked for anything for a while.
    Idle,
    /// They still ask, but it is time for the wait to look around.
    Asked,
}

/// Serves peers until what is awaited has happened, or for a while; longer if they have called or asked.
pub(super) fn lend(
    assist: &mut Assist,
    was_asked: bool,
    done: &mut dyn FnMut() -> Result<bool>,
) -> Result<AssistEnd> {
    // The first look at the slots may take longer than a request waits, where others have their lines.
    let is_asked = assist.serve();
    assist.lend();
    let end = serve(assist, is_asked, was_asked, done);
    // Meanwhile the caller may do something that takes long.
    assist.withdraw();
    end
}

/// As [`lend`], where peers know of it.
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
