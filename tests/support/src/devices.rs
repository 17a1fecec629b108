//! The devices that tests run over, and what tells them apart.

use std::hash::{BuildHasher as _, RandomState};

use crate::environment;

/// What the cases run over.
pub fn devices() -> Vec<&'static str> {
    environment::devices().unwrap_or_else(all)
}

fn all() -> Vec<&'static str> {
    vec![
        "soft",
        // Every transfer to caller-owned memory goes through the target's agent.
        "soft:cma=off",
        // Threads that wait do nothing for peers, so that the kernel does it.
        "soft:assist=off",
        // Every access is an operation of the device, as over a network card.
        "soft:map=off",
        "soft:map=off,cma=off",
        // Operations are carried out late and in every order, and atomics are the device's own.
        adversarial(),
    ]
}

/// With a seed in its name, so that a failure says how to repeat it.
fn adversarial() -> &'static str {
    let seed = RandomState::new().hash_one(0) % 1_000_000;
    format!("soft:adversarial,seed={seed}").leak()
}

/// The same, where it writes and reads only, and an agent carries out atomics: for few cases, which what it has in common with
/// others leaves.
pub fn agent_atomics() -> &'static str {
    format!("{},atomics=agent", adversarial()).leak()
}

/// Whether the device is soft in any form.
pub fn is_soft(device: &str) -> bool {
    device == "soft" || device.starts_with("soft:")
}

/// Whether the device is tcp, over any interface.
pub fn is_tcp(device: &str) -> bool {
    device == "tcp" || device.starts_with("tcp:")
}

/// Whether what is registered counts against the limit of locked memory.
pub fn pins_memory(device: &str) -> bool {
    !is_soft(device) && !is_tcp(device)
}

/// Whether it is the one that does all that a queue pair may do.
pub fn is_adversarial(device: &str) -> bool {
    device.contains("adversarial")
}

/// Whether the processors' atomics and the device's are atomic to each other.
pub fn has_processor_atomics(device: &str) -> bool {
    is_soft(device) && !is_adversarial(device)
}

/// Whether elements may be changed by the processors where they are mapped, and by the device elsewhere.
pub fn has_global_atomics(device: &str) -> bool {
    ["atomics=global", "atomics=agent"]
        .iter()
        .any(|option| device.contains(option))
}

/// Whether ranks can load from and store to each other's memory.
pub fn maps_memory(device: &str) -> bool {
    has_processor_atomics(device) && !device.contains("map=off")
}
