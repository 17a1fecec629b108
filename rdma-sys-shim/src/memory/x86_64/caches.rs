//! The sizes of caches, as the kernel knows them.

use std::fs::File;
use std::io::Read;

/// The size of the first processor's third-level cache. Its index is 3, after two caches of the first level and one of
/// the second.
const L3: &str = "/sys/devices/system/cpu/cpu0/cache/index3/size";

/// The size of the third-level cache in bytes; `None` if there is none, or the kernel does not tell. Takes three system
/// calls, and no heap memory.
pub(super) fn l3() -> Option<usize> {
    let mut text = [0; 16];
    let len = File::open(L3).and_then(|mut file| file.read(&mut text));
    parse(&text[..len.ok()?])
}

/// Parses the kernel's text: KiB with the suffix `K`.
fn parse(text: &[u8]) -> Option<usize> {
    let kib = text.trim_ascii().strip_suffix(b"K")?;
    let kib: usize = std::str::from_utf8(kib).ok()?.parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_understood_and_nonsense_is_none() {
        assert_eq!(parse(b"32768K\n"), Some(32 << 20));
        for bad in [
            &b""[..],
            b"K",
            b"32768",
            b"32M\n",
            b"-1K",
            b"18446744073709551615K",
        ] {
            assert_eq!(parse(bad), None);
        }
    }

    #[test]
    fn this_processor_says_nothing_impossible() {
        if let Some(size) = l3() {
            assert!((64 << 10..16 << 30).contains(&size), "{size}");
        }
    }
}
