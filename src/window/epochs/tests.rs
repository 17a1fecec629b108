//! The table, held against the code for each call in each state that any calls lead to, and against the
//! page that shows it.

mod table;

use std::collections::BTreeSet;

use bytemuck::Zeroable;

use super::*;
use crate::error::{EpochState, ErrorKind, Misuse};
use table::{CALLS, Cell, ME, T, TABLE, TableCall, TableState};

/// In which of several ways each call is made that has some.
#[derive(Clone, Copy)]
struct How {
    concurrent: bool,
    /// With `NO_CHECK`.
    unchecked: bool,
    exclusive: bool,
    /// `lock_all` takes all locks at once; what `start` waits for is there.
    early: bool,
}

impl How {
    fn all() -> impl Iterator<Item = Self> {
        (0..16).map(|bits| Self {
            concurrent: bits & 1 != 0,
            unchecked: bits & 2 != 0,
            exclusive: bits & 4 != 0,
            early: bits & 8 != 0,
        })
    }

    fn held(self) -> Held {
        match self {
            Self {
                unchecked: true, ..
            } => Held::Unchecked,
            Self {
                exclusive: true, ..
            } => Held::Exclusive,
            _ => Held::Shared,
        }
    }
}

/// All that tells one state from another.
type Seen = (Mode, u32, bool, [Held; 2], [bool; 2], Vec<u32>);

/// A window without memory.
struct Bare {
    epochs: Epochs,
    targets: [TargetEpoch; 2],
}

impl Bare {
    fn new() -> Self {
        Self {
            epochs: Epochs::new(),
            targets: Zeroable::zeroed(),
        }
    }

    /// After some calls, all of them legal.
    fn after(calls: &[TableCall], how: How) -> Self {
        let bare = Self::new();
        for &call in calls {
            bare.call(call, how).unwrap();
        }
        bare
    }

    fn target(&self, rank: u32) -> &TargetEpoch {
        &self.targets[rank as usize]
    }

    /// Makes a call, as far as it concerns the epochs.
    fn call(&self, call: TableCall, how: How) -> Result<()> {
        let (epochs, own, t) = (&self.epochs, self.target(ME), self.target(T));
        match call {
            TableCall::Fence => self.fence(true, true)?,
            TableCall::NoSucceed => self.fence(true, false)?,
            TableCall::NoPrecede => self.fence(false, true)?,
            TableCall::Start => {
                epochs.check_start("start")?;
                epochs.next_serial();
                epochs.start_on(t);
                if how.early {
                    epochs.enter(t);
                }
                epochs.start(how.unchecked);
            }
            TableCall::Complete => {
                epochs.check_complete("complete")?;
                epochs.let_go(t);
                epochs.end_access();
            }
            TableCall::Post => {
                epochs.check_post(Aim::new("post", ME), own)?;
                epochs.post();
            }
            TableCall::Wait => {
                epochs.check_wait("wait")?;
                epochs.wait();
            }
            TableCall::LockAll if !epochs.may_lock_all() => {
                return Err(epochs.refuse_lock_all("lock_all"));
            }
            TableCall::LockAll => {
                epochs.next_serial();
                if !how.unchecked && !how.early {
                    epochs.lock_own(own);
                }
                epochs.lock_all(how.unchecked);
                if !how.unchecked && how.early {
                    epochs.lock_own(own);
                    self.operate(T)?;
                }
            }
            TableCall::UnlockAll if !epochs.mode().is_lock_all() => {
                return Err(epochs.refuse_unlock_all("unlock_all"));
            }
            TableCall::UnlockAll => {
                let unchecked = epochs.mode() == Mode::LockAllUnchecked;
                epochs.end_access();
                if !unchecked {
                    let others = epochs.take_entered().into_iter();
                    others.for_each(|rank| epochs.release(self.target(rank)));
                    epochs.release(own);
                }
            }
            TableCall::Free => epochs.check_free("free")?,
            TableCall::Lock(rank) => {
                if !epochs.takes_locks() {
                    epochs.prepare_lock("lock", rank == ME)?;
                }
                epochs.begin_lock(Aim::new("lock", rank), self.target(rank), how.concurrent)?;
                epochs.lock(self.target(rank), how.held(), how.concurrent);
            }
            TableCall::Unlock(rank) => {
                let target = self.target(rank);
                let Some(held) = epochs.locked_by_lock(target) else {
                    return Err(epochs.refuse_unlock(Aim::new("unlock", rank), target));
                };
                assert!(epochs.begin_unlock(target, held, how.concurrent));
                epochs.let_go(target);
            }
            TableCall::Put(rank) => self.operate(rank)?,
            TableCall::Rput(rank) if !epochs.takes_requests() => {
                let target = Some(self.target(rank));
                return Err(epochs.refuse_request(Aim::new("rput", rank), target));
            }
            TableCall::Rput(rank) => self.operate(rank)?,
            TableCall::Flush(rank) if !epochs.is_passive(self.target(rank)) => {
                return Err(epochs.refuse_flush(Aim::new("flush", rank), self.target(rank)));
            }
            TableCall::Flush(_) => {}
            TableCall::FlushAll => epochs.check_flush_all("flush_all")?,
        }
        Ok(())
    }

    fn fence(&self, precede: bool, succeed: bool) -> Result<()> {
        self.epochs.check_fence(precede)?;
        self.epochs.fence(succeed);
        Ok(())
    }

    fn operate(&self, rank: u32) -> Result<()> {
        let (epochs, target) = (&self.epochs, self.target(rank));
        if !epochs.is_entered(target) {
            match epochs.admit(Aim::new("put", rank), target)? {
                Admission::AwaitsLock => epochs.enter_locked(rank, target),
                _ => epochs.enter(target),
            }
        }
        Ok(())
    }

    fn seen(&self) -> Seen {
        let epochs = &self.epochs;
        let held = [ME, T].map(|rank| self.target(rank).held());
        let entered = [ME, T].map(|rank| epochs.is_entered(self.target(rank)));
        let to_release = epochs.entered().clone();
        (
            epochs.mode(),
            epochs.locks(),
            epochs.is_exposed(),
            held,
            entered,
            to_release,
        )
    }

    /// Its row.
    fn state(&self) -> TableState {
        let (mode, locks, exposed, held, ..) = self.seen();
        let locked = held.map(Held::is_held);
        let counted = locked.into_iter().filter(|&locked| locked).count();
        assert!(mode.is_lock_all() || locks == counted as u32);
        match (mode, locked, exposed) {
            (Mode::Idle, [false, false], false) => TableState::N,
            (Mode::FenceUnused, [false, false], false) => TableState::F,
            (Mode::Fence, [false, false], false) => TableState::U,
            (Mode::Idle, [false, true], false) => TableState::L,
            (Mode::Idle, [true, false], false) => TableState::M,
            (Mode::Idle, [true, true], false) => TableState::B,
            (Mode::LockAll | Mode::LockAllUnchecked, _, false) => TableState::A,
            (Mode::Started | Mode::StartedUnchecked, [false, false], false) => TableState::S,
            (Mode::Idle, [false, false], true) => TableState::X,
            (Mode::Idle, [false, true], true) => TableState::XL,
            (Mode::Started | Mode::StartedUnchecked, [false, false], true) => TableState::XS,
            _ => panic!("no row for {:?}", self.seen()),
        }
    }
}

fn row(state: TableState) -> &'static [Cell; CALLS.len()] {
    let found = TABLE.iter().find(|(of, ..)| *of == state);
    &found.unwrap().2
}

fn what_is_open(error: &crate::Error) -> EpochState {
    match error.kind() {
        ErrorKind::Misuse(Misuse::Epoch { state, .. }) => *state,
        _ => panic!("{error}"),
    }
}

#[test]
fn each_call_does_in_each_state_what_the_table_says() {
    for how in How::all() {
        let mut met = BTreeSet::new();
        let mut rows = BTreeSet::new();
        let mut ways = vec![Vec::new()];
        while let Some(way) = ways.pop() {
            let here = Bare::after(&way, how);
            if !met.insert(here.seen()) {
                continue;
            }
            rows.insert(here.state());
            for ((call, ..), cell) in CALLS.iter().zip(row(here.state())) {
                let bare = Bare::after(&way, how);
                let before = bare.seen();
                let found = bare.call(*call, how);
                let found = found.map(|()| bare.state());
                let found = found.map_err(|error| what_is_open(&error));
                assert_eq!(found, *cell, "{call:?} after {way:?}");
                match found {
                    Ok(_) => ways.push([&*way, &[*call]].concat()),
                    Err(_) => assert_eq!(bare.seen(), before, "{call:?} after {way:?}"),
                }
            }
        }
        let all = TABLE.iter().map(|(state, ..)| *state);
        assert_eq!(rows, all.collect(), "rows that calls lead to");
    }
}

/// Locks, groups and entered targets go with their epoch.
#[test]
fn no_epoch_leaves_anything_to_the_next() {
    for how in How::all() {
        let ends: [(&[TableCall], TableCall); 5] = [
            (&[TableCall::Fence, TableCall::Put(T)], TableCall::NoSucceed),
            (&[TableCall::Start, TableCall::Put(T)], TableCall::Complete),
            (&[TableCall::Post], TableCall::Wait),
            (
                &[TableCall::LockAll, TableCall::Put(T), TableCall::Put(ME)],
                TableCall::UnlockAll,
            ),
            (
                &[TableCall::Lock(T), TableCall::Put(T)],
                TableCall::Unlock(T),
            ),
        ];
        for (begin, end) in ends {
            let bare = Bare::after(&[begin, &[end]].concat(), how);
            assert_eq!(bare.seen(), Bare::new().seen(), "{begin:?}, {end:?}");
        }
    }
}

/// What other threads meet while one takes a lock, or gives it back.
#[test]
fn a_lock_that_changes_is_nobodys() {
    for how in How::all().filter(|how| how.concurrent) {
        let refused = |bare: &Bare, call: TableCall, state: EpochState| {
            let error = bare.call(call, how).unwrap_err();
            assert_eq!(what_is_open(&error), state, "{call:?}");
        };
        let bare = Bare::new();
        let (epochs, t) = (&bare.epochs, bare.target(T));
        epochs.begin_lock(Aim::new("lock", T), t, true).unwrap();
        refused(&bare, TableCall::Lock(T), EpochState::Locked(T));
        refused(&bare, TableCall::Unlock(T), EpochState::NotLocked(T));
        refused(&bare, TableCall::Put(T), EpochState::None);
        refused(&bare, TableCall::Flush(T), EpochState::None);
        epochs.let_go(t);
        assert_eq!(bare.seen(), Bare::new().seen());
        bare.call(TableCall::Lock(T), how).unwrap();
        assert!(epochs.begin_unlock(t, how.held(), true));
        assert!(
            !epochs.begin_unlock(t, how.held(), true),
            "by another thread"
        );
        refused(&bare, TableCall::Lock(T), EpochState::Locked(T));
        refused(&bare, TableCall::Put(T), EpochState::None);
        epochs.let_go(t);
        assert_eq!(bare.seen(), Bare::new().seen());
    }
}

#[test]
fn the_page_shows_the_table() {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<_> = cells.collect();
        format!("//! | {} |\n", cells.join(" | "))
    };
    let mut page = String::new();
    for columns in [0..10, 10..20] {
        let calls = &CALLS[columns.clone()];
        let first = |name: &str| std::iter::once(name.to_owned());
        page += &line(&mut first("").chain(calls.iter().map(|call| call.1.to_owned())));
        page += &format!("//! |{}\n", "---|".repeat(1 + calls.len()));
        page += &line(&mut first("MPI-4.1").chain(calls.iter().map(|call| call.2.to_owned())));
        for (state, _, cells) in &TABLE {
            let cell = |cell: &Cell| cell.map_or("·".to_owned(), |to| format!("{to:?}"));
            let name = first(&format!("**{state:?}**"));
            page += &line(&mut name.chain(cells[columns.clone()].iter().map(cell)));
        }
        page += "//!\n";
    }
    let shown = include_str!("mod.rs");
    assert!(shown.contains(&page), "the page lacks\n{page}");
    for (state, meaning, _) in &TABLE {
        let line = format!("//! - **{state:?}**: {meaning}\n");
        assert!(shown.contains(&line), "the page lacks\n{line}");
    }
}
