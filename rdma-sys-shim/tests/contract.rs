//! The contract of the device interface, over the soft device in all its variants and tcp, or over the devices that
//! TRANSOM_TEST_DEVICES names.

use libtest_mimic::{Arguments, Trial};
use rdma_sys_shim::Registry;
use rdma_sys_shim::testkit;

const VARIANTS: [&str; 7] = [
    "soft",
    "soft:cma=off",
    "soft:assist=off",
    "soft:map=off",
    "soft:map=off,cma=off",
    "soft:map=off,assist=off",
    "tcp",
];

fn main() {
    let registry = Registry::new(&[]);
    let mut specs = transom_testing::environment::devices().unwrap_or_else(|| VARIANTS.to_vec());
    // It has a crate of its own, which does the same.
    specs.retain(|spec| !transom_testing::devices::is_adversarial(spec));
    let cases = testkit::over(registry, specs);
    let trial = |(name, run)| Trial::test(name, testkit::outcome(run));
    let trials = cases.map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
