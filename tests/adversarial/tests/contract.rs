//! The contract of the device interface, over the adversarial device, with neighbours' memory mapped beside it.

use libtest_mimic::{Arguments, Trial};
use rdma_sys_shim::Registry;
use rdma_sys_shim::testkit;
use transom_adversarial::Adversarial;

const SPECS: [&str; 5] = [
    "soft:adversarial,seed=1,delay=100",
    "soft:adversarial,seed=2,delay=100,order=loose",
    "soft:adversarial,seed=3,delay=100,cma=off",
    "soft:adversarial,seed=4,delay=100,atomics=global",
    "soft:adversarial,seed=5,delay=100,atomics=agent",
];

fn main() {
    let registry = Registry::new(&[&Adversarial]);
    let cases = testkit::over(registry, SPECS.to_vec());
    let trial = |(name, run)| Trial::test(name, testkit::outcome(run));
    let trials = cases.map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
