//! Making a normal form of parts in their order.

use super::piece::{Piece, Shape};

/// Parts of a list; adjacent ones are joined.
#[derive(Default)]
pub(super) struct List(Vec<Piece>);

/// A row with fewer equal parts can as well be a list.
const ROW: usize = 3;
/// If a part has at most this many parts, they become parts of the whole if they can join its
/// neighbours.
const FEW: usize = 32;

impl List {
    pub(super) fn with_capacity(parts: usize) -> Self {
        Self(Vec::with_capacity(parts))
    }

    pub(super) fn push(&mut self, mut piece: Piece) {
        while let Some(joined) = self.0.last().and_then(|last| last.join(&piece)) {
            self.0.pop();
            piece = joined;
        }
        self.0.push(piece);
    }

    pub(super) fn finish(self) -> Option<Piece> {
        let rows = Self::rows(self.0);
        let parts = |piece: &Piece| match &piece.shape {
            Shape::Nest(nest) if nest.count == 1 => nest.parts.0.len(),
            _ => 1,
        };
        let few = rows.len() <= FEW && rows.iter().all(|piece| parts(piece) <= FEW);
        if rows.len() < 2 || !few || rows.iter().all(|piece| parts(piece) == 1) {
            return Piece::list(rows);
        }
        let mut whole = Self::default();
        for piece in rows {
            match &piece.shape {
                Shape::Nest(nest) if nest.count == 1 => {
                    for part in &nest.parts.0 {
                        whole.push(part.shifted(piece.at));
                    }
                }
                _ => whole.push(piece),
            }
        }
        Piece::list(Self::rows(whole.0))
    }

    /// The index of the first row with enough parts.
    fn first_row(parts: &[Piece]) -> Option<usize> {
        let step = |one: &Piece, next: &Piece| next.at.checked_sub(one.at);
        let is_row = |parts: &[Piece]| {
            let [first, second, third] = parts else {
                return false;
            };
            step(first, second) == step(second, third)
                && second.shape.equal(&first.shape)
                && third.shape.equal(&first.shape)
        };
        match parts.len() < ROW {
            true => Some(0),
            false => parts.windows(ROW).position(is_row),
        }
    }

    /// Replaces equal parts at equal distances by one repeated part.
    fn rows(mut parts: Vec<Piece>) -> Vec<Piece> {
        let Some(first) = Self::first_row(&parts) else {
            return parts;
        };
        let all = parts.len();
        // In place: the number of parts kept never exceeds the number read.
        let (mut kept, mut read) = (first, first);
        while read < all {
            let first = &parts[read];
            let (len, stride) = row(&parts[read..]);
            let is_row = len >= ROW || len == all;
            // The second of two parts may begin a row.
            let row = is_row.then(|| first.repeated(len as u64, stride)).flatten();
            let mut piece = row.unwrap_or_else(|| first.clone());
            read += if is_row { len } else { 1 };
            while let Some(before) = kept.checked_sub(1)
                && let Some(joined) = parts[before].join(&piece)
            {
                piece = joined;
                kept = before;
            }
            parts[kept] = piece;
            kept += 1;
        }
        parts.truncate(kept);
        parts
    }
}

/// How many parts, from the first on, are equal and at equal distances, and this distance.
fn row(parts: &[Piece]) -> (usize, i64) {
    let step = |one: &Piece, next: &Piece| next.at.checked_sub(one.at);
    let [first, second, ..] = parts else {
        return (1, 0);
    };
    let Some(stride) = step(first, second) else {
        return (1, 0);
    };
    let in_row = |pair: &&[Piece]| {
        step(&pair[0], &pair[1]) == Some(stride) && pair[1].shape.equal(&first.shape)
    };
    let others = parts.windows(2).take_while(in_row).count();
    (1 + others, stride)
}
