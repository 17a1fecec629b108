//! The programs of the user guide: they stand there as they are in `examples/guide`, and run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[allow(dead_code, reason = "what only other tests use")]
#[path = "../programs/mod.rs"]
mod programs;

use programs::{printed, program, transom_run};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// By name.
fn files() -> BTreeMap<String, String> {
    let entries = fs::read_dir(Path::new(ROOT).join("examples/guide")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let named = paths.map(|path| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(&path).unwrap())
    });
    named.filter(|(name, _)| name != "main").collect()
}

/// The blocks of Rust in the guide.
fn blocks(guide: &str) -> Vec<&str> {
    let mut parts = guide.split("```rust\n");
    parts.next();
    parts
        .map(|part| part.split_once("```").unwrap().0)
        .collect()
}

#[test]
fn programs_stand_in_the_guide_as_they_are() {
    let guide = fs::read_to_string(Path::new(ROOT).join("docs/guide.md")).unwrap();
    let files = files();
    let blocks = blocks(&guide);
    for block in &blocks {
        let known = files.values().any(|file| file == block);
        assert!(known, "no file of examples/guide has this:\n{block}");
    }
    for (name, file) in &files {
        let here = blocks.iter().any(|block| *block == file);
        assert!(
            here,
            "examples/guide/{name}.rs does not stand in docs/guide.md"
        );
        let link = format!("[`{name}`](../examples/guide/{name}.rs)");
        assert!(guide.contains(&link), "docs/guide.md has no link {link}");
    }
}

fn run(device: &str, ranks: &[u32]) {
    for name in files().keys() {
        for &ranks in ranks {
            let mut command = transom_run(ranks, &["--device", device]);
            assert_eq!(printed(command.arg(program("guide")).arg(name)), "");
        }
    }
}

#[test]
fn programs_run_on_any_number_of_ranks() {
    run("soft", &[1, 2, 3, 5, 8]);
}

#[test]
fn programs_run_where_nothing_is_mapped() {
    run("soft:map=off", &[1, 3]);
    run("soft:map=off,cma=off", &[2]);
}

#[test]
fn programs_run_on_the_adversarial_device() {
    run("soft:adversarial,seed=1,delay=50", &[1, 4]);
}
