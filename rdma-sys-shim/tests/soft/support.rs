//! The soft device in all its variants.

use std::sync::Arc;

use rdma_sys_shim::testkit;
pub(crate) use rdma_sys_shim::testkit::{
    Peers, aligned, alone, each_region, fetch_add, memory, read, write,
};
use rdma_sys_shim::{Device, Registry, Result, Surroundings};

pub(crate) const OPTIONS: [&str; 4] = [
    "soft",
    "soft:cma=off",
    "soft:map=off",
    "soft:map=off,cma=off",
];

const REGISTRY: Registry = Registry::new(&[]);

pub(crate) fn open(spec: &str) -> Result<Arc<dyn Device>> {
    REGISTRY.open(spec, &Surroundings::default())
}

pub(crate) fn peers(spec: &str, to_self: bool) -> Peers {
    testkit::peers(REGISTRY, spec, to_self)
}

/// Runs a test over every variant, to another peer and to oneself.
pub(crate) fn everywhere(test: impl Fn(&Peers)) {
    let _alone = alone();
    for spec in OPTIONS {
        for to_self in [false, true] {
            eprintln!("{spec}, to {}", if to_self { "itself" } else { "a peer" });
            test(&peers(spec, to_self));
        }
    }
}
