//! Cutting bytes into words.
//!
//! A *word* is a longest run of letters and digits (of any script, as [`char::is_alphanumeric`]
//! has it), the combining accents U+0300 to U+036F among them, and single apostrophes between
//! them: "don't" is one word, "'tis'" is "tis". It counts in lower case, character by character, and
//! the apostrophe ’ counts as '. Everything else separates words, as does each byte that is not
//! UTF-8.

use std::str;

/// True for the bytes behind which a text can be cut: never in a word, nor in a character.
pub(crate) fn separates(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric() && byte != b'\''
}

/// Finds the words of a text that comes in pieces, which may be cut anywhere. Holds no more of it
/// than the present word.
#[derive(Default)]
pub(crate) struct Splitter {
    word: Vec<u8>,
    /// An apostrophe came behind `word`; it belongs to it if a letter follows.
    apostrophe: bool,
    /// A character that the end of a piece cut.
    partial: Vec<u8>,
}

impl Splitter {
    /// Passes each word that ends in `piece` to `each`.
    pub(crate) fn feed(&mut self, piece: &[u8], mut each: impl FnMut(&[u8])) {
        let mut bytes = self.complete(piece, &mut each);
        loop {
            let error = match str::from_utf8(bytes) {
                Ok(text) => return self.text(text, &mut each),
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            self.text(str::from_utf8(valid).unwrap_or_default(), &mut each);
            match error.error_len() {
                None => return self.partial.extend_from_slice(rest),
                Some(len) => {
                    self.end_word(&mut each);
                    bytes = &rest[len..];
                }
            }
        }
    }

    /// The text is at its end, and so is its last word; a new text may follow.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        self.partial.clear();
        self.end_word(&mut each);
    }

    /// Completes the character that the last piece left; returns what comes behind it.
    fn complete<'a>(&mut self, mut bytes: &'a [u8], each: &mut impl FnMut(&[u8])) -> &'a [u8] {
        while !self.partial.is_empty()
            && let Some((&next, rest)) = bytes.split_first()
        {
            self.partial.push(next);
            match str::from_utf8(&self.partial) {
                Ok(text) => {
                    let character = text.chars().next();
                    self.partial.clear();
                    character.into_iter().for_each(|c| self.character(c, each));
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => {
                    // `next` does not continue the character, and so begins another one.
                    self.partial.clear();
                    self.end_word(each);
                    return bytes;
                }
            }
            bytes = rest;
        }
        bytes
    }

    fn text(&mut self, text: &str, each: &mut impl FnMut(&[u8])) {
        for character in text.chars() {
            self.character(character, each);
        }
    }

    #[inline]
    fn character(&mut self, c: char, each: &mut impl FnMut(&[u8])) {
        if c.is_ascii_alphanumeric() {
            self.join();
            self.word.push(c.to_ascii_lowercase() as u8);
        } else if separates_char(c) {
            self.end_word(each);
        } else if matches!(c, '\'' | '’') {
            if self.apostrophe {
                self.end_word(each);
            } else {
                self.apostrophe = !self.word.is_empty();
            }
        } else {
            self.unicode(c, each);
        }
    }

    fn unicode(&mut self, c: char, each: &mut impl FnMut(&[u8])) {
        let accent = matches!(c, '\u{300}'..='\u{36f}') && !self.word.is_empty();
        if c.is_alphanumeric() || accent && !self.apostrophe {
            self.join();
            for lower in c.to_lowercase() {
                let mut bytes = [0; 4];
                let bytes = lower.encode_utf8(&mut bytes).as_bytes();
                self.word.extend_from_slice(bytes);
            }
        } else {
            self.end_word(each);
        }
    }

    /// A letter follows: an apostrophe before it belongs to the word.
    #[inline]
    fn join(&mut self) {
        if self.apostrophe {
            self.apostrophe = false;
            self.word.push(b'\'');
        }
    }

    #[inline]
    fn end_word(&mut self, each: &mut impl FnMut(&[u8])) {
        if !self.word.is_empty() {
            each(&self.word);
            self.word.clear();
        }
        self.apostrophe = false;
    }
}

fn separates_char(c: char) -> bool {
    u8::try_from(c).is_ok_and(separates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(pieces: &[&[u8]]) -> Vec<String> {
        let mut words = Vec::new();
        let mut take = |word: &[u8]| words.push(String::from_utf8(word.to_vec()).unwrap());
        let mut splitter = Splitter::default();
        for piece in pieces {
            splitter.feed(piece, &mut take);
        }
        splitter.finish(&mut take);
        words
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let text = "One two-THREE, 4th_x\tΣΊΣΥΦΟΣ; naïve e\u{301}tude 東京。 ½";
        let words = "one two three 4th x σίσυφοσ naïve e\u{301}tude 東京 ½";
        assert_eq!(words_of(&[text.as_bytes()]).join(" "), words);
    }

    #[test]
    fn an_apostrophe_between_letters_belongs_to_the_word() {
        let text = "don't 'tis' dogs' rock''n''roll l’eau '' 'a'\u{301}b \u{301}c";
        let words = "don't tis dogs rock n roll l'eau a b c";
        assert_eq!(words_of(&[text.as_bytes()]).join(" "), words);
    }

    #[test]
    fn what_is_not_utf8_separates() {
        // A stray continuation, a cut character, an overlong one, a surrogate, an impossible byte.
        let text = b"a\x80b\xe2\x82c\xc0\xafd\xed\xa0\x80e\xff\xfef\xf0\x9f";
        assert_eq!(words_of(&[text]).join(" "), "a b c d e f");
    }

    #[test]
    fn the_pieces_do_not_matter() {
        let text = b"na\xc3\xafve \xe2\x82\xe2\x82\xac l\xe2\x80\x99eau \xe6\x9d\xb1\xe4\xba\xac x\xf0\x9f";
        let whole = words_of(&[text]);
        assert_eq!(whole.join(" "), "naïve l'eau 東京 x");
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(words_of(&pieces), whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn lower_case_may_be_longer() {
        assert_eq!(words_of(&["ȺİB".as_bytes()]), ["ⱥi\u{307}b"]);
    }
}
