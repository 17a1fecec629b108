//! PMI's parsers, for `crate::fuzzing`.

use super::mapping::NodeMap;
use super::wire::{Line, LineBuffer, Message, escape, unescape};

/// Lines of the launcher, as they come in.
pub fn pmi_lines(bytes: &[u8]) {
    let lines = LineBuffer::default().push(bytes);
    // However the bytes arrive, they are the same lines.
    let mut slowly = LineBuffer::default();
    let pieces = bytes.chunks(3).flat_map(|piece| slowly.push(piece));
    assert_eq!(lines, pieces.collect::<Vec<_>>());
    for line in &lines {
        let Line::Text(text) = line else { continue };
        assert!(!text.contains('\n'));
        assert_eq!(&unescape(&escape(text)), text);
        if let Some(message) = Message::parse(text) {
            assert!(!message.command().is_empty());
            let _ = message.get("value").map(unescape);
            let _ = message.number::<i32>("rc");
        }
    }
}

/// The value of `PMI_process_mapping`.
pub fn process_mapping(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(map) = NodeMap::parse(text) {
        for rank in [0, 1, 7, u32::MAX] {
            let node = map.node_of(rank);
            let next = map.node_of(rank.saturating_add(1));
            assert!(node < u32::MAX && next < u32::MAX, "{text:?}");
        }
        assert!(map.neighbours(0, 8).any(|rank| rank == 0));
    }
}
