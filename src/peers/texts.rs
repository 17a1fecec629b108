//! What a rank tells the others in words.

/// Two texts, one behind the other.
pub(crate) fn join_texts(first: &str, second: &str) -> Vec<u8> {
    let len = (first.len() as u32).to_le_bytes();
    [&len[..], first.as_bytes(), second.as_bytes()].concat()
}

/// `None` if these bytes are no two texts.
pub(crate) fn split_texts(bytes: &[u8]) -> Option<(String, String)> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (first, second) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).ok();
    Some((text(first)?, text(second)?))
}
