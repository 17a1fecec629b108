//! The reference model: what MPI-4.1, chapter 12, lets a program see.
//!
//! A window is a vector of bytes per rank. Where one thread works alone, its accesses take effect in
//! the order of its script, so there is one right answer. Where several meet, each element (or each
//! epoch of an exclusive lock) is atomic: what they fetched and what is left at the end must come
//! from *some* order that keeps the order of every thread, and a search looks for one.
//!
//! What an operation makes of two elements says `elements`. Bytes that follow from a NaN that was
//! calculated are not determined; everything is allowed there until they are written again.

use std::collections::BTreeMap;
use std::ops::Range;

use transom::{BasicType, Op};
use transom_testing::model as elements;

use crate::access::{Access, Kind, is_padding};
use crate::history::Contest;
use crate::program::{Call, Epoch, Memory, Part, Program, Role, Round};

/// What a rank's memory must hold: `None` where the standard does not say.
pub(crate) type Bytes = Vec<Option<u8>>;

pub(crate) struct Model {
    /// By window and rank.
    windows: Vec<Vec<Bytes>>,
    /// Of notifications, likewise.
    counters: Vec<Vec<Vec<u64>>>,
    /// How many contested areas were decided, and for how many the search was given up.
    pub(crate) decided: u64,
    pub(crate) undecided: u64,
}

/// What the ranks showed after a round.
pub(crate) struct Seen {
    /// By window and rank.
    pub(crate) windows: Vec<Vec<Vec<u8>>>,
    pub(crate) counters: Vec<Vec<Vec<u64>>>,
    /// What accesses fetched, by number.
    pub(crate) fetched: BTreeMap<u32, Vec<u8>>,
}

/// What a part of a window holds when the window is made.
pub(crate) fn initial(program: &Program, window: usize, rank: u32) -> Vec<u8> {
    let Part { memory, size, .. } = &program.windows[window].parts[rank as usize];
    let byte = |at: usize| match memory {
        Memory::Allocate | Memory::Shared => 0,
        _ => (at * 13 + window * 101 + rank as usize * 57 + program.seed as usize) as u8,
    };
    (0..*size).map(byte).collect()
}

impl Model {
    pub(crate) fn new(program: &Program) -> Self {
        let part = |window, rank| {
            let bytes = initial(program, window, rank);
            bytes.into_iter().map(Some).collect()
        };
        let ranks = |window| (0..program.ranks).map(|rank| part(window, rank)).collect();
        let counters = |part: &Part| vec![0; part.counters as usize];
        let counters = program.windows.iter().map(|window| {
            let parts = window.parts.iter();
            parts.map(counters).collect()
        });
        Self {
            counters: counters.collect(),
            windows: (0..program.windows.len()).map(ranks).collect(),
            decided: 0,
            undecided: 0,
        }
    }

    /// Whether a round can have ended like this. What was left to chance is then taken from what was
    /// seen. Only a round's last epoch leaves memory to chance.
    pub(crate) fn judge(&mut self, round: &Round, seen: &Seen) -> Result<(), String> {
        for (rank, window, at, bytes) in &round.stores {
            let memory = &mut self.windows[*window][*rank as usize];
            let stored = bytes.iter().copied().map(Some);
            memory.splice(*at..*at + bytes.len(), stored).for_each(drop);
        }
        for epoch in &round.epochs {
            self.judge_epoch(epoch, seen)
                .map_err(|what| format!("epoch {}: {what}", epoch.number))?;
        }
        for (window, parts) in self.windows.iter_mut().enumerate() {
            for (rank, part) in parts.iter_mut().enumerate() {
                let found = &seen.windows[window][rank];
                if let Some(at) = differs(part, found) {
                    return Err(format!(
                        "window {window}, memory of rank {rank}, byte {at}: {}",
                        around(part, found, at)
                    ));
                }
                *part = found.iter().copied().map(Some).collect();
            }
        }
        if self.counters != seen.counters {
            return Err(format!(
                "the counters of notifications, by window and rank, are\n  {:?}, not\n  {:?}",
                seen.counters, self.counters
            ));
        }
        Ok(())
    }

    fn judge_epoch(&mut self, epoch: &Epoch, seen: &Seen) -> Result<(), String> {
        let mut contests = BTreeMap::<(u32, usize), Contest<'_>>::new();
        // What notifications put in order happens in the order of its numbers.
        let mut handed_over = BTreeMap::<u32, Piece<'_>>::new();
        let windows = &mut self.windows[epoch.window];
        let counters = &mut self.counters[epoch.window];
        for (thread, script) in epoch.scripts.iter().flatten().enumerate() {
            let mut section = 0;
            for call in script {
                let access = match call {
                    Call::Lock(..) => {
                        section += 1;
                        continue;
                    }
                    Call::Access(access) => access,
                    _ => continue,
                };
                if let Some(counter) = access.notifies {
                    counters[access.target as usize][counter as usize] += 1;
                }
                let fetched = seen.fetched.get(&access.id).map(Vec::as_slice);
                check_gaps(access, fetched.unwrap_or_default())?;
                let areas = &epoch.areas[access.target as usize];
                let area = areas.iter().position(|area| covers(&area.bytes, access));
                match area {
                    Some(index) if areas[index].role.is_contested() => {
                        let history = contests.entry((access.target, index)).or_default();
                        history.note(
                            &areas[index],
                            (thread, section),
                            Piece::whole(access, fetched),
                        );
                    }
                    Some(index) if matches!(areas[index].role, Role::Mailbox { .. }) => {
                        handed_over.insert(access.id, Piece::whole(access, fetched));
                    }
                    _ => Piece::whole(access, fetched).apply_all(windows)?,
                }
            }
        }
        for piece in handed_over.values() {
            piece.apply_all(windows)?;
        }
        for ((target, index), contest) in contests {
            let area = &epoch.areas[target as usize][index];
            let memory = &mut windows[target as usize];
            let left = &seen.windows[epoch.window][target as usize];
            for ((start, end), history) in contest.histories {
                let bytes = start..end;
                match history.explains(start, &memory[bytes.clone()], &left[bytes.clone()]) {
                    Some(true) => self.decided += 1,
                    None => self.undecided += 1,
                    Some(false) => {
                        return Err(format!(
                            "no order explains {:?} at bytes {bytes:?} of rank {target}: from {:x?} \
                             to {:x?} by\n{}",
                            area.role,
                            &memory[bytes.clone()],
                            &left[bytes.clone()],
                            history
                        ));
                    }
                }
                let left = left[bytes.clone()].iter().copied().map(Some);
                memory.splice(bytes, left).for_each(drop);
            }
        }
        Ok(())
    }
}

fn covers(area: &Range<usize>, access: &Access) -> bool {
    let bytes = access.bytes();
    area.start <= bytes.start && bytes.end <= area.end && !bytes.is_empty()
}

/// Between the elements of a result nothing may have been written.
fn check_gaps(access: &Access, fetched: &[u8]) -> Result<(), String> {
    if !access.fetches() {
        return Ok(());
    }
    let blank = |index| Some(Access::blank(access.id, index));
    let mut expected: Bytes = (0..access.back.len()).map(blank).collect();
    for (index, &(_, ty)) in access.back.places.iter().enumerate() {
        let place = &mut expected[access.back.element(index)];
        let data = (0..).zip(place).filter(|(at, _)| !is_padding(ty, *at));
        data.for_each(|(_, byte)| *byte = None);
    }
    match differs(&expected, fetched) {
        None => Ok(()),
        Some(at) => {
            let what = around(&expected, fetched, at);
            Err(format!(
                "byte {at}, in a gap of the result of {access}: {what}"
            ))
        }
    }
}

/// An element that was fetched and that no order explains.
pub(crate) struct Mismatch {
    element: usize,
    expected: Bytes,
}

/// Some elements of an access, with what it fetched of them.
#[derive(Clone)]
pub(crate) struct Piece<'a> {
    pub(crate) access: &'a Access,
    pub(crate) elements: Range<usize>,
    pub(crate) fetched: Option<&'a [u8]>,
}

impl<'a> Piece<'a> {
    fn whole(access: &'a Access, fetched: Option<&'a [u8]>) -> Self {
        let elements = 0..access.count();
        Self {
            access,
            elements,
            fetched,
        }
    }

    /// What was fetched of an element.
    fn found(&self, element: usize) -> &'a [u8] {
        let place = self.access.back.element(element);
        self.fetched.and_then(|all| all.get(place)).unwrap_or(&[])
    }

    /// Carries it out where nobody else works.
    fn apply_all(&self, windows: &mut [Bytes]) -> Result<(), String> {
        let memory = &mut windows[self.access.target as usize];
        self.apply(memory, 0)
            .map_err(|Mismatch { element, expected }| {
                let found = self.found(element);
                let at = differs(&expected, found).unwrap_or_default();
                let what = around(&expected, found, at);
                format!("element {element} fetched by {}: {what}", self.access)
            })
    }

    /// Carries it out on memory that begins at byte `start` of its target's, and compares what it
    /// fetched.
    pub(crate) fn apply(&self, memory: &mut [Option<u8>], start: usize) -> Result<(), Mismatch> {
        let Access { op, kind, .. } = *self.access;
        for element in self.elements.clone() {
            let (_, ty) = self.access.far.places[element];
            let place = self.access.far.element(element);
            let held = &mut memory[self.access.place(element) - start..][..place.len()];
            if self.access.fetches() {
                let mut expected = held.to_vec();
                let padding = (0..)
                    .zip(&mut expected)
                    .filter(|(at, _)| is_padding(ty, *at));
                padding.for_each(|(_, byte)| *byte = None);
                if differs(&expected, self.found(element)).is_some() {
                    return Err(Mismatch { element, expected });
                }
            }
            let own = |bytes: &'a [u8]| &bytes[self.access.near.element(element)];
            match kind {
                Kind::Get | Kind::Load => {}
                Kind::CompareAndSwap => {
                    let equal = differs(held, own(&self.access.compare)).is_none();
                    if held.contains(&None) {
                        held.fill(None);
                    } else if equal {
                        combine(Op::Replace, ty, held, own(&self.access.operands));
                    }
                }
                _ => combine(op, ty, held, own(&self.access.operands)),
            }
        }
        Ok(())
    }
}

/// `held = held op operands` for one element.
fn combine(op: Op, ty: BasicType, held: &mut [Option<u8>], operands: &[u8]) {
    if op == Op::NoOp {
        return;
    }
    let mut room = [0; 32];
    let bytes = &mut room[..held.len()];
    for (byte, held) in bytes.iter_mut().zip(&*held) {
        *byte = held.unwrap_or(0);
    }
    elements::apply(op, ty, bytes, operands);
    let moved = op == Op::Replace;
    let known = |(at, held): (usize, &Option<u8>)| held.is_some() || is_padding(ty, at);
    let determined = moved || held.iter().enumerate().all(known) && !elements::has_nan(ty, bytes);
    for (at, (held, byte)) in held.iter_mut().zip(bytes).enumerate() {
        if !is_padding(ty, at) {
            *held = determined.then_some(*byte);
        }
    }
}

pub(crate) fn differs(expected: &[Option<u8>], found: &[u8]) -> Option<usize> {
    if expected.len() != found.len() {
        return Some(expected.len().min(found.len()));
    }
    let differs = |(expected, found): (&Option<u8>, &u8)| expected.is_some_and(|b| b != *found);
    expected.iter().zip(found).position(differs)
}

fn around(expected: &[Option<u8>], found: &[u8], at: usize) -> String {
    let range = |len: usize| at.saturating_sub(8).min(len)..(at + 24).min(len);
    let expected: Vec<_> = expected[range(expected.len())]
        .iter()
        .map(|byte| byte.map_or("??".to_owned(), |byte| format!("{byte:02x}")))
        .collect();
    let from = at.saturating_sub(8);
    format!(
        "allowed from byte {from} on [{}], found {:02x?}",
        expected.join(", "),
        &found[range(found.len())]
    )
}
