//! What a rank says of its part of a window, in words of its block: peers read it at their first access.

use std::sync::atomic::Ordering;

use bytemuck::{Pod, Zeroable};
use rdma_sys_shim::RemoteRegion;

use super::layout::{ENTRY_AT, ENTRY_WORDS};
use super::{Window, WindowMemory};
use crate::error::{Error, Misuse, PeerError, Result};
use crate::memory::control::ControlBlock;
use crate::memory::remote::RemoteMemory;
use crate::peers::not_forked;
use crate::terms::{Aim, WorldRank};

const _: () = assert!(size_of::<Entry>() == 8 * ENTRY_WORDS);

/// One rank's part of a window. In a dynamic window, base, size and rkey are those of the rank's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Entry {
    pub(super) base: u64,
    pub(super) size: u64,
    pub(super) rkey: u64,
    pub(super) unit: u64,
    /// The rank's number of notification counters.
    pub(super) counters: u64,
}

impl Entry {
    /// Whether a rank can have written this. The device checks the address of its memory.
    fn makes_sense(&self) -> bool {
        self.size <= isize::MAX as u64
            && self.base.checked_add(self.size).is_some()
            && (1..=i64::MAX as u64).contains(&self.unit)
            && self.counters <= u32::MAX.into()
    }

    /// The rank's memory as its device knows it.
    pub(super) fn exposed(&self) -> RemoteRegion {
        RemoteRegion {
            address: self.base,
            len: self.size,
            rkey: self.rkey,
        }
    }

    /// Writes it to the block, before peers learn the block's place.
    pub(super) fn write_to(&self, block: &ControlBlock) {
        let words: [u64; ENTRY_WORDS] = bytemuck::cast(*self);
        for (at, word) in (ENTRY_AT..).step_by(8).zip(words) {
            block.word(at).store(word, Ordering::Relaxed);
        }
    }

    fn read_from(memory: &RemoteMemory, block: u64) -> Result<Self> {
        let mut entry = Self::zeroed();
        memory.read(block + ENTRY_AT, bytemuck::bytes_of_mut(&mut entry))?;
        Ok(entry)
    }
}

impl Window {
    /// A rank's entry. Reads it if this rank has no route to that rank yet.
    pub(super) fn entry_of(&self, aim: Aim) -> Result<Entry> {
        if aim.rank == self.rank() {
            return Ok(self.parts.own);
        }
        match self.targets[aim.rank as usize].route() {
            Some(route) => Ok(route.entry),
            None => aim.aside(|aim| {
                not_forked(aim.operation)?;
                if self.context().has_left_itself() {
                    return Err(Error::new(aim.operation, Misuse::JobLeft));
                }
                let read = || {
                    let (memory, block) = self.block_of(aim.rank)?;
                    self.read_entry(aim.rank, &memory, block)
                };
                read().map_err(|error| self.team.blame(aim.operation, aim.rank, error))
            }),
        }
    }

    /// The same, if the rank's block is known. The block holds the entry until the window is freed. The window is not
    /// freed while this rank may access it: see `try_free`.
    pub(super) fn read_entry(&self, rank: u32, memory: &RemoteMemory, block: u64) -> Result<Entry> {
        if rank == self.rank() {
            return Ok(self.parts.own);
        }
        let entry = Entry::read_from(memory, block)?;
        let is_inside = match &self.memory {
            Some(WindowMemory::Shared(shared)) => shared.part(&entry.exposed()).is_some(),
            _ => true,
        };
        if entry.makes_sense() && is_inside {
            return Ok(entry);
        }
        let (WorldRank(rank), what) = (self.team.world_rank(rank), "the part of the window");
        Err(Error::new("access", PeerError::Garbled { rank, what }))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::comm::Communicator;
    use crate::memory::columns::Column;
    use crate::peers::ranks_in_process;
    use crate::raw::Assert;
    use crate::wait::Patience;
    use crate::window::Info;

    /// The error of whoever meets a rank that says what cannot be.
    fn error_of_lie(device: &str, meet: fn(&Window) -> Result<()>) -> String {
        let ranks = ranks_in_process(device, 2, Patience::suspicious());
        let call = |context| {
            let world = Communicator::world(context);
            let size = 64 * (1 + world.rank() as usize);
            let window = Window::allocate(&world, size, 1, &Info::new()).unwrap();
            if world.rank() == 1 {
                let lie = Entry {
                    size: u64::MAX,
                    ..window.parts.own
                };
                lie.write_to(&window.block);
            }
            window.fence(Assert::NONE).unwrap();
            let error = (world.rank() == 0).then(|| meet(&window).unwrap_err());
            // The job was aborted.
            assert!(window.fence(Assert::NO_SUCCEED).is_err());
            error
        };
        thread::scope(|scope| {
            let threads = ranks.iter().map(|rank| scope.spawn(move || call(rank)));
            let threads: Vec<_> = threads.collect();
            let errors = threads.into_iter().filter_map(|one| one.join().unwrap());
            errors.map(|error| error.to_string()).collect()
        })
    }

    #[test]
    fn an_entry_that_lies_is_an_error_of_the_access() {
        for device in ["soft", "soft:map=off"] {
            let put = error_of_lie(device, |window| {
                assert_eq!(window.size_of(0)?, 64);
                // SAFETY: puts nothing.
                unsafe { window.put([0_u8; 1].as_ptr(), 0, 1, 0) }
            });
            let size = error_of_lie(device, |window| window.size_of(1).map(drop));
            for (error, operation) in [(put, "put"), (size, "size_of")] {
                let is_named = error.starts_with(operation) && error.contains("rank 1");
                assert!(
                    is_named && error.contains("the part of the window"),
                    "{error}"
                );
            }
        }
    }

    /// Communicators of different sizes, and contacts of some ranks, do not keep windows from standing at one place.
    #[test]
    fn blocks_of_windows_stand_at_one_place() {
        let ranks = ranks_in_process("soft", 5, Patience::suspicious());
        let call = |context| {
            let world = Communicator::world(context);
            let first = world.rank() == 0;
            let part = world.split(Some(first.into()), 0).unwrap().unwrap();
            let make = || Window::allocate(&world, 64, 1, &Info::new()).unwrap();
            let window = make();
            if world.rank() < 2 {
                let other = world.group().include(&[1 - world.rank()]).unwrap();
                window.post(&other, Assert::NONE).unwrap();
                window.start(&other, Assert::NONE).unwrap();
                window.complete().unwrap();
                window.wait().unwrap();
            }
            let more = make();
            for window in [&window, &more] {
                let blocks = &window.parts.blocks;
                assert!(matches!(blocks, Column::Uniform(_)), "{blocks:?}");
            }
            // A window that only some have keeps the next one from it.
            let of_first = first.then(|| Window::allocate(&part, 64, 1, &Info::new()).unwrap());
            let apart = make();
            assert!(matches!(&apart.parts.blocks, Column::PerRank(_)));
            let next = make();
            assert!(matches!(&next.parts.blocks, Column::Uniform(_)));
            for window in [window, more, apart, next].into_iter().chain(of_first) {
                window.free().unwrap();
            }
        };
        thread::scope(|scope| {
            for rank in &ranks {
                scope.spawn(move || call(rank));
            }
        });
    }

    #[test]
    fn a_part_that_cannot_be_is_known() {
        let entry = Entry {
            base: 4096,
            size: 64,
            rkey: 1,
            unit: 1,
            counters: 8,
        };
        let most = i64::MAX as u64;
        let legal = [
            entry,
            Entry {
                size: 0,
                base: 0,
                ..entry
            },
            Entry {
                unit: most,
                ..entry
            },
            Entry {
                size: most,
                ..entry
            },
        ];
        assert!(legal.iter().all(Entry::makes_sense));
        let lies = [
            Entry {
                base: u64::MAX,
                ..entry
            },
            Entry {
                size: most + 1,
                ..entry
            },
            Entry {
                base: most + 2,
                size: most,
                ..entry
            },
            Entry { unit: 0, ..entry },
            Entry {
                unit: most + 1,
                ..entry
            },
            Entry {
                counters: 1 << 32,
                ..entry
            },
        ];
        for lie in &lies {
            assert!(!lie.makes_sense(), "{lie:?}");
        }
    }
}
