//! Ranks that die, leave or stop while others need them: the survivors find out by
//! themselves, name the culprit, and end in time.

mod amid;
mod crossed;
mod death;
mod fatal;
mod first_thread;
mod injected;
mod leave;
mod limits;
mod locked;
mod memory;
mod saved;
mod stop;
mod unawaited;

use libtest_mimic::Trial;
use transom_testing::devices::{is_adversarial, is_soft, pins_memory};
use transom_testing::environment;

/// Plays one rank of a fault case.
pub(crate) fn play(role: &str) {
    let (topic, rest) = role.split_once('/').unwrap_or((role, ""));
    match topic {
        "amid" => amid::play(rest),
        "crossed" => crossed::play(rest),
        "death" => death::play(rest),
        "leave" => leave::play(rest),
        "limits" => limits::play(rest),
        "locked" => locked::play(rest),
        "fatal" => fatal::play(),
        "first_thread" => first_thread::play(),
        "memory" => memory::play(),
        "saved" => saved::play(rest),
        "stop" => stop::play(rest),
        "unawaited" => unawaited::play(rest),
        _ => panic!("no role {role:?}"),
    }
}

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let mut trials = death::trials(device);
    trials.extend(amid::trials(device));
    trials.extend(saved::trials(device));
    trials.extend(unawaited::trials(device));
    trials.extend(crossed::trials(device));
    trials.extend(leave::trials(device));
    trials.extend(fatal::trials(device));
    trials.extend(first_thread::trials(device));
    // A rank stops another, which has to be on its host.
    if environment::is_our_launcher() {
        trials.extend(stop::trials(device));
    }
    if is_adversarial(device) {
        trials.extend(injected::trials(device));
    }
    if is_soft(device) {
        trials.extend(memory::trials(device));
        trials.extend(limits::trials(device));
    }
    if pins_memory(device) {
        trials.extend(locked::trials(device));
    }
    trials
}
