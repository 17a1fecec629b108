//! Runs the program, and compares what it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use transom_testing::job::{Done, run};
use transom_testing::launcher;
use transom_testing::programs;

use crate::texts::Lines;

pub(crate) fn program() -> PathBuf {
    programs::program("wordcount")
}

/// The program on these ranks.
pub(crate) fn wordcount(ranks: u32) -> Command {
    let mut command = launcher::command(ranks, &[]);
    command.arg(program());
    command
}

/// The program under a shell on each rank, which says how it ended.
pub(crate) fn endings(ranks: u32, arguments: &[&Path]) -> Done {
    programs::endings(ranks, &program(), arguments)
}

/// Runs the program with `--all`, and compares.
pub(crate) fn check(command: &mut Command, files: &[&Path], expected: &Lines) {
    let done = run(command.arg("--all").args(files));
    assert!(done.status.success(), "{command:?}: {}", done.stderr);
    assert_eq!(done.stderr, "", "{command:?}");
    let parse = |line: &str| -> Option<(u64, String)> {
        let (count, word) = line.split_once('\t')?;
        Some((count.parse().ok()?, word.to_owned()))
    };
    let lines: Lines = done
        .text()
        .lines()
        .map(|line| parse(line).unwrap_or_else(|| panic!("{command:?}: {line:?}")))
        .collect();
    if let Some((ours, theirs)) = lines.iter().zip(expected).find(|(a, b)| a != b) {
        panic!("{command:?}: counted {ours:?}, expected {theirs:?}");
    }
    assert_eq!(lines.len(), expected.len(), "{command:?}");
}
