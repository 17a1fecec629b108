//! The sizes of caches, as the kernel knows them.

use std::fs::File;
use std::io::Read;

/// That of the first processor's third-level cache: its third index, behind two of the first level and one of the second.
const L3: &str = "/sys/devices/system/cpu/cpu0/cache/index3/size";

/// How large the third-level cache is, in bytes; `None` where there is none, or the kernel does not say. Takes three system calls,
/// and no memory of the heap.
pub(super) fn l3() -> Option<usize> {
    let mut text = [0; 16];
    let len = File::open(L3).and_then(|mut file| file.read(&mut text));
    parse(&text[..len.ok()?])
}

/// The kernel writes KiB, and a `K` behind them.
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
