//! Fields of fixed width, little-endian, and texts behind their length.

/// Takes fields from the front; `None` if too few bytes are left.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text, after its length in one byte.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let [len] = self.array()?;
        let (text, rest) = self.0.split_at_checked(len.into())?;
        self.0 = rest;
        str::from_utf8(text).ok()
    }
}

/// The beginning of a text: at most `most` bytes, in whole characters.
#[must_use]
pub fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rfind(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
