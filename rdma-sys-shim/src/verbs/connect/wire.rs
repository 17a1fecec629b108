//! What messages consist of beside plain numbers: texts, and a checksum against torn ones.

use crate::fields::Fields;

impl Fields<'_> {
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
}

/// Appends `text` behind its length, cut at a character's end to at most `limit` bytes.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str, limit: u8) {
    let text = cut(text, usize::from(limit));
    bytes.push(text.len() as u8);
    bytes.extend(text.as_bytes());
}

/// The beginning of `text`: at most `limit` bytes, whole characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rfind(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

const CHECKSUM_BYTES: usize = 4;

/// Appends the checksum of what is there.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let sum = checksum(bytes);
    bytes.extend(sum.to_le_bytes());
}

/// What was sealed, if it is whole.
pub(crate) fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum(content) == u32::from_le_bytes(*sum)).then_some(content)
}

/// FNV-1a: finds what was torn or mixed up; it is no defence against forgery.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, &byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, "aüb", 2);
        assert_eq!(bytes, [1, b'a']);
        assert_eq!(Fields(&[2, b'h', b'i', 7]).text(), Some("hi"));
        assert_eq!(Fields(&[3, b'h', b'i']).text(), None);
        assert_eq!(Fields(&[1, 0xff]).text(), None);
    }

    #[test]
    fn every_flipped_bit_breaks_the_seal() {
        let mut sealed = b"queue pair 17".to_vec();
        seal(&mut sealed);
        assert_eq!(unseal(&sealed), Some(b"queue pair 17".as_slice()));
        for bit in 0..sealed.len() * 8 {
            let mut torn = sealed.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal(&torn), None);
        }
    }
}
