//! The programs of the user guide: each block there is a file of `examples/guide`, each file is linked, and all run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use transom_testing::launcher;
use transom_testing::programs::{printed, program};

transom_testing::tests! {
    blocks_are_files_and_files_are_linked,
    all_of_mpi_s_names_are_there,
    our_names_are_those_of_the_code,
    programs_run_on_any_number_of_ranks,
    programs_run_where_nothing_is_mapped,
    programs_run_on_the_adversarial_device,
}

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

fn blocks_are_files_and_files_are_linked() {
    let guide = fs::read_to_string(Path::new(ROOT).join("docs/guide.md")).unwrap();
    let files = files();
    let blocks = blocks(&guide);
    for block in &blocks {
        let known = files.values().any(|file| file == block);
        assert!(known, "no file of examples/guide has this:\n{block}");
    }
    for name in files.keys() {
        let link = format!("[`{name}`](../examples/guide/{name}.rs)");
        assert!(guide.contains(&link), "docs/guide.md has no link {link}");
    }
}

/// The rows of the table of names: MPI's, and ours.
fn names(page: &str) -> Vec<(&str, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| {
        let mut cells = row.split(" | ");
        Some((cells.next()?, cells.next()?))
    })
    .collect()
}

/// Every procedure of MPI-4.1's chapter 12, and those of a window's attributes, name and errors.
fn all_of_mpi_s_names_are_there() {
    const NAMES: &str = "Win_allocate Win_allocate_shared Win_attach Win_call_errhandler \
        Win_complete Win_create Win_create_dynamic Win_create_errhandler Win_create_keyval \
        Win_delete_attr Win_detach Win_fence Win_flush Win_flush_all Win_flush_local \
        Win_flush_local_all Win_free Win_free_keyval Win_get_attr Win_get_errhandler \
        Win_get_group Win_get_info Win_get_name Win_lock Win_lock_all Win_post Win_set_attr \
        Win_set_errhandler Win_set_info Win_set_name Win_shared_query Win_start Win_sync Win_test \
        Win_unlock Win_unlock_all Win_wait Win_c2f Win_f2c Put Get Accumulate Get_accumulate \
        Fetch_and_op Compare_and_swap Rput Rget Raccumulate Rget_accumulate Get_address \
        Alloc_mem Free_mem";
    let page = fs::read_to_string(Path::new(ROOT).join("docs/mpi-names.md")).unwrap();
    let names = names(&page);
    for name in NAMES.split_whitespace() {
        let name = format!("`MPI_{name}`");
        assert!(names.iter().any(|(mpi, _)| mpi.contains(&name)), "{name}");
    }
}

/// Names that the table gives, and that nothing has, mislead.
fn our_names_are_those_of_the_code() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/mpi-names.md")).unwrap();
    let code = code_below(&Path::new(ROOT).join("src"));
    for (_, ours) in names(&page) {
        let quoted = ours.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| !name.contains('…')) {
            for part in name.split(['<', '>', ':']).filter(|part| !part.is_empty()) {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let mut words = code.split(|c: char| !is_word(c));
                assert!(words.any(|word| word == part), "{name}: no {part} in src");
            }
        }
    }
}

fn code_below(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let texts = paths.map(|path| match path.is_dir() {
        true => code_below(&path),
        false => fs::read_to_string(&path).unwrap(),
    });
    texts.collect()
}

fn run(device: &str, ranks: &[u32]) {
    for name in files().keys() {
        for &ranks in ranks {
            let mut command = launcher::command(ranks, &["--device", device]);
            assert_eq!(printed(command.arg(program("guide")).arg(name)), "");
        }
    }
}

fn programs_run_on_any_number_of_ranks() {
    run("soft", &[1, 2, 3, 5, 8]);
}

fn programs_run_where_nothing_is_mapped() {
    run("soft:map=off", &[1, 3]);
    run("soft:map=off,cma=off", &[2]);
}

fn programs_run_on_the_adversarial_device() {
    run("soft:adversarial,seed=1,delay=50", &[1, 4]);
}
