//! What a fork costs a rank that has much memory in windows.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use transom::raw::{self, Assert};
use transom::{Info, Job, Result, Window};

use crate::Case;
use crate::life::Interface;
use crate::setting;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        name: "a_fork_copies_nothing_of_windows",
        ranks: 2,
        interfaces: &[Interface::Typed, Interface::Raw],
        settings: setting::ALL,
        play: a_fork_copies_nothing_of_windows,
    }]
}

/// As many pages as are in the windows, of 4 KiB.
const LEN: usize = 256 << 20;
const PAGES: u64 = (LEN >> 12) as u64;

/// What a child is made of.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Pages that the child had to make or copy, that of its own doing included.
    faults: u64,
    /// Its tables of pages, in KiB.
    tables: u64,
}

/// Forks a child that reads its status, and ends.
fn cost_of_fork() -> Cost {
    let mut pipe = [0; 2];
    // SAFETY: two descriptors are written to the array.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let before = faults_of_children();
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut text = [0_u8; 4096];
        // SAFETY: reads into the array and writes from it; then the child ends.
        unsafe {
            let file = libc::open(c"/proc/self/status".as_ptr(), libc::O_RDONLY);
            let len = libc::read(file, text.as_mut_ptr().cast(), text.len());
            libc::write(pipe[1], text.as_ptr().cast(), len.max(0) as usize);
            libc::_exit(0);
        }
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "of the child");
    let mut text = [0_u8; 4096];
    // SAFETY: what the child wrote; the descriptors are ours.
    let len = unsafe {
        let len = libc::read(pipe[0], text.as_mut_ptr().cast(), text.len());
        libc::close(pipe[0]);
        libc::close(pipe[1]);
        usize::try_from(len).unwrap()
    };
    let text = str::from_utf8(&text[..len]).unwrap();
    let tables = text.lines().find_map(|line| line.strip_prefix("VmPTE:"));
    let tables = tables
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .unwrap();
    Cost {
        faults: faults_of_children() - before,
        tables: tables.trim().parse().unwrap(),
    }
}

/// The pages that children have faulted in that were waited for.
fn faults_of_children() -> u64 {
    // SAFETY: plain numbers, which the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    (usage.ru_minflt + usage.ru_majflt) as u64
}

/// As `Command` does where it forks: with a closure for the child, it cannot be a spawn.
fn fork_and_exec() {
    let mut command = Command::new("/bin/true");
    // SAFETY: the closure does nothing.
    unsafe { command.pre_exec(|| Ok(())) };
    assert!(command.status().unwrap().success());
}

fn a_fork_copies_nothing_of_windows(job: &Job, interface: Interface) -> Result<()> {
    let world = job.world();
    let other = 1 - world.rank();
    let mut memory = vec![7_u8; LEN];
    // The vector's own tables are part of what a fork costs without a window.
    let without = cost_of_fork();
    let (within, exec) = match interface {
        Interface::Typed => {
            let mut window = Window::create(world, memory)?;
            let mine = [1];
            window.fence(|epoch| epoch.target(other)?.put(LEN / 2, &mine))?;
            let cost = (cost_of_fork(), cost_of_exec());
            assert!(window.local()?.iter().filter(|&&byte| byte != 7).eq(&[1]));
            window.free()?;
            cost
        }
        Interface::Raw => {
            let base = memory.as_mut_ptr();
            // SAFETY: the vector outlives the window, and is not touched meanwhile.
            let window = unsafe { raw::Window::create(world, base, LEN, 1, &Info::new())? };
            window.fence(Assert::NONE)?;
            let mine = 1;
            // SAFETY: one byte, complete with the next fence.
            unsafe { window.put(&raw const mine, 1, other, LEN as u64 / 2)? };
            window.fence(Assert::NO_SUCCEED)?;
            let cost = (cost_of_fork(), cost_of_exec());
            window.free()?;
            assert!(memory.iter().filter(|&&byte| byte != 7).eq(&[1]));
            cost
        }
    };
    let allowed = PAGES / 64;
    let report = format!("without {without:?}, within {within:?}, exec {exec}");
    assert!(within.faults < without.faults + allowed, "{report}");
    assert!(within.tables < without.tables + 256, "{report}");
    assert!(exec < without.faults + allowed, "{report}");
    world.barrier()?;
    Ok(())
}

fn cost_of_exec() -> u64 {
    let before = faults_of_children();
    fork_and_exec();
    faults_of_children() - before
}
