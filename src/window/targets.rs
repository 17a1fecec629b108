//! The table of a window's targets, of which a forked child finds none entered.
//!
//! For speed, an operation on an entered target makes no other check. So this table has to stop a
//! forked child, which is not a rank: before `fork` returns in the child, no target is entered any
//! more, and the next operation takes the slow path. `vfork` and a raw `clone` run no handlers.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, Once};

use super::epochs::Held;
use super::target::Target;
use crate::memory::rank_set::RankSet;
use crate::memory::remote::RemoteWord;
use crate::wait::lock;

/// The targets of a window, one per rank.
pub(crate) struct Targets {
    table: NonNull<[Target]>,
    /// The targets whose routes are known, or about to be. No other target was ever used.
    used: Arc<RankSet>,
}

// SAFETY: owns the targets as a box does, and they are Send.
unsafe impl Send for Targets {}
// SAFETY: as above, and Sync.
unsafe impl Sync for Targets {}

impl Targets {
    /// None was ever used.
    pub(super) fn new(ranks: u32) -> Self {
        watch_forks();
        let table = Box::into_raw(bytemuck::zeroed_slice_box(ranks as usize));
        // SAFETY: the pointer comes from a box.
        let table = unsafe { NonNull::new_unchecked(table) };
        let used = Arc::new(RankSet::new(ranks));
        let entry = (table, used.clone());
        lock(&TABLES).0.insert(table.addr().get(), entry);
        Self { table, used }
    }

    /// The memory that they take without routes, once all of it is touched.
    pub(crate) const fn bytes(ranks: u32) -> u64 {
        ranks as u64 * size_of::<Target>() as u64 + RankSet::bytes(ranks)
    }

    /// Records that a target is about to be used. This comes before its route is set, so that a thread that sees the
    /// route finds the target among the used ones.
    pub(super) fn note_used(&self, rank: u32) {
        self.used.add(rank);
    }

    /// All targets that were ever used, in the order of ranks.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u32, &Target)> {
        let used = self.used.iter();
        used.map(move |rank| (rank, &self[rank as usize]))
    }

    /// Takes back the routes of all targets; nothing uses them any more.
    pub(super) fn drop_routes(&mut self) {
        let used = self.used.clone();
        for rank in used.iter() {
            drop(self[rank as usize].take_route());
        }
    }

    /// Removes these targets from the tables of all windows: they are about to be freed.
    pub(super) fn withdraw(&self) {
        lock(&TABLES).0.remove(&self.table.addr().get());
    }
}

impl Deref for Targets {
    type Target = [Target];

    #[inline]
    fn deref(&self) -> &[Target] {
        // SAFETY: made from a box in `new`, which `drop` takes back.
        unsafe { self.table.as_ref() }
    }
}

impl DerefMut for Targets {
    fn deref_mut(&mut self) -> &mut [Target] {
        // SAFETY: as above. There is no other reference: `in_child` and `held_locks` do not find withdrawn tables.
        unsafe { self.table.as_mut() }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.withdraw();
        // SAFETY: made from a box in `new`; no other reference is left.
        drop(unsafe { Box::from_raw(self.table.as_ptr()) });
    }
}

/// All tables of this process, by address, each with its used targets.
struct Tables(BTreeMap<usize, (NonNull<[Target]>, Arc<RankSet>)>);

// SAFETY: the tables are Send and Sync.
unsafe impl Send for Tables {}

impl Tables {
    /// The used targets of all tables. Allocates nothing.
    fn used(&self) -> impl Iterator<Item = &Target> {
        self.0.values().flat_map(|(table, used)| {
            // SAFETY: under the lock, a table is removed before it or one of its routes is freed; the lock guards
            // `self`.
            let table = unsafe { table.as_ref() };
            used.iter().map(move |rank| &table[rank as usize])
        })
    }
}

static TABLES: Mutex<Tables> = Mutex::new(Tables(BTreeMap::new()));

/// The locks that this process holds, in all its windows, and their kinds; without those that are only asserted.
pub(crate) fn held_locks() -> Vec<(Held, RemoteWord)> {
    let tables = lock(&TABLES);
    (tables.used())
        .filter_map(|target| match target.epoch().held() {
            held @ (Held::Shared | Held::Exclusive) => {
                Some((held, target.route()?.lock.to_look_at()))
            }
            _ => None,
        })
        .collect()
}

/// The lock of the tables during a fork, so that a child does not inherit a table that is half removed.
struct Forking(UnsafeCell<Option<MutexGuard<'static, Tables>>>);

// SAFETY: only a thread that forks accesses it, and only while it holds the lock.
unsafe impl Sync for Forking {}

static FORKING: Forking = Forking(UnsafeCell::new(None));

/// From now on, forked children find no target entered.
fn watch_forks() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        // SAFETY: the handlers stay valid, as this code is never unloaded.
        let rc = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
        if rc != 0 {
            tracing::warn!(
                rc,
                "pthread_atfork failed: a forked child may use windows by mistake"
            );
        }
    });
}

extern "C" fn prepare() {
    let tables = lock(&TABLES);
    // SAFETY: this thread forks and holds the lock.
    unsafe { *FORKING.0.get() = Some(tables) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread forked and holds the lock.
    drop(unsafe { (*FORKING.0.get()).take() });
}

/// Must not allocate.
extern "C" fn in_child() {
    // SAFETY: as above, and the child has no other thread.
    let tables = unsafe { (*FORKING.0.get()).take() };
    for target in tables.iter().flat_map(|tables| tables.used()) {
        target.epoch().leave_in_child();
    }
}

#[cfg(test)]
mod tests {
    use super::super::epochs::Epochs;
    use super::*;

    #[test]
    fn a_forked_child_finds_no_target_entered() {
        let targets = Targets::new(5);
        let epochs = Epochs::new();
        let is_entered = |rank: usize| epochs.is_entered(targets[rank].epoch());
        for rank in [1, 4] {
            targets.note_used(rank);
            epochs.enter(targets[rank as usize].epoch());
        }
        drop(Targets::new(3));
        // SAFETY: the child calls nothing but atomics and _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let left = !is_entered(1) && !is_entered(4);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if left { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: waits for our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(is_entered(1) && is_entered(4));
    }
}
