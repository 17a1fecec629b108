//! Making a normal form of parts in their order.

use super::piece::{Piece, Shape};

/// Parts of which those that follow one another are joined.
#[derive(Default)]
pub(super) struct List(Vec<Piece>);

/// A shorter row of equal parts is as well kept as a list.
const ROW: usize = 3;
/// So few parts of a part become the whole's, where they may join its neighbours.
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

    /// Whether there is a row of so many parts as are worth it.
    fn has_row(parts: &[Piece]) -> bool {
        let step = |one: &Piece, next: &Piece| next.at.checked_sub(one.at);
        let is_row = |parts: &[Piece]| {
            let [first, second, third] = parts else {
                return false;
            };
            step(first, second) == step(second, third)
                && second.shape.equal(&first.shape)
                && third.shape.equal(&first.shape)
        };
        parts.len() < ROW || parts.windows(ROW).any(is_row)
    }

    /// Replaces equal parts at equal distances by one that is repeated.
    fn rows(parts: Vec<Piece>) -> Vec<Piece> {
        if !Self::has_row(&parts) {
            return parts;
        }
        let mut rows = Self::with_capacity(parts.len());
        let mut rest = parts.as_slice();
        while let [first, others @ ..] = rest {
            let stride = others
                .first()
                .and_then(|second| second.at.checked_sub(first.at));
            let mut len = 1;
            if let Some(stride) = stride {
                let in_row = |pair: &&[Piece]| {
                    pair[1].at.checked_sub(pair[0].at) == Some(stride)
                        && pair[1].shape.equal(&first.shape)
                };
                len += rest.windows(2).take_while(in_row).count();
                if len >= ROW || len == parts.len() {
                    if let Some(row) = first.repeated(len as u64, stride) {
                        rows.push(row);
                    }
                    rest = &rest[len..];
                    continue;
                }
            }
            // The second of two may begin a row.
            rows.push(first.clone());
            rest = others;
        }
        rows.0
    }
}
