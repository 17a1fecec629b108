//! `transom model`, with what the example `scale` has measured.

use std::process::Command;

use transom_testing::launcher;
use transom_testing::programs::{printed, program};

transom_testing::tests! {
    the_model_reads_what_was_measured,
}

fn the_model_reads_what_was_measured() {
    let mut text = String::new();
    for ranks in [2, 3] {
        let mut command = launcher::command(ranks, &[]);
        command.arg(program("scale"));
        text += &printed(command.args(["--lines", "--repeat", "1", "--calls", "3"]));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    let said = printed(command.args(["model", "--fit"]).arg(file.path()));
    for call in ["barrier", "allreduce", "allgather", "fence", "pscw"] {
        assert_eq!(said.matches(&format!("\n{call}")).count(), 2, "{said}");
    }
}
