//! Memory with guard bytes around it: buffers of operations, and parts of windows.

use std::alloc::{Layout, alloc, dealloc};

use transom::raw::Window;
use transom::{Info, Job};

use crate::model;
use crate::program::{Memory, Program};

const GUARD: usize = 40;
const GUARD_BYTE: u8 = 0xc3;
const PAGE: usize = 4096;

/// A buffer of any alignment.
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(content: &[u8], shift: usize) -> Self {
        let start = GUARD + shift % 16;
        let mut bytes = vec![GUARD_BYTE; start + content.len() + GUARD];
        bytes[start..start + content.len()].copy_from_slice(content);
        Self {
            bytes: bytes.into(),
            start,
            len: content.len(),
        }
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(self.start)
    }

    /// To be called when no operation uses it.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// Makes sure that whoever still reads it is found out.
    pub(crate) fn scribble(&mut self) {
        self.bytes[self.start..self.start + self.len].fill(0x5a);
    }

    pub(crate) fn is_guarded(&self) -> bool {
        let (before, rest) = self.bytes.split_at(self.start);
        let mut guards = before.iter().chain(&rest[self.len..]);
        guards.all(|byte| *byte == GUARD_BYTE)
    }
}

/// A window and this rank's memory under it.
pub(crate) struct Exposed<'j> {
    job: &'j Job,
    pub(crate) window: Window,
    memory: Memory,
    pub(crate) base: *mut u8,
    pub(crate) size: usize,
    heap: Option<(*mut u8, Layout)>,
}

// SAFETY: threads call the window's methods, which several may, and touch bytes of its memory that
// belong to them alone.
unsafe impl Sync for Exposed<'_> {}

impl<'j> Exposed<'j> {
    /// Collective.
    pub(crate) fn open(job: &'j Job, program: &Program, number: usize) -> transom::Result<Self> {
        let (world, rank) = (job.world(), job.world().rank());
        let part = &program.windows[number].parts[rank as usize];
        let info = part
            .hints
            .iter()
            .fold(Info::new(), |info, (key, value)| info.with(*key, *value));
        let mut heap = None;
        let base = match part.memory {
            Memory::Allocate => {
                let window = Window::allocate(world, part.size, part.unit, &info)?;
                return Ok(Self {
                    job,
                    base: window.base(),
                    window,
                    memory: part.memory,
                    size: part.size,
                    heap,
                });
            }
            Memory::AllocMem => job.alloc_mem(part.size, &info)?.as_ptr(),
            Memory::Heap { into_page } => {
                let layout = Layout::from_size_align(part.size + 4 * PAGE, PAGE).expect("layout");
                // SAFETY: the layout is not empty, and the block is as long as what is written.
                let block = unsafe {
                    let block = alloc(layout);
                    assert!(!block.is_null(), "out of memory");
                    block.write_bytes(GUARD_BYTE, layout.size());
                    block
                };
                heap = Some((block, layout));
                block.wrapping_add(PAGE + into_page)
            }
        };
        let content = model::initial(program, number, rank);
        // SAFETY: the memory has `size` bytes, and nobody else knows of it; it is given back in
        // `close`, after the window.
        let window = unsafe {
            base.copy_from_nonoverlapping(content.as_ptr(), content.len());
            Window::create(world, base, part.size, part.unit, &info)?
        };
        Ok(Self {
            job,
            window,
            memory: part.memory,
            base,
            size: part.size,
            heap,
        })
    }

    /// This rank's memory, while no operation changes it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        (0..self.size).map(|at| self.load(at)).collect()
    }

    pub(crate) fn load(&self, at: usize) -> u8 {
        assert!(at < self.size);
        // SAFETY: inside the memory; no rank writes this byte now.
        unsafe { self.base.add(at).read_volatile() }
    }

    pub(crate) fn store(&self, at: usize, byte: u8) {
        assert!(at < self.size);
        // SAFETY: inside the memory; no rank accesses this byte now.
        unsafe { self.base.add(at).write_volatile(byte) }
    }

    pub(crate) fn is_guarded(&self) -> bool {
        let Some((block, layout)) = self.heap else {
            return true;
        };
        let inside = self.base.addr() - block.addr()..self.base.addr() - block.addr() + self.size;
        let mut outside = (0..layout.size()).filter(|at| !inside.contains(at));
        // SAFETY: inside the block; nobody may write there.
        outside.all(|at| unsafe { block.add(at).read_volatile() } == GUARD_BYTE)
    }

    /// Collective.
    pub(crate) fn close(self) -> transom::Result<()> {
        self.window.free()?;
        match (self.memory, self.heap) {
            (Memory::AllocMem, _) => {
                let base = std::ptr::NonNull::new(self.base).expect("memory of alloc_mem");
                // SAFETY: it came from alloc_mem, and the only window over it is gone.
                unsafe { self.job.free_mem(base) }
            }
            (_, Some((block, layout))) => {
                // SAFETY: allocated in `open` with this layout; the window over it is gone.
                unsafe { dealloc(block, layout) };
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
