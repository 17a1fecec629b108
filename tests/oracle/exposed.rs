//! A rank's part of a window, and other ranks' where the processor reaches it.

use std::alloc::{self, alloc, dealloc};
use std::ops::Range;
use std::sync::Mutex;

use transom::raw::{Flavor, SharedPart, Window, get_address};
use transom::{ErrorClass, Info, Job};

use crate::access::Access;
use crate::buffers::{Buffer, GUARD_BYTE};
use crate::model;
use crate::program::{Memory, Program};

const PAGE: usize = 4096;

/// Regions that touch each other, and share a page with other things.
const SPARES: usize = 3;
const SPARE: usize = 50;

/// Memory of a dynamic window that is attached now and then, and not used.
#[derive(Default)]
struct Spare {
    memory: Option<Buffer>,
    attached: [bool; SPARES],
    next: usize,
}

/// A window and this rank's memory under it.
pub(crate) struct Exposed<'j> {
    job: &'j Job,
    pub(crate) window: Window,
    memory: Memory,
    pub(crate) base: *mut u8,
    pub(crate) size: usize,
    heap: Option<(*mut u8, alloc::Layout)>,
    /// The regions of a dynamic window: first byte and length.
    regions: Vec<(usize, usize)>,
    spare: Mutex<Spare>,
    /// By rank, the displacement of the first byte.
    starts: Vec<u64>,
    /// By rank.
    sizes: Vec<usize>,
}

// SAFETY: threads call the window's methods, which several may, and touch bytes of its memory that
// belong to them alone.
unsafe impl Sync for Exposed<'_> {}

impl<'j> Exposed<'j> {
    /// Collective.
    pub(crate) fn open(job: &'j Job, program: &Program, number: usize) -> transom::Result<Self> {
        let (world, rank) = (job.world(), job.world().rank());
        let parts = &program.windows[number].parts;
        let part = &parts[rank as usize];
        let info = part
            .hints
            .iter()
            .fold(Info::new(), |info, (key, value)| info.with(*key, *value));
        let (size, unit) = (part.size, part.unit);
        let mut heap = None;
        let mut base = std::ptr::null_mut();
        match part.memory {
            Memory::Allocate | Memory::Shared => {}
            Memory::AllocMem => base = job.alloc_mem(size, &info)?.as_ptr(),
            Memory::Heap { into_page } => base = take_heap(&mut heap, size, into_page),
            Memory::Dynamic => base = take_heap(&mut heap, size, rank as usize * 24),
        }
        let content = model::initial(program, number, rank);
        if !base.is_null() {
            // SAFETY: the memory has `size` bytes, and nobody else knows of it.
            unsafe { base.copy_from_nonoverlapping(content.as_ptr(), size) };
        }
        let window = match part.memory {
            Memory::Allocate => Window::allocate(world, size, unit, &info)?,
            Memory::Shared => match Window::allocate_shared(world, size, unit, &info) {
                // The same on all ranks: the device maps nothing.
                Err(error) if error.class() == ErrorClass::RmaShared => {
                    Window::allocate(world, size, unit, &info)?
                }
                made => made?,
            },
            Memory::Dynamic => Window::create_dynamic(world, &info)?,
            // SAFETY: the memory is given back in `close`, after the window.
            _ => unsafe { Window::create(world, base, size, unit, &info)? },
        };
        let is_dynamic = part.memory == Memory::Dynamic;
        if base.is_null() {
            base = window.base();
        }
        let mut edges = vec![0];
        edges.extend(&part.cuts);
        edges.push(size);
        let regions = edges.windows(2).map(|edge| (edge[0], edge[1] - edge[0]));
        let mut exposed = Self {
            job,
            window,
            memory: part.memory,
            base,
            size,
            heap,
            regions: regions.filter(|_| is_dynamic).collect(),
            spare: Mutex::default(),
            starts: Vec::new(),
            sizes: parts.iter().map(|part| part.size).collect(),
        };
        if is_dynamic {
            exposed.attach()?;
            exposed.starts = world.allgather(&[get_address(base)])?;
        }
        if exposed.window.flavor() == Flavor::Shared {
            let noncontiguous = part.hints.contains(&("alloc_shared_noncontig", "true"));
            exposed.check_parts(noncontiguous)?;
        }
        Ok(exposed)
    }

    /// In a shared window all parts are in this process, and follow each other if nothing was said.
    fn check_parts(&self, noncontiguous: bool) -> transom::Result<()> {
        let mut end = None;
        for rank in 0..self.window.ranks() {
            let part = self.window.shared_query(Some(rank))?;
            if !noncontiguous {
                assert!(
                    end.is_none_or(|end| end == part.base),
                    "rank {rank}: {part:?}"
                );
                end = Some(part.base.wrapping_add(part.size as usize));
            }
        }
        let own = self.window.shared_query(Some(self.window.rank()))?;
        assert_eq!(own.base, self.window.base(), "this rank's own part");
        let first = self.sizes.iter().position(|&size| size > 0);
        let first = self.window.shared_query(first.map(|rank| rank as u32))?;
        assert_eq!(
            self.window.shared_query(None)?,
            first,
            "the first that is not empty"
        );
        Ok(())
    }

    /// A rank's memory, if the processor reaches it here.
    pub(crate) fn reach(&self, rank: u32) -> transom::Result<Option<Reached>> {
        let size = self.sizes[rank as usize];
        if rank == self.window.rank() {
            return Ok(Some(self.own()));
        }
        let SharedPart {
            base,
            size: found,
            disp_unit,
        } = self.window.shared_query(Some(rank))?;
        let unit = self.window.disp_unit_of(rank)?;
        assert_eq!(disp_unit, unit, "unit of rank {rank}");
        let is_shared = self.window.flavor() == Flavor::Shared;
        if found == 0 && size > 0 && !is_shared {
            assert!(base.is_null(), "rank {rank} has no memory here");
            return Ok(None);
        }
        assert_eq!(found as usize, size, "size of rank {rank}");
        Ok(Some(Reached { base, size }))
    }

    /// The displacement of byte `at` of a target.
    pub(crate) fn disp(&self, target: u32, at: usize) -> u64 {
        match self.starts.get(target as usize) {
            Some(start) => start + at as u64,
            None => {
                let unit = self
                    .window
                    .disp_unit_of(target)
                    .expect("a rank of the window");
                at as u64 / unit
            }
        }
    }

    /// The smallest displacement at which `len` bytes do not fit any more.
    pub(crate) fn past(&self, target: u32, len: usize) -> u64 {
        let Some(last) = self.sizes[target as usize].checked_sub(len) else {
            return self.disp(target, 0);
        };
        self.disp(target, last) + 1
    }

    /// Of a target.
    pub(crate) fn unit(&self, target: u32) -> u64 {
        let unit = self.window.disp_unit_of(target);
        unit.expect("a rank of the window")
    }

    /// Whether an access could as well be one displacement unit further on.
    pub(crate) fn has_room_behind(&self, access: &Access) -> bool {
        let end = access.bytes().end + self.unit(access.target) as usize;
        self.window.flavor() != Flavor::Dynamic && end <= self.sizes[access.target as usize]
    }

    /// This rank's last byte.
    pub(crate) fn last(&self) -> *mut u8 {
        self.base.wrapping_add(self.size).wrapping_sub(1)
    }

    fn attach(&self) -> transom::Result<()> {
        for &(at, len) in &self.regions {
            // SAFETY: a part of the heap memory, which is given back after the window.
            unsafe { self.window.attach(self.base.wrapping_add(at), len)? };
        }
        Ok(())
    }

    /// Attaches or detaches the next of the spare regions.
    pub(crate) fn churn(&self) -> transom::Result<()> {
        let mut spare = self.spare.lock().expect("no thread panicked with it");
        let number = spare.next % SPARES;
        spare.next += 1;
        let bytes = spare
            .memory
            .get_or_insert_with(|| Buffer::new(&[0; SPARES * SPARE], 3));
        let region = bytes.pointer().wrapping_add(number * SPARE);
        match spare.attached[number] {
            true => self.window.detach(region)?,
            // SAFETY: a part of memory that is given back after the window; nobody uses it.
            false => unsafe { self.window.attach(region, SPARE)? },
        }
        spare.attached[number] ^= true;
        Ok(())
    }

    /// Gives a dynamic window's regions other places in its table.
    pub(crate) fn reattach(&mut self) -> transom::Result<()> {
        for &(at, _) in &self.regions {
            self.window.detach(self.base.wrapping_add(at))?;
        }
        self.regions.rotate_left(1);
        self.attach()
    }

    /// This rank's memory, while no operation changes it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.own().load(0..self.size)
    }

    fn own(&self) -> Reached {
        let (base, size) = (self.base, self.size);
        Reached { base, size }
    }

    pub(crate) fn store(&self, at: usize, bytes: &[u8]) {
        self.own().store(at, bytes);
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
        let spare = self.spare.into_inner().expect("no thread panicked with it");
        spare.memory.into_iter().for_each(Buffer::release);
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

/// A rank's memory in this process's address space, while its window is there.
pub(crate) struct Reached {
    base: *mut u8,
    size: usize,
}

impl Reached {
    pub(crate) fn load(&self, bytes: Range<usize>) -> Vec<u8> {
        assert!(bytes.end <= self.size);
        // SAFETY: inside the memory; no rank writes these bytes now.
        let load = |at| unsafe { self.base.add(at).read_volatile() };
        // The last one first: what is late came last.
        let mut loaded: Vec<u8> = bytes.rev().map(load).collect();
        loaded.reverse();
        loaded
    }

    pub(crate) fn store(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.size);
        for (at, byte) in (at..).zip(bytes) {
            // SAFETY: inside the memory; no rank accesses this byte now.
            unsafe { self.base.add(at).write_volatile(*byte) };
        }
    }
}

/// Heap memory with guards around it.
fn take_heap(
    heap: &mut Option<(*mut u8, alloc::Layout)>,
    size: usize,
    into_page: usize,
) -> *mut u8 {
    let layout = alloc::Layout::from_size_align(size + 4 * PAGE, PAGE).expect("layout");
    // SAFETY: the layout is not empty, and the block is as long as what is written.
    let block = unsafe {
        let block = alloc(layout);
        assert!(!block.is_null(), "out of memory");
        block.write_bytes(GUARD_BYTE, layout.size());
        block
    };
    *heap = Some((block, layout));
    block.wrapping_add(PAGE + into_page)
}
