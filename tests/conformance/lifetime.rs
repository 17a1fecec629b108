//! Hundreds of windows and communicators, one after another: nothing leaks.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use transom::raw::{Assert, Keyval, Window};
use transom::{ErrorClass, Info, Job, LockKind, Op};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::ops::{get, put};
use crate::pscw::of;
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["lifetime":
    windows_leak_nothing @ [2, 3],
    communicators_leak_nothing @ [3],
    alloc_mem_leaks_nothing @ [1],
    a_failed_creation_leaks_nothing @ [2],
    control_memory_grows @ [2, 3],
    nothing_appears_in_dev_shm @ [3],
    a_disagreement_reaches_whoever_waits @ [2, 3],
    blocks_come_back_after_a_free_that_failed @ [2],
];

/// Descriptors and mappings of this process.
fn held() -> (usize, usize) {
    let fds = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // The heap and thread stacks come and go; memory files are what windows are made of.
    let maps = maps.lines().filter(|line| line.contains("/memfd:")).count();
    (fds, maps)
}

fn windows_leak_nothing(job: &Job) -> Outcome {
    let world = job.world();
    let ahead = (world.rank() + 1) % world.size();
    let info = Info::new();
    let some = |rounds: usize| -> Outcome {
        for round in 0..rounds {
            let memory = MEMORIES[round % MEMORIES.len()];
            let window = Exposed::over(job, world, memory, 3000, 1, &info)?;
            if round % 3 == 0 {
                window.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
                put(&window, &[1], ahead, round as u64)?;
                window.unlock(ahead)?;
            }
            window.close()?;
        }
        Ok(())
    };
    some(20)?;
    world.barrier()?;
    let before = held();
    some(500)?;
    world.barrier()?;
    check_eq!(held(), before, "descriptors and mappings");
    Ok(())
}

fn communicators_leak_nothing(job: &Job) -> Outcome {
    let world = job.world();
    let some = |rounds: u32| -> Outcome {
        for round in 0..rounds {
            let dup = world.dup()?;
            // Enough to go round the buffers, and the sender is gone before all is read.
            let mut bytes = vec![round as u8 * u8::from(dup.rank() == round % 3); 8000];
            dup.bcast(&mut bytes, round % 3)?;
            check!(
                bytes.iter().all(|&byte| byte == round as u8),
                "round {round}"
            );
            drop(dup);
            let part = world.split((world.rank() != 1).then_some(7), 0)?;
            check_eq!(part.is_some(), world.rank() != 1);
            if let Some(part) = part {
                let ranks = part.gather(&vec![world.rank(); 2000], round % 2)?;
                if part.rank() == round % 2 {
                    check_eq!((ranks[0], ranks[3999]), (0, 2));
                }
            }
        }
        Ok(())
    };
    some(20)?;
    let before = held();
    // A communicator of three ranks takes 34 KB: 16 MiB would hold fewer than 500 at once.
    some(600)?;
    check_eq!(held(), before, "descriptors and mappings");
    Ok(())
}

fn alloc_mem_leaks_nothing(job: &Job) -> Outcome {
    let some = |rounds| -> Outcome {
        for size in 0..rounds {
            let memory = job.alloc_mem(size, &Info::new())?;
            for at in [0, size / 2, size.saturating_sub(1)] {
                if at < size {
                    // SAFETY: inside the memory.
                    unsafe { memory.add(at).write(1) };
                }
            }
            // SAFETY: in no window.
            unsafe { job.free_mem(memory)? };
        }
        Ok(())
    };
    some(10)?;
    let before = held();
    some(3000)?;
    check_eq!(held(), before);
    Ok(())
}

fn a_failed_creation_leaks_nothing(job: &Job) -> Outcome {
    let world = job.world();
    let some = |rounds: u32| -> Outcome {
        for round in 0..rounds {
            // One rank's arguments are bad, in turn.
            let unit = u64::from(round % 2 != world.rank());
            check!(Window::allocate(world, 100, unit, &Info::new()).is_err());
            let memory = Box::leak(Box::new([0_u8; 64]));
            // SAFETY: leaked.
            let created =
                unsafe { Window::create(world, memory.as_mut_ptr(), 64, unit, &Info::new()) };
            check!(created.is_err());
        }
        Ok(())
    };
    some(10)?;
    world.barrier()?;
    let before = held();
    some(250)?;
    world.barrier()?;
    check_eq!(held(), before);
    Ok(())
}

/// Windows and communicators of more control memory than a rank begins with: all work, and it is used again.
fn control_memory_grows(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    for _ in 0..2 {
        // Each takes 3 MiB.
        let counters: u32 = 50_000;
        let info = Info::new().with("transom_notification_counters", counters.to_string());
        let windows = (0..7).map(|_| Exposed::over(job, world, Memory::Allocate, 16, 8, &info));
        let windows: Vec<_> = windows.collect::<Result<_, _>>()?;
        let comms: Vec<_> = (0..150).map(|_| world.dup()).collect::<Result<_, _>>()?;
        for (number, window) in (1..).zip(&windows) {
            let last = counters - 1;
            let value = [u64::from(me) + number, number];
            window.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
            // SAFETY: the words outlive the epoch.
            unsafe { window.put_notify(value.as_ptr().cast(), 8, ahead, 0, last)? };
            window.unlock(ahead)?;
            window.wait_notify(last, 1)?;
            window.lock(LockKind::Shared, me, Assert::NONE)?;
            check_eq!(window.read_u64(0), u64::from(behind) + number);
            window.unlock(me)?;
            window.post(&of(window, &[behind])?, Assert::NONE)?;
            window.start(&of(window, &[ahead])?, Assert::NONE)?;
            put(window, &number.to_ne_bytes(), ahead, 1)?;
            window.complete()?;
            window.wait()?;
            check_eq!(window.read_u64(8), number);
            window.fence(Assert::NONE)?;
            window.fence(Assert::NO_SUCCEED)?;
        }
        let everyone: Vec<u32> = (0..ranks).collect();
        for comm in comms.iter().rev().take(3) {
            check_eq!(comm.allgather(&[me])?, everyone);
            check_eq!(
                comm.allreduce(&[vec![me; 5000]].concat(), Op::Max)?[4999],
                ranks - 1
            );
        }
        for window in windows {
            window.close()?;
        }
    }
    Ok(())
}

fn nothing_appears_in_dev_shm(job: &Job) -> Outcome {
    let listing = || {
        let mut names: Vec<_> = fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| {
                // Others may use it; what is ours bears our name or is open here.
                path.to_string_lossy().contains("transom")
            })
            .collect();
        names.sort();
        names
    };
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 1 << 20, 1)?;
        window.lock_all(Assert::NONE)?;
        let mut word = [0; 8];
        get(&window, &mut word, 0, 0)?;
        window.unlock_all()?;
        check!(listing().is_empty(), "{:?}", listing());
        for entry in fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .flatten()
        {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            check!(!target.starts_with("/dev/shm"), "{target:?} is open");
        }
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        check!(!maps.contains("/dev/shm"), "{maps}");
        window.close()?;
    }
    Ok(())
}

/// Rank 0 fences where the others free, and goes on at once: its next call must not hide that.
fn a_disagreement_reaches_whoever_waits(job: &Job) -> Outcome {
    let world = job.world();
    let window = Window::allocate(world, 64, 1, &Info::new())?;
    if world.rank() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let words = ["fence", "disagrees: fence here, free there"];
        refused(window.fence(Assert::NONE), ErrorClass::Arg, &words)?;
        let again = window.fence(Assert::NONE);
        refused(again, ErrorClass::Comm, &["fence", "out of step"])?;
    } else {
        let Err((_leaked, error)) = window.try_free() else {
            return Err(Failure::new("freed what rank 0 still uses"));
        };
        let words = "rank 0 disagrees: free here, fence there";
        refused(Err::<(), _>(error), ErrorClass::Arg, &["free", words])?;
    }
    world.barrier()?;
    Ok(())
}

/// The words that its peers write to a block go on after the first try to free it.
fn blocks_come_back_after_a_free_that_failed(job: &Job) -> Outcome {
    let world = job.world();
    let other = world.group().include(&[1 - world.rank()])?;
    let key = Keyval::with_delete(|_: &Window, stays: &Arc<AtomicBool>| {
        match stays.swap(false, Ordering::Relaxed) {
            true => Err("it stays".into()),
            false => Ok(()),
        }
    });
    let notifications = Info::new().with("transom_notification_counters", "4096");
    for _ in 0..200 {
        let window = Window::allocate(world, 64, 1, &notifications)?;
        window.set_attribute(&key, Arc::new(AtomicBool::new(true)))?;
        window.post(&other, Assert::NONE)?;
        window.start(&other, Assert::NONE)?;
        window.complete()?;
        window.wait()?;
        let Err((window, _)) = window.try_free() else {
            return Err(Failure::new("freed against its attribute"));
        };
        window.post(&other, Assert::NONE)?;
        window.start(&other, Assert::NONE)?;
        window.complete()?;
        window.wait()?;
        window.free()?;
    }
    Ok(())
}
