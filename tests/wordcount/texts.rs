//! Texts, and an independent count of their words.

use std::collections::HashMap;

use transom_testing::random::Random;

/// The lines that `--all` prints.
pub(crate) type Lines = Vec<(u64, String)>;

/// An independent count: each file as a whole, by looking at each character's neighbours.
pub(crate) fn serial_count(texts: &[&[u8]]) -> Lines {
    let mut counts = HashMap::<String, u64>::new();
    for text in texts {
        let chars: Vec<char> = String::from_utf8_lossy(text).chars().collect();
        let accent = |c: char| ('\u{300}'..='\u{36f}').contains(&c);
        // An accent is part of a word if a letter comes before it and other accents.
        let mut inside = vec![false; chars.len() + 1];
        for (i, &c) in chars.iter().enumerate() {
            inside[i] = c.is_alphanumeric() || accent(c) && i > 0 && inside[i - 1];
        }
        let mut spaced = String::with_capacity(text.len());
        for (i, &c) in chars.iter().enumerate() {
            let between = i > 0 && inside[i - 1] && inside[i + 1];
            match c {
                _ if inside[i] => spaced.extend(c.to_lowercase()),
                '\'' | '\u{2019}' if between => spaced.push('\''),
                _ => spaced.push(' '),
            }
        }
        for word in spaced.split_ascii_whitespace() {
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(counts.insert(word.to_owned(), 1)),
            }
        }
    }
    let mut lines: Lines = counts.into_iter().map(|(word, n)| (n, word)).collect();
    lines.sort_unstable_by(|(n, word), (m, other)| m.cmp(n).then(word.cmp(other)));
    lines
}

const LETTERS: [&str; 5] = [
    "abcdefghijklmnopqrstuvwxyz",
    "ABCDEéèüßñçİȺ",
    "αβγδεζηθΩΣ",
    "日月火水木金土",
    "𐐀𐐁𐐂𐐨",
];

/// A word for each number: short ones, and such as are too long for a key.
fn invent(number: usize) -> String {
    let mut random = Random::new(number as u64);
    let letters: Vec<char> = LETTERS[[0, 0, 0, 1, 2, 3, 4][random.below(7)]]
        .chars()
        .collect();
    let len = 1 + random.below(6) + random.below(6);
    let mut word: String = (0..len)
        .map(|_| letters[random.below(letters.len())])
        .collect();
    // Short ones would often be the same.
    if number > 2000 {
        word += &number.to_string();
    }
    word
}

/// A text in which the word of rank k comes about 1/k times as often as the first.
pub(crate) fn zipf(bytes: usize, vocabulary: usize) -> String {
    let words: Vec<String> = (0..vocabulary).map(invent).collect();
    let between = [
        " ", " ", " ", " ", " ", ", ", "\n", "—", "。", "\u{3000}", "...", "'",
    ];
    let mut random = Random::new(7);
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        let rank = (vocabulary as f64).powf(random.unit()) as usize - 1;
        text += &words[rank];
        text += between[random.below(between.len())];
    }
    text
}

pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    Random::new(11).bytes(bytes)
}
