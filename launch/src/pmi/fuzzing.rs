//! PMI's parsers, for `crate::fuzzing`.

use super::mapping::is_one_node;
use super::wire::{Line, LineBuffer, Message, escape, unescape};

/// Lines of the launcher, as they come in.
pub fn pmi_lines(bytes: &[u8]) {
    let lines = LineBuffer::default().push(bytes);
    // In whatever pieces the bytes arrive, they contain the same lines.
    let mut slowly = LineBuffer::default();
    let pieces = bytes.chunks(3).flat_map(|piece| slowly.push(piece));
    assert_eq!(lines, pieces.collect::<Vec<_>>());
    for line in &lines {
        let Line::Text(text) = line else { continue };
        assert!(!text.contains('\n'));
        assert_eq!(unescape(&escape(text.as_bytes())), text.as_bytes());
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
    if is_one_node(text) {
        assert!(text.trim().starts_with("(vector,(") && text.trim().ends_with("))"));
    }
}
