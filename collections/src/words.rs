//! Values as the 8-byte words of a window.

use transom::{Element, Op, Session};

use crate::Result;

/// How many words a value takes.
pub(crate) const fn count<T>() -> usize {
    size_of::<T>().div_ceil(8)
}

/// Writes a value to words, followed by zeros.
pub(crate) fn write<T: Element>(value: &T, words: &mut [u64]) {
    words.fill(0);
    let bytes = bytemuck::cast_slice_mut::<u64, u8>(words);
    bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(value));
}

/// Reads a value from its words.
pub(crate) fn read<T: Element>(words: &[u64]) -> T {
    let bytes = bytemuck::cast_slice::<u64, u8>(words);
    bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
}

/// The words at `places`, each read atomically.
pub(crate) fn load(session: &Session<'_, u64>, places: &[(u32, usize)]) -> Result<Vec<u64>> {
    let operands = vec![0; places.len()];
    let mut words = vec![0; places.len()];
    session.get_accumulate_indexed(Op::NoOp, places, &operands, &mut words)?;
    Ok(words)
}

/// The sum of the words at this index of all parts.
pub(crate) fn sum(session: &Session<'_, u64>, at: usize) -> Result<u64> {
    let places: Vec<(u32, usize)> = (0..session.ranks()).map(|rank| (rank, at)).collect();
    Ok(load(session, &places)?.iter().sum())
}
