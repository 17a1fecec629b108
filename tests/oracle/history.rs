//! Several threads on one place: is there an order of what they did that explains what they saw?

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use transom::Op;

use crate::access::Kind;
use crate::model::{Piece, differs};
use crate::program::{Area, Role};

/// What happened in one contested area, by the bytes that are atomic together.
#[derive(Default)]
pub(crate) struct Contest<'a> {
    pub(crate) histories: BTreeMap<(usize, usize), History<'a>>,
}

impl<'a> Contest<'a> {
    /// `when`: the thread, and which of its locks of targets it holds.
    pub(crate) fn note(&mut self, area: &Area, when: (usize, usize), piece: Piece<'a>) {
        let Role::Cells { .. } = area.role else {
            let key = (area.bytes.start, area.bytes.end);
            self.histories
                .entry(key)
                .or_default()
                .note(when, true, piece);
            return;
        };
        // Atomic for each element, but not for all of a call.
        for element in piece.elements.clone() {
            let start = piece.access.place(element);
            let len = piece.access.far.element(element).len();
            let one = Piece {
                elements: element..element + 1,
                ..piece.clone()
            };
            let key = (start, start + len);
            self.histories
                .entry(key)
                .or_default()
                .note(when, false, one);
        }
    }
}

/// For each thread the steps that it took, each of which is atomic.
#[derive(Default)]
pub(crate) struct History<'a> {
    threads: BTreeMap<usize, Vec<Step<'a>>>,
}

struct Step<'a> {
    section: usize,
    pieces: Vec<Piece<'a>>,
}

/// States that a search may look at.
const PATIENCE: usize = 200_000;

impl<'a> History<'a> {
    fn note(&mut self, (thread, section): (usize, usize), joins: bool, piece: Piece<'a>) {
        let steps = self.threads.entry(thread).or_default();
        match steps.last_mut() {
            Some(last) if joins && last.section == section => last.pieces.push(piece),
            _ => steps.push(Step {
                section,
                pieces: vec![piece],
            }),
        }
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece<'a>> {
        let steps = self.threads.values().flatten();
        steps.flat_map(|step| &step.pieces)
    }

    /// Whether every order does the same: accumulates of one operation, of which none fetches.
    fn commutes(&self) -> bool {
        let accesses = || self.pieces().map(|piece| piece.access);
        let first = accesses().next().map(|access| access.op);
        accesses().all(|access| {
            let same = Some(access.op) == first && access.op != Op::Replace;
            same && access.kind == Kind::Accumulate
        })
    }

    /// Whether some order of the steps fetches what was fetched and leaves what was left. `None`: it
    /// takes too long to find out.
    pub(crate) fn explains(&self, start: usize, from: &[Option<u8>], left: &[u8]) -> Option<bool> {
        if self.commutes() {
            let mut memory = from.to_vec();
            let mut pieces = self.pieces();
            let applied = pieces.all(|piece| piece.apply(&mut memory, start).is_ok());
            return Some(applied && differs(&memory, left).is_none());
        }
        let threads: Vec<&[Step<'_>]> = self.threads.values().map(Vec::as_slice).collect();
        let mut known = HashSet::new();
        let mut open = vec![(vec![0_usize; threads.len()], from.to_vec())];
        while let Some((taken, memory)) = open.pop() {
            let over = threads
                .iter()
                .zip(&taken)
                .all(|(steps, at)| steps.len() == *at);
            if over && differs(&memory, left).is_none() {
                return Some(true);
            }
            for (thread, steps) in threads.iter().enumerate() {
                let Some(step) = steps.get(taken[thread]) else {
                    continue;
                };
                let mut memory = memory.clone();
                let mut pieces = step.pieces.iter();
                if pieces.all(|piece| piece.apply(&mut memory, start).is_ok()) {
                    let mut taken = taken.clone();
                    taken[thread] += 1;
                    if known.insert((taken.clone(), memory.clone())) {
                        open.push((taken, memory));
                    }
                }
            }
            if known.len() > PATIENCE {
                return None;
            }
        }
        Some(false)
    }
}

impl fmt::Display for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (thread, steps) in &self.threads {
            writeln!(f, "  thread {thread}:")?;
            for piece in steps.iter().flat_map(|step| &step.pieces) {
                let Piece {
                    access,
                    elements,
                    fetched,
                } = piece;
                writeln!(
                    f,
                    "    {access}; elements {elements:?}, fetched {fetched:x?}"
                )?;
            }
        }
        Ok(())
    }
}
