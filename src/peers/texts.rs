//! What a rank tells the others: texts and other parts.

use rdma_sys_shim::beginning;

/// Parts, one after the other.
pub(crate) fn join_parts(parts: &[&[u8]]) -> Vec<u8> {
    let of_part = |part: &&[u8]| [&(part.len() as u32).to_le_bytes(), *part].concat();
    parts.iter().flat_map(of_part).collect()
}

/// `None` if these bytes are not `N` parts.
pub(crate) fn split_parts<const N: usize>(mut bytes: &[u8]) -> Option<[&[u8]; N]> {
    let mut parts = [&[][..]; N];
    for part in &mut parts {
        let (len, rest) = bytes.split_first_chunk()?;
        (*part, bytes) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    }
    bytes.is_empty().then_some(parts)
}

/// The beginning of a text, followed by zeros.
pub(crate) fn padded<const N: usize>(text: &str) -> [u8; N] {
    let text = beginning(text, N);
    let mut bytes = [0; N];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// The text that was passed to [`padded`]. Another rank may have written anything else.
pub(crate) fn unpadded(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
