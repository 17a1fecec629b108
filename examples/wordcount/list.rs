//! Numbers with bytes beside them: what ranks send each other of files and of words.

/// Per entry: the number, the length of the bytes, the bytes.
pub(crate) fn encode<'a>(entries: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<u8> {
    let mut list = Vec::new();
    for (number, bytes) in entries {
        list.extend_from_slice(bytemuck::bytes_of(&[number, bytes.len() as u64]));
        list.extend_from_slice(bytes);
    }
    list
}

pub(crate) fn decode(mut list: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let (header, rest) = list.split_first_chunk::<16>()?;
        let [number, len] = bytemuck::pod_read_unaligned(header);
        let (bytes, rest) = rest.split_at(len as usize);
        list = rest;
        Some((number, bytes))
    })
}
