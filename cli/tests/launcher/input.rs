//! Standard input, terminals included.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use libtest_mimic::Trial;
use transom_testing::job::{Job, run};
use transom_testing::terminal::terminal;

use crate::endings::trapping;

use crate::{script, trials};

pub(crate) fn tests() -> Vec<Trial> {
    trials!["input":
        rank_0_reads_it,
        what_is_not_read_is_left,
        a_terminal_is_read_for_rank_0,
        ctrl_c_reaches_the_ranks_once,
    ]
}

fn rank_0_reads_it() {
    let mut command = script(3, &[], "sed s/^/$PMI_RANK:/; echo $PMI_RANK ended");
    let mut job = Job::start(command.stdin(Stdio::piped()));
    job.child
        .stdin
        .take()
        .unwrap()
        .write_all(b"a\nb\n")
        .unwrap();
    let done = job.finish().expect(0);
    assert_eq!(
        done.sorted(),
        ["0 ended", "0:a", "0:b", "1 ended", "2 ended"]
    );
}

fn what_is_not_read_is_left() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"for whoever comes next").unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    run(script(2, &[], "true").stdin(file.try_clone().unwrap())).expect(0);
    let mut left = String::new();
    file.read_to_string(&mut left).unwrap();
    assert_eq!(left, "for whoever comes next");
}

/// Starts the command as the foreground job of a new session on the terminal.
fn on_terminal(command: &mut std::process::Command, theirs: OwnedFd) -> Job {
    command.stdin(theirs);
    // SAFETY: setsid and ioctl are async-signal-safe system calls.
    unsafe {
        command.pre_exec(|| {
            if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let job = Job::start(command);
    command.stdin(Stdio::null());
    job
}

fn a_terminal_is_read_for_rank_0() {
    let (mut ours, theirs) = terminal(100);
    let mut command = script(2, &[], "while read line; do echo $PMI_RANK got $line; done");
    let mut job = on_terminal(&mut command, theirs);
    let mut stdout = job.child.stdout.take().unwrap();
    for word in ["hello", "again"] {
        ours.write_all(format!("{word}\n").as_bytes()).unwrap();
        let line = transom_testing::job::read_lines(&mut stdout, 1);
        assert_eq!(line, format!("0 got {word}\n"));
    }
    // Ctrl-D.
    ours.write_all(b"\x04").unwrap();
    job.finish().expect(0);
}

fn ctrl_c_reaches_the_ranks_once() {
    let (mut ours, theirs) = terminal(100);
    let mut job = on_terminal(&mut script(2, &[], &trapping("INT")), theirs);
    transom_testing::job::read_lines(job.child.stdout.as_mut().unwrap(), 2);
    ours.write_all(b"\x03").unwrap();
    let done = job.finish().expect(128 + libc::SIGINT);
    assert_eq!(done.text(), "INT\nINT\n");
}
