//! The providers of devices that this library knows.

use rdma_sys_shim::{Provider, Registry};

/// The providers that are not part of the device layer.
const OTHERS: &[&dyn Provider] = &[
    #[cfg(feature = "adversarial")]
    &transom_adversarial::Adversarial,
];

/// All providers.
pub const REGISTRY: Registry = Registry::new(OTHERS);

/// Whether this build has the device `soft:adversarial`.
pub const HAS_ADVERSARIAL: bool = cfg!(feature = "adversarial");

/// Opens a device for a test whose ranks are in this process.
#[cfg(test)]
pub(crate) fn open(spec: &str) -> std::sync::Arc<dyn rdma_sys_shim::Device> {
    let around = rdma_sys_shim::Surroundings::default();
    REGISTRY.open(spec, &around).unwrap()
}
