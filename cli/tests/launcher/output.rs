//! Whole lines, none lost.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use libtest_mimic::Trial;
use transom_testing::job::{Job, read_lines, run, until};

use crate::rank;

use crate::{role, script, transom_run, trials};

pub(crate) fn tests() -> Vec<Trial> {
    trials!["output":
        lines_are_whole_and_in_order,
        lines_are_whole_where_both_streams_are_one,
        labels_begin_every_line,
        the_last_line_needs_no_end,
        what_a_dying_rank_wrote_is_kept,
        a_very_long_line_passes,
        the_streams_stay_apart,
        a_reader_that_leaves_ends_the_job,
        a_reader_that_sleeps_does_not_keep_ranks_alive,
        a_full_disk_is_an_error,
    ]
}

const RANKS: u32 = 8;
const LINES: u32 = 20_000;

/// Checks that the text consists of all lines of all ranks, each rank's in order.
#[track_caller]
fn check_lines(text: &str, streams: &[&str]) {
    let mut next: HashMap<(u32, &str), u32> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
        let (Some(rank), Some(index)) = (number(), number()) else {
            panic!("broken line {line:?}");
        };
        let stream = streams
            .iter()
            .find(|stream| words.clone().next() == Some(stream));
        let stream = *stream.unwrap_or_else(|| panic!("broken line {line:?}"));
        assert_eq!(line, rank::line(rank, index, stream), "broken line");
        let next = next.entry((rank, stream)).or_default();
        assert_eq!(index, *next, "rank {rank} out of order");
        *next += 1;
    }
    assert_eq!(next.len(), RANKS as usize * streams.len());
    assert!(next.values().all(|&count| count == LINES), "{next:?}");
}

fn lines_are_whole_and_in_order() {
    let done = run(&mut role(RANKS, &[], "lines")).expect(0);
    check_lines(done.text(), &["out"]);
    check_lines(&done.stderr, &["err"]);
}

fn lines_are_whole_where_both_streams_are_one() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = role(RANKS, &[], "lines");
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let job = Job::start(&mut command);
    drop(command);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    job.finish().expect(0);
    check_lines(&text, &["out", "err"]);
}

fn labels_begin_every_line() {
    let text = "echo a; echo; printf 'b\\nc'; printf d >&2";
    let done = run(&mut script(2, &["--label"], text)).expect(0);
    for rank in ["[0] ", "[1] "] {
        let lines = done
            .text()
            .lines()
            .filter_map(|line| line.strip_prefix(rank));
        assert_eq!(lines.collect::<Vec<_>>(), ["a", "", "b", "c"]);
    }
    let mut errors: Vec<_> = done.stderr.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0] d", "[1] d"]);
    assert!(done.text().ends_with("c\n") && done.stderr.ends_with("d\n"));
}

fn the_last_line_needs_no_end() {
    let done = run(&mut script(1, &[], "printf 'one\\ntwo'")).expect(0);
    assert_eq!(done.text(), "one\ntwo");
    let done = run(&mut script(3, &[], "printf $PMI_RANK")).expect(0);
    assert_eq!(done.sorted(), ["0", "1", "2"]);
}

fn what_a_dying_rank_wrote_is_kept() {
    let done = run(&mut role(2, &[], "flood")).expect(128 + 9);
    // What rank 1 got rid of before it was ended is another matter.
    let first = done.text().lines().filter(|line| line.starts_with("0 "));
    for (index, line) in (0..).zip(first.clone()) {
        assert_eq!(line, rank::line(0, index, "out"));
    }
    assert_eq!(first.count(), rank::FLOOD as usize);
}

fn a_very_long_line_passes() {
    let text = "head -c 5000000 /dev/zero | tr '\\0' x; head -c 300 /dev/zero";
    let done = run(&mut script(1, &[], text)).expect(0);
    assert_eq!(done.stdout.len(), 5_000_300);
    assert_eq!(
        done.stdout.iter().filter(|&&byte| byte == b'x').count(),
        5_000_000
    );
}

fn the_streams_stay_apart() {
    let done = run(&mut script(2, &[], "echo out; echo err >&2")).expect(0);
    assert_eq!(done.text(), "out\nout\n");
    assert_eq!(done.stderr, "err\nerr\n");
}

fn a_reader_that_leaves_ends_the_job() {
    let mut job = Job::start(&mut transom_run(&["-n", "2", "yes"]));
    let mut stdout = job.child.stdout.take().unwrap();
    assert_eq!(read_lines(&mut stdout, 1), "y\n");
    drop(stdout);
    let done = job.finish().expect(128 + 13);
    assert_eq!(done.stderr, "");
}

fn a_reader_that_sleeps_does_not_keep_ranks_alive() {
    let text = "if [ $PMI_RANK = 0 ]; then exec yes; fi; read go; sleep 1; exit 4";
    // With output that nobody takes, the launcher waits, alone.
    let stuck = || {
        let mut job = Job::start(&mut script(2, &[], text));
        let told = read_lines(job.child.stderr.as_mut().unwrap(), 1);
        assert!(
            told.contains("rank 1 ") && told.contains("code 4"),
            "{told}"
        );
        until("the ranks end", || job.processes() == [job.child.id()]);
        assert!(job.child.try_wait().unwrap().is_none());
        job
    };
    let done = stuck().finish().expect(4);
    assert!(done.text().lines().all(|line| line == "y"));

    // A user who has had enough need not read it.
    let mut job = stuck();
    job.signal(libc::SIGTERM);
    assert_eq!(job.wait().code(), Some(4));
}

fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = script(2, &[], "echo text; sleep 1000");
    let done = run(command.stdout(OwnedFd::from(full))).expect(1);
    done.says("transom: cannot write to standard output: No space left");
}
