//! The devices that tests run over.

use crate::environment;

/// What the cases run over.
pub(crate) fn devices() -> Vec<&'static str> {
    environment::devices().unwrap_or_else(all)
}

fn all() -> Vec<&'static str> {
    vec![
        "soft",
        // Every transfer to caller-owned memory goes through the target's agent.
        "soft:cma=off",
        // Every access is an operation of the device, as over a network card.
        "soft:map=off",
        "soft:map=off,cma=off",
        // Operations are carried out late and in every order, and atomics are the device's own.
        adversarial(),
    ]
}

/// With a seed in its name, so that a failure says how to repeat it.
fn adversarial() -> &'static str {
    use std::hash::{BuildHasher as _, RandomState};
    let seed = RandomState::new().hash_one(0) % 1_000_000;
    format!("soft:adversarial,seed={seed}").leak()
}
