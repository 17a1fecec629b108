//! Windows that cannot be made: the class of the error and its operands on all ranks, and a next
//! window that works.

use transom::raw::{Assert, Window};
use transom::{ErrorClass, Info, Job};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, Memory};
use crate::ops::put;
use crate::refused::{refused, works};

pub(crate) const CASES: &[Case] = cases!["window_misuse":
    units_that_are_none @ [2],
    sizes_that_are_none @ [2],
    memory_that_is_not_mapped @ [2, 3],
    malformed_hints @ [2],
    unknown_hints_are_ignored @ [1],
    one_rank_fails_in_create @ [1, 3, 5],
    several_ranks_fail_in_allocate @ [3],
];

fn units_that_are_none(job: &Job) -> Outcome {
    let mut bytes = [0_u8; 8];
    for unit in [0, 1 << 63, u64::MAX] {
        let words: &[&str] = &[&format!("unit {unit} "), "1 to 9223372036854775807"];
        let allocated = Window::allocate(job.world(), 8, unit, &Info::new());
        refused(allocated, ErrorClass::Disp, words)?;
        // SAFETY: refused.
        let created =
            unsafe { Window::create(job.world(), bytes.as_mut_ptr(), 8, unit, &Info::new()) };
        refused(created, ErrorClass::Disp, words)?;
    }
    let window = Exposed::open(job, Memory::Allocate, 8, i64::MAX as u64)?;
    works(job, &window)?;
    window.close()
}

fn sizes_that_are_none(job: &Job) -> Outcome {
    for size in [usize::MAX, isize::MAX as usize + 1] {
        let allocated = Window::allocate(job.world(), size, 1, &Info::new());
        refused(allocated, ErrorClass::Size, &[&size.to_string()])?;
    }
    for size in [isize::MAX as usize, 1 << 62, 1 << 50] {
        let allocated = Window::allocate(job.world(), size, 1, &Info::new());
        refused(allocated, ErrorClass::NoMem, &["allocate"])?;
        refused(
            job.alloc_mem(size, &Info::new()),
            ErrorClass::NoMem,
            &["alloc_mem"],
        )?;
    }
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    works(job, &window)?;
    window.close()
}

fn memory_that_is_not_mapped(job: &Job) -> Outcome {
    let world = job.world();
    // A page, one behind it that is gone, and one that nobody may use; far from where the kernel puts
    // new mappings by itself, so that the gap stays.
    let far = 0x2000_0000_0000_usize as *mut libc::c_void;
    // SAFETY: a new mapping, of which a part is unmapped again.
    let page = unsafe {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(far, 3 * 4096, prot, flags, -1, 0).cast::<u8>();
        assert!(!pages.is_null());
        libc::munmap(pages.add(4096).cast(), 4096);
        libc::mprotect(pages.add(8192).cast(), 4096, libc::PROT_NONE);
        pages
    };
    let last = world.size() - 1;
    for (base, len) in [
        (page, 4097),
        (page.wrapping_add(4096), 1),
        (page.wrapping_add(8192), 8),
        (0x10 as *mut u8, 16),
        (usize::MAX as *mut u8, 100),
        (page, isize::MAX as usize),
        (0xffff_8000_0000_0000_usize as *mut u8, 64),
    ] {
        // The last rank's memory alone is bad.
        let mut good = [0_u8; 8];
        let (base, len) = if world.rank() == last {
            (base, len)
        } else {
            (good.as_mut_ptr(), 8)
        };
        // SAFETY: what is not mapped is refused.
        let created = unsafe { Window::create(world, base, len, 1, &Info::new()) };
        let named = at_fault(world.rank(), last);
        let error = created.err().ok_or_else(|| {
            Failure::new(format_args!("{len} bytes at {base:p} were let through"))
        })?;
        check!(error.to_string().contains(&named), "{error}");
        check_eq!(error.class(), ErrorClass::Base, "{error}");
    }
    // SAFETY: the mapped page, which is unmapped below.
    let window = unsafe { Window::create(world, page, 4096, 1, &Info::new())? };
    window.fence(Assert::NONE)?;
    put(&window, &[1], 0, 4095)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    // SAFETY: our own mapping, in no window.
    unsafe { libc::munmap(page.cast(), 3 * 4096) };
    Ok(())
}

fn malformed_hints(job: &Job) -> Outcome {
    let world = job.world();
    let class = ErrorClass::InfoValue;
    for (key, value) in [
        ("mpi_minimum_memory_alignment", "24"),
        ("mpi_minimum_memory_alignment", "0"),
        ("mpi_minimum_memory_alignment", "-4096"),
        ("mpi_minimum_memory_alignment", "4 KiB"),
        ("mpi_minimum_memory_alignment", ""),
        ("mpi_minimum_memory_alignment", "9223372036854775808"),
        ("no_locks", "yes"),
        ("no_locks", "TRUE"),
        ("transom_eager_lock_all", "1"),
    ] {
        let info = Info::new().with(key, value);
        let quoted = format!("{value:?}");
        let words: &[&str] = &[key, &quoted, "legal"];
        refused(Window::allocate(world, 8, 1, &info), class, words)?;
        if key.contains("alignment") {
            refused(job.alloc_mem(8, &info), class, words)?;
        }
    }
    let info = Info::new().with("no_locks", "never");
    let mut word = [0_u8; 8];
    // SAFETY: refused.
    let created = unsafe { Window::create(world, word.as_mut_ptr(), 8, 1, &info) };
    refused(created, class, &["no_locks", "\"never\"", "true, false"])?;
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    works(job, &window)?;
    window.close()
}

fn unknown_hints_are_ignored(job: &Job) -> Outcome {
    let info = Info::new()
        .with("cb_nodes", "perhaps")
        .with("no_locks", "true")
        .with("no_locks", "false");
    let window = Exposed::over(job, job.world(), Memory::Allocate, 8, 1, &info)?;
    works(job, &window)?;
    window.close()
}

/// What an error of a collective says of the rank at fault: that rank gets its own error.
fn at_fault(me: u32, culprit: u32) -> String {
    if me == culprit {
        String::new()
    } else {
        format!("rank {culprit} failed")
    }
}

/// Every other rank gets an error that names the one that failed, with its words and class; the
/// next creation works.
fn one_rank_fails_in_create(job: &Job) -> Outcome {
    let world = job.world();
    let mut word = [0_u8; 8];
    for culprit in 0..world.size() {
        let bad = world.rank() == culprit;
        let named = at_fault(world.rank(), culprit);
        let unit = if bad { 0 } else { 4 };
        // SAFETY: refused.
        let created = unsafe { Window::create(world, word.as_mut_ptr(), 8, unit, &Info::new()) };
        refused(created, ErrorClass::Disp, &["create", &named, "unit 0"])?;
        let size = if bad { 1 << 62 } else { 100 };
        let allocated = Window::allocate(world, size, 4, &Info::new());
        refused(allocated, ErrorClass::NoMem, &["allocate", &named])?;
        let info = Info::new().with("no_locks", if bad { "maybe" } else { "true" });
        let allocated = Window::allocate(world, 8, 4, &info);
        refused(
            allocated,
            ErrorClass::InfoValue,
            &["allocate", &named, "\"maybe\""],
        )?;
        let window = Exposed::open(job, Memory::Heap, 8, 1)?;
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn several_ranks_fail_in_allocate(job: &Job) -> Outcome {
    let world = job.world();
    let unit = [8, 0, u64::MAX][world.rank() as usize];
    let allocated = Window::allocate(world, 8, unit, &Info::new());
    // To those that are not at fault, the lowest is named.
    let words: &[&str] = match world.rank() {
        0 => &["rank 1 failed", "unit 0"],
        1 => &["unit 0"],
        _ => &["unit 18446744073709551615"],
    };
    refused(allocated, ErrorClass::Disp, words)?;
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    works(job, &window)?;
    window.close()
}
