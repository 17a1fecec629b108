//! What a rank tells the others in words.

use rdma_sys_shim::beginning;

/// Two texts, one after the other.
pub(crate) fn join_texts(first: &str, second: &str) -> Vec<u8> {
    let len = (first.len() as u32).to_le_bytes();
    [&len[..], first.as_bytes(), second.as_bytes()].concat()
}

/// `None` if these bytes are not two texts.
pub(crate) fn split_texts(bytes: &[u8]) -> Option<(String, String)> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (first, second) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).ok();
    Some((text(first)?, text(second)?))
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
