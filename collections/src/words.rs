//! Values as the 8-byte words of a window.

use transom::Element;

/// How many words a value takes.
pub(crate) const fn count<T>() -> usize {
    size_of::<T>().div_ceil(8)
}

/// The words of a value, zeros behind it.
pub(crate) fn write<T: Element>(value: &T, words: &mut [u64]) {
    words.fill(0);
    let bytes = bytemuck::cast_slice_mut::<u64, u8>(words);
    bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(value));
}

/// The value whose words these are.
pub(crate) fn read<T: Element>(words: &[u64]) -> T {
    let bytes = bytemuck::cast_slice::<u64, u8>(words);
    bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
}
