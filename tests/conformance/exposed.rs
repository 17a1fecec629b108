//! Windows over every kind of memory, with guard bytes around the memory where we own it.

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Deref;
use std::ptr::NonNull;

use transom::raw::Window;
use transom::{Communicator, Info, Job};

use crate::case::{Failure, Outcome, check};

/// Where a window's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Allocate,
    AllocMem,
    /// The heap, aligned to a line.
    Heap,
    /// The heap, at an odd address.
    Odd,
}

pub(crate) const MEMORIES: [Memory; 4] = [
    Memory::Allocate,
    Memory::AllocMem,
    Memory::Heap,
    Memory::Odd,
];

/// The kinds in which elements are aligned.
pub(crate) const ALIGNED: [Memory; 2] = [Memory::Allocate, Memory::Heap];

const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xa5;

/// A window and the memory under it.
pub(crate) struct Exposed<'j> {
    window: Option<Window>,
    job: &'j Job,
    memory: Memory,
    base: *mut u8,
    size: usize,
    /// What was taken from the heap, guards included.
    heap: Option<(*mut u8, Layout)>,
}

impl Deref for Exposed<'_> {
    type Target = Window;

    fn deref(&self) -> &Window {
        self.window.as_ref().expect("not closed")
    }
}

impl<'j> Exposed<'j> {
    /// Collective. A window of zeroes over the world.
    pub(crate) fn open(
        job: &'j Job,
        memory: Memory,
        size: usize,
        unit: u64,
    ) -> Result<Self, Failure> {
        Self::over(job, job.world(), memory, size, unit, &Info::new())
    }

    pub(crate) fn over(
        job: &'j Job,
        comm: &Communicator,
        memory: Memory,
        size: usize,
        unit: u64,
        info: &Info,
    ) -> Result<Self, Failure> {
        let mut heap = None;
        let base = match memory {
            Memory::Allocate => {
                let window = Window::allocate(comm, size, unit, info)?;
                return Ok(Self {
                    base: window.base(),
                    window: Some(window),
                    job,
                    memory,
                    size,
                    heap,
                });
            }
            Memory::AllocMem => job.alloc_mem(size, info)?.as_ptr(),
            Memory::Heap | Memory::Odd => {
                let layout = Layout::from_size_align(size + 2 * GUARD + 1, 64).expect("layout");
                // SAFETY: the layout is not empty, and the block is as long as what is written.
                let block = unsafe {
                    let block = alloc(layout);
                    assert!(!block.is_null());
                    block.write_bytes(GUARD_BYTE, layout.size());
                    block
                };
                heap = Some((block, layout));
                let base = block.wrapping_add(GUARD + usize::from(memory == Memory::Odd));
                // SAFETY: inside the block.
                unsafe { base.write_bytes(0, size) };
                base
            }
        };
        // SAFETY: the memory is freed in `close`, after the window.
        let window = unsafe { Window::create(comm, base, size, unit, info)? };
        Ok(Self {
            window: Some(window),
            job,
            memory,
            base,
            size,
            heap,
        })
    }

    /// This rank's memory, to be looked at while nobody writes to it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.read(0, self.size)
    }

    pub(crate) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.size);
        let mut bytes = vec![0; len];
        if len > 0 {
            // SAFETY: inside the memory; the case sees to it that nobody writes there now.
            unsafe {
                bytes
                    .as_mut_ptr()
                    .copy_from_nonoverlapping(self.base.add(at), len)
            };
        }
        bytes
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.size);
        if !bytes.is_empty() {
            let len = bytes.len();
            // SAFETY: as for `read`.
            unsafe {
                self.base
                    .add(at)
                    .copy_from_nonoverlapping(bytes.as_ptr(), len)
            };
        }
    }

    pub(crate) fn read_u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.read(at, 8).try_into().expect("eight bytes"))
    }

    /// Collective. Frees the window, then its memory, whose surroundings must be untouched.
    pub(crate) fn close(mut self) -> Outcome {
        self.window.take().expect("not closed").free()?;
        if let Some((block, layout)) = self.heap {
            let memory = self.base.addr() - block.addr();
            for at in (0..memory).chain(memory + self.size..layout.size()) {
                // SAFETY: inside the block, which is no window any more.
                let found = unsafe { block.add(at).read() };
                check!(
                    found == GUARD_BYTE,
                    "byte {at} of {layout:?} round a window of {} bytes at {memory} became {found:#x}",
                    self.size
                );
            }
            // SAFETY: allocated with this layout.
            unsafe { dealloc(block, layout) };
        }
        if self.memory == Memory::AllocMem {
            let base = NonNull::new(self.base).expect("alloc_mem never returns null");
            // SAFETY: the window is freed.
            unsafe { self.job.free_mem(base)? };
        }
        Ok(())
    }
}

/// Where the pattern repeats: a prime, longer than a page.
const PERIOD: usize = 4099;

/// A byte that tells rank, place and round apart.
pub(crate) fn pattern(rank: u32, at: usize, round: usize) -> u8 {
    let mixed = (at % PERIOD) as u32 * 31 + rank * 97 + round as u32 * 13;
    (mixed ^ mixed >> 8) as u8 | 1
}

pub(crate) fn patterned(rank: u32, len: usize, round: usize) -> Vec<u8> {
    let first: Vec<u8> = (0..len.min(PERIOD))
        .map(|at| pattern(rank, at, round))
        .collect();
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        bytes.extend_from_slice(&first[..PERIOD.min(len - bytes.len())]);
    }
    bytes
}
