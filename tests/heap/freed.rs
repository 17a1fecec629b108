//! Memory that was a window is as if it had not been: it can be grown, moved, given up and
//! unmapped, and nothing of the window is left in the process.

use std::fs;
use std::ptr;

use transom::raw::{self, Assert};
use transom::{Info, Job, Result};

use crate::Case;
use crate::life::Interface;
use crate::setting;

pub(crate) fn cases() -> Vec<Case> {
    const BOTH: &[Interface] = &[Interface::Typed, Interface::Raw];
    // Only the raw interface makes windows over memory that the caller has mapped.
    const RAW: &[Interface] = &[Interface::Raw];
    let case = |name, interfaces, play| Case {
        name,
        ranks: 1,
        interfaces,
        settings: setting::ALL,
        play,
    };
    vec![
        case("grown_to_eight_times", BOTH, grown_to_eight_times),
        case("moved_and_grown", RAW, moved_and_grown),
        case("given_up", RAW, given_up),
        case(
            "large_windows_leave_nothing",
            BOTH,
            large_windows_leave_nothing,
        ),
        case(
            "small_windows_leave_nothing",
            BOTH,
            small_windows_leave_nothing,
        ),
    ]
}

fn grown_to_eight_times(job: &Job, interface: Interface) -> Result<()> {
    for len in [1000, 21_000, 300_000, 8 << 20, 40 << 20] {
        let mut memory = interface.live(job, vec![5; len], 9, || ())?;
        memory.resize(8 * len, 6);
        let (old, new) = memory.split_at(len);
        assert!(old[..len - 1].iter().all(|&byte| byte == 5) && old[len - 1] == 9);
        assert!(new.iter().all(|&byte| byte == 6), "{len}");
    }
    Ok(())
}

/// Private memory from `mmap`, all bytes 5, in which a window was that left a 9 in the middle.
fn formerly_a_window(job: &Job, len: usize) -> Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the place.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    let base = base.cast::<u8>();
    // SAFETY: the new mapping has `len` bytes. The window over all of them but the ends is freed
    // here, and nobody else knows of the memory.
    unsafe {
        base.write_bytes(5, len);
        let (inside, size) = (base.add(16), len - 32);
        let window = raw::Window::create(job.world(), inside, size, 1, &Info::new())?;
        window.fence(Assert::NONE)?;
        let nine = 9;
        window.put(&raw const nine, 1, 0, (len / 2 - 16) as u64)?;
        window.fence(Assert::NO_SUCCEED)?;
        window.free()?;
    }
    Ok(base)
}

const LENGTHS: [usize; 3] = [16 << 10, 256 << 10, 8 << 20];

fn moved_and_grown(job: &Job, _: Interface) -> Result<()> {
    for len in LENGTHS {
        let base = formerly_a_window(job, len)?;
        // SAFETY: our own mapping, which is not used at its old place any more; of the new one, all
        // is written and read before it is unmapped.
        unsafe {
            let base = libc::mremap(base.cast(), len, 8 * len, libc::MREMAP_MAYMOVE);
            assert_ne!(
                base,
                libc::MAP_FAILED,
                "{}",
                std::io::Error::last_os_error()
            );
            let base = base.cast::<u8>();
            let (old, new) = std::slice::from_raw_parts_mut(base, 8 * len).split_at_mut(len);
            assert_eq!((old[0], old[len / 2], old[len - 1]), (5, 9, 5));
            assert!(new.iter().all(|&byte| byte == 0));
            new.fill(1);
            old.fill(2);
            libc::munmap(base.cast(), 8 * len);
        }
    }
    Ok(())
}

fn given_up(job: &Job, _: Interface) -> Result<()> {
    for len in LENGTHS {
        let base = formerly_a_window(job, len)?;
        // SAFETY: our own mapping, of which nothing is kept, and which is unmapped last.
        unsafe {
            assert_eq!(libc::madvise(base.cast(), len, libc::MADV_DONTNEED), 0);
            let memory = std::slice::from_raw_parts_mut(base, len);
            assert!(memory.iter().all(|&byte| byte == 0), "{len}");
            memory.fill(1);
            assert_eq!(libc::munmap(base.cast(), len), 0);
        }
    }
    Ok(())
}

/// What a process holds of shared memory.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    mappings: usize,
    /// The library's memory files, as mappings and in bytes that are there.
    files: usize,
    shared_kib: u64,
}

fn held() -> Held {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let shared = status
        .lines()
        .find_map(|line| line.strip_prefix("RssShmem:"));
    let shared = shared
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .unwrap();
    Held {
        descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        mappings: maps.lines().count(),
        files: maps.lines().filter(|line| line.contains("memfd:")).count(),
        shared_kib: shared.trim().parse().unwrap(),
    }
}

fn large_windows_leave_nothing(job: &Job, interface: Interface) -> Result<()> {
    const LEN: usize = 64 << 20;
    drop(interface.live(job, vec![1; LEN], 1, || ())?);
    let before = held();
    for round in 0..10 {
        drop(interface.live(job, vec![round; LEN], round, || ())?);
    }
    let after = held();
    assert_eq!(
        (after.descriptors, after.files),
        (before.descriptors, before.files),
        "{before:?} {after:?}"
    );
    assert!(
        after.shared_kib < before.shared_kib + 1024,
        "{before:?} {after:?}"
    );
    Ok(())
}

/// The last is made of no more than the first.
fn small_windows_leave_nothing(job: &Job, interface: Interface) -> Result<()> {
    let mut first = None;
    for round in 0..20_000 {
        let mut alive = None;
        let memory = vec![round as u8; 1 + round * 31 % 9000];
        // What the allocator maps for itself is not counted where that is not looked at.
        interface.live(job, memory, 1, || {
            if round == 100 || round == 19_999 {
                alive = Some(held());
            }
        })?;
        match (&first, alive) {
            (None, alive) => first = alive,
            (Some(first), Some(last)) => {
                let Held {
                    descriptors,
                    files,
                    mappings,
                    ..
                } = last;
                assert_eq!((descriptors, files), (first.descriptors, first.files));
                assert!(mappings < first.mappings + 16, "{first:?} {last:?}");
            }
            _ => {}
        }
    }
    assert!(first.is_some());
    Ok(())
}
