//! What the environment says about where tests run, and how fast that is.

const DEVICES: &str = "TRANSOM_TEST_DEVICES";
/// By how much to multiply all time limits, on slow machines.
const TIME: &str = "TRANSOM_TEST_TIME";

/// The devices to run over, if any are named: separated by `;` or blanks.
pub(crate) fn devices() -> Option<Vec<&'static str>> {
    let list: &'static str = std::env::var(DEVICES).ok()?.leak();
    let devices: Vec<_> = list
        .split([';', ' ', '\t', '\n'])
        .filter(|device| !device.is_empty())
        .collect();
    assert!(!devices.is_empty(), "{DEVICES} names no device");
    Some(devices)
}

/// How much longer than on an ordinary machine things may take.
pub(crate) fn slowness() -> u32 {
    match std::env::var(TIME) {
        Ok(text) => text.parse().unwrap_or_else(|_| {
            panic!("{TIME}={text:?} is no whole number");
        }),
        Err(_) => 1,
    }
}
