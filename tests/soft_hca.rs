//! A sample of the conformance suite over the verbs provider, on adapters in user space. `ci/soft-hca` runs it on all.
#![cfg(feature = "verbs")]

use transom_testing::adapter;
use transom_testing::job::run;

fn passes(device: &str, adapters: &[&str]) {
    let done = run(&mut adapter::run("conformance", device, adapters, 15));
    assert!(done.status.success(), "{}\n{}", done.text(), done.stderr);
    assert!(done.text().contains("test result: ok."), "{}", done.text());
}

#[test]
fn on_an_adapter_in_every_order() {
    passes("mlx5_0", &["mlx5,any-order,split,overtake"]);
}

#[test]
fn on_two_adapters_that_place_data_late() {
    passes("verbs", &["mlx5,late=200"; 2]);
}

#[test]
fn on_an_adapter_without_atomics_over_ethernet() {
    passes("irdma0", &["irdma"]);
}
