//! The devices of the tests, and their properties.

use std::hash::{BuildHasher as _, RandomState};

use crate::environment;

/// The devices over which the cases run.
pub fn devices() -> Vec<&'static str> {
    environment::devices().unwrap_or_else(all)
}

fn all() -> Vec<&'static str> {
    vec![
        "soft",
        // Every transfer to caller-owned memory goes through the target's agent.
        "soft:cma=off",
        // Waiting threads do not serve peers, so the kernel does the transfers.
        "soft:assist=off",
        // Every access is an operation of the device, as over a NIC.
        "soft:map=off",
        "soft:map=off,cma=off",
        // Operations are carried out late and in any order, and atomics are the device's own.
        adversarial(),
    ]
}

/// The name contains a seed, so that a failure says how to repeat it.
fn adversarial() -> &'static str {
    let seed = RandomState::new().hash_one(0) % 1_000_000;
    format!("soft:adversarial,seed={seed}").leak()
}

/// The same device without atomics of its own: an agent carries them out. Only a few cases need it, because the rest is
/// the same as with other devices.
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

/// Whether registered memory counts against the limit of locked memory.
pub fn pins_memory(device: &str) -> bool {
    !is_soft(device) && !is_tcp(device)
}

/// Whether this is the adversarial device, which does everything that a queue pair may do.
pub fn is_adversarial(device: &str) -> bool {
    device.contains("adversarial")
}

/// Whether the processor's atomics and the device's are atomic with respect to each other.
pub fn has_processor_atomics(device: &str) -> bool {
    is_soft(device) && !is_adversarial(device)
}

/// Whether the processor may change elements where they are mapped, while the device changes them elsewhere.
pub fn has_global_atomics(device: &str) -> bool {
    ["atomics=global", "atomics=agent"]
        .iter()
        .any(|option| device.contains(option))
}

/// Whether ranks can load from and store to each other's memory.
pub fn maps_memory(device: &str) -> bool {
    has_processor_atomics(device) && !device.contains("map=off")
}
