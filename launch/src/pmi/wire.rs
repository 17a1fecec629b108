//! The lines of PMI-1: `cmd=NAME key=value key=value\n`.

use std::fmt::Write as _;

/// The most bytes that a request may have, newline included: Slurm reads a request once, into a
/// buffer of this size, and does not reassemble.
pub(crate) const MAX_REQUEST: usize = 1024;

/// The key for the length of values that `transom run` allows to this crate's client. `vallen_max` is smaller, because
/// other clients have short buffers for a line.
pub(crate) const LONG_VALUE_MAX: &str = "transom_vallen_max";

/// The most bytes of a line; longer ones are skipped.
const MAX_LINE: usize = 1 << 16;

/// One line, parsed: its command and its other tokens, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    line: &'a str,
    command: &'a str,
}

impl<'a> Message<'a> {
    /// Parses a line without its newline. `None` if it has no `cmd=` token.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let command = token(line, "cmd").filter(|name| !name.is_empty())?;
        Some(Self { line, command })
    }

    pub(crate) fn command(&self) -> &'a str {
        self.command
    }

    /// The value of the first token with this key.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        token(self.line, key)
    }

    /// The value of a token that is a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

fn token<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace()
        .filter_map(|token| token.split_once('='))
        .find_map(|(name, value)| (name == key).then_some(value))
}

/// Builds one line.
pub(crate) struct Builder(String);

impl Builder {
    pub(crate) fn new(command: &str) -> Self {
        Self(format!("cmd={command}"))
    }

    pub(crate) fn with(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        write!(self.0, " {key}={value}").expect("writing to a String cannot fail");
        self
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('\n');
        self.0
    }
}

/// Writes any bytes as one token: all except letters, digits and `-_.` as `%XX`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    out
}

/// The separator between blocks, and between the parts of a block. No escaped block contains it.
const BETWEEN: char = ',';

/// Makes one text of blocks. For each block it has the length of the prefix that the block shares with the previous
/// one, and the remaining bytes, escaped.
pub(crate) fn join(blocks: &[Vec<u8>]) -> String {
    let mut text = String::new();
    let mut last: &[u8] = &[];
    for block in blocks {
        let common = last.iter().zip(block).take_while(|(a, b)| a == b).count();
        if !text.is_empty() {
            text.push(BETWEEN);
        }
        write!(text, "{common:x}{BETWEEN}{}", escape(&block[common..]))
            .expect("writing to a String cannot fail");
        last = block;
    }
    text
}

/// Undoes [`join`]. If `join` did not make the text, the blocks are arbitrary.
pub(crate) fn split(text: &str) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut parts = text.split(BETWEEN);
    while let (Some(common), Some(others)) = (parts.next(), parts.next()) {
        let common = usize::from_str_radix(common, 16).unwrap_or(0);
        let last = blocks.last().map_or(&[][..], Vec::as_slice);
        let mut block = last[..common.min(last.len())].to_vec();
        block.extend(unescape(others));
        blocks.push(block);
    }
    blocks
}

/// Undoes [`escape`]. Leaves anything that is not an escape unchanged.
pub(crate) fn unescape(token: &str) -> Vec<u8> {
    let bytes = token.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    out
}

/// Cuts a byte stream into lines. Holds at most [`MAX_LINE`] bytes between calls.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    skipping: bool,
}

/// One line of a [`LineBuffer`], without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// Too long, or not UTF-8.
    Unreadable,
}

impl LineBuffer {
    /// Takes bytes as they arrive and returns the lines that they complete.
    pub(crate) fn push(&mut self, mut input: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = input.iter().position(|&b| b == b'\n') {
            self.append(&input[..end]);
            input = &input[end + 1..];
            let bytes = std::mem::take(&mut self.bytes);
            let line = match String::from_utf8(bytes) {
                Ok(text) if !self.skipping => Line::Text(text),
                _ => Line::Unreadable,
            };
            self.skipping = false;
            lines.push(line);
        }
        self.append(input);
        lines
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.skipping || self.bytes.len() + bytes.len() > MAX_LINE {
            self.skipping = true;
            self.bytes.clear();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn joined_blocks_are_split_again_and_take_little_where_they_are_alike() {
        let alike: Vec<Vec<u8>> = (0..100_u8).map(|n| [&[7; 40][..], &[n]].concat()).collect();
        let text = join(&alike);
        assert!(text.len() < 100 * 9, "{text}");
        assert_eq!(split(&text), alike);
        let others = [
            b"a,b".to_vec(),
            vec![0; 5],
            Vec::new(),
            b"a".to_vec(),
            b"a".to_vec(),
        ];
        assert_eq!(split(&join(&others)), others);
        for text in ["", "5", "ff,a,9,b", "x,%4,,"] {
            split(text);
        }
    }

    #[test]
    fn tokens_come_in_any_order_and_unknown_ones_are_accepted() {
        let line = "found=TRUE rc=0  value=a=b noise\tcmd=get_result";
        let message = Message::parse(line).unwrap();
        assert_eq!(message.command(), "get_result");
        assert_eq!(message.number("rc"), Some(0));
        assert_eq!(message.get("value"), Some("a=b"));
        assert_eq!(message.get("noise"), None);
        assert_eq!(message.number::<u32>("value"), None);
    }

    #[test]
    fn a_line_without_a_command_is_no_message() {
        for line in ["", " ", "rc=0", "cmd", "cmd=", "mcmd=spawn"] {
            assert_eq!(Message::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn lines_are_reassembled_and_long_ones_skipped() {
        let mut buffer = LineBuffer::default();
        assert_eq!(buffer.push(b"cmd=a"), []);
        assert_eq!(buffer.push(b"b\ncm"), [Line::Text("cmd=ab".into())]);
        assert_eq!(
            buffer.push(b"d=c\n\xff\n"),
            [Line::Text("cmd=c".into()), Line::Unreadable]
        );
        for _ in 0..100 {
            assert_eq!(buffer.push(&[b'x'; 1000]), []);
            assert!(buffer.bytes.len() <= MAX_LINE);
        }
        assert_eq!(
            buffer.push(b"\nok\n"),
            [Line::Unreadable, Line::Text("ok".into())]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..6)) {
            let mut buffer = LineBuffer::default();
            let newlines = chunks.concat().iter().filter(|&&b| b == b'\n').count();
            let mut lines = 0;
            for chunk in &chunks {
                for line in buffer.push(chunk) {
                    lines += 1;
                    if let Line::Text(text) = line {
                        let _ = Message::parse(&text).map(|m| m.number::<i32>("rc"));
                        unescape(&text);
                    }
                }
            }
            prop_assert_eq!(lines, newlines);
        }

        #[test]
        fn what_is_built_is_parsed(key in "[a-zA-Z0-9_-]{1,64}", value in "[!-<>-~]{1,800}") {
            prop_assume!(key != "cmd");
            let line = Builder::new("put").with("other", 1).with(&key, &value).finish();
            let mut buffer = LineBuffer::default();
            let (head, tail) = line.as_bytes().split_at(line.len() / 2);
            prop_assert!(buffer.push(head).is_empty());
            let lines = buffer.push(tail);
            let [Line::Text(text)] = &lines[..] else { panic!("{lines:?}") };
            let message = Message::parse(text).unwrap();
            prop_assert_eq!(message.command(), "put");
            if key != "other" {
                prop_assert_eq!(message.get(&key), Some(&value[..]));
            }
        }

        #[test]
        fn any_bytes_survive_escaping(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let escaped = escape(&bytes);
            prop_assert!(escaped.bytes().all(|byte| byte.is_ascii_graphic() && !b"=,+".contains(&byte)));
            prop_assert_eq!(unescape(&escaped), bytes);
        }
    }
}
