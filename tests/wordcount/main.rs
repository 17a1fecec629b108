//! `examples/wordcount`, the real program under the real launcher, against a serial count.

use std::fs;
use std::path::{Path, PathBuf};

mod support;
mod texts;

use support::{check, endings, program, wordcount};
use texts::{noise, serial_count, zipf};
use transom_testing::job::run;
use transom_testing::launcher;
use transom_testing::programs::Folder;

transom_testing::tests! {
    the_documents_of_the_project_from_elsewhere,
    a_long_text_of_many_scripts,
    files_of_all_kinds,
    ranks_that_race_for_the_same_words,
    every_way_of_the_soft_device,
    a_map_filled_to_the_last_word,
    what_cannot_be_read_fails_on_all_ranks_and_is_named,
    options_that_make_no_sense_are_refused_once,
    rank_0_prints_the_most_frequent_words_and_the_totals,
}

const RANKS: [u32; 5] = [1, 2, 3, 5, 8];

fn the_documents_of_the_project_from_elsewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let markdown = |folder: PathBuf| {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect::<Vec<_>>()
    };
    let files = [markdown(root.to_owned()), markdown(root.join("docs"))].concat();
    assert!(
        files
            .iter()
            .any(|path| path.ends_with("docs/architecture.md"))
    );
    let texts: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let texts: Vec<_> = texts.iter().map(Vec::as_slice).collect();
    let expected = serial_count(&texts);
    let elsewhere = Folder::new();
    for ranks in RANKS {
        check(wordcount(ranks).current_dir(&elsewhere.0), &[], &expected);
    }
}

fn a_long_text_of_many_scripts() {
    let text = zipf(20 << 20, 150_000);
    let folder = Folder::new();
    let file = folder.file("zipf", text.as_bytes());
    let expected = serial_count(&[text.as_bytes()]);
    assert!(expected.len() > 100_000, "{}", expected.len());
    for ranks in RANKS {
        check(&mut wordcount(ranks), &[&file], &expected);
    }
}

fn files_of_all_kinds() {
    let folder = Folder::new();
    let texts = [
        ("noise", noise(300_000)),
        ("empty", Vec::new()),
        ("huge", "Ümlaut".repeat(3 << 17).into_bytes()),
        ("unended", b"no newline's at the end".to_vec()),
        (
            "cut",
            "ends in the middle of an é".as_bytes()[..26].to_vec(),
        ),
        ("byte", b"x".to_vec()),
    ];
    let files = texts
        .each_ref()
        .map(|(name, bytes)| folder.file(name, bytes));
    for ((_, text), file) in texts.iter().zip(&files) {
        let expected = serial_count(&[text]);
        for ranks in RANKS {
            check(&mut wordcount(ranks), &[file], &expected);
        }
    }
    // All of them, and one twice.
    let together = texts.iter().chain([&texts[3]]);
    let together: Vec<_> = together.map(|(_, text)| text.as_slice()).collect();
    let expected = serial_count(&together);
    let files: Vec<_> = files
        .iter()
        .chain([&files[3]])
        .map(PathBuf::as_path)
        .collect();
    for ranks in RANKS {
        check(&mut wordcount(ranks), &files, &expected);
    }
}

/// All ranks bring the same words, half of them too long for a key, at the same time.
fn ranks_that_race_for_the_same_words() {
    let words: Vec<String> = (0..5000)
        .map(|i| format!("{}{i}", "long".repeat(i % 11)))
        .collect();
    let text = words.join(" ") + " ";
    let text = text.repeat(8);
    let folder = Folder::new();
    let file = folder.file("race", text.as_bytes());
    let expected = serial_count(&[text.as_bytes()]);
    for _ in 0..10 {
        check(&mut wordcount(8), &[&file], &expected);
    }
}

fn every_way_of_the_soft_device() {
    let text = zipf(200_000, 5000);
    let folder = Folder::new();
    let file = folder.file("zipf", text.as_bytes());
    let expected = serial_count(&[text.as_bytes()]);
    for device in [
        "soft",
        "soft:map=off",
        "soft:cma=off",
        "soft:map=off,cma=off",
    ] {
        for ranks in [1, 3] {
            let mut command = wordcount(ranks);
            check(command.env("TRANSOM_DEVICE", device), &[&file], &expected);
        }
    }
}

fn a_map_filled_to_the_last_word() {
    // Every third is too long for a key.
    let words: Vec<String> = (0..41)
        .map(|i| format!("w{i}{}", "x".repeat(i % 3 * 20)))
        .collect();
    let folder = Folder::new();
    let fits = folder.file("fits", words[..40].join(" ").as_bytes());
    let expected = serial_count(&[words[..40].join(" ").as_bytes()]);
    let exactly = ["--capacity", "40"];
    check(wordcount(1).args(exactly), &[&fits], &expected);

    let more = folder.file("more", words.join(" ").as_bytes());
    for (ranks, capacity) in [(1, 40), (3, 8), (2, u64::MAX)] {
        let option = format!("--capacity={capacity}");
        let done = run(wordcount(ranks).arg(option).arg(&more));
        assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
        assert_eq!(
            done.stderr.matches("wordcount: ").count(),
            1,
            "{}",
            done.stderr
        );
        assert!(done.stderr.contains("--capacity"), "{}", done.stderr);
        assert!(
            done.stderr.contains(&capacity.to_string()),
            "{}",
            done.stderr
        );
        assert_eq!(done.text(), "");
    }
}

fn what_cannot_be_read_fails_on_all_ranks_and_is_named() {
    let folder = Folder::new();
    let good = folder.file("good", b"some words here");
    let missing = folder.0.path().join("missing");
    for (bad, cause) in [
        (missing.as_path(), "No such file"),
        (folder.0.path(), "directory"),
        (Path::new("/dev/null"), "not a regular file"),
    ] {
        for ranks in [1, 3, 8] {
            let done = endings(ranks, &[&good, bad]);
            assert_eq!(done.text(), "ended 1\n".repeat(ranks as usize));
            assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
            let name = bad.to_str().unwrap();
            assert!(done.stderr.contains(name), "{}", done.stderr);
            assert!(done.stderr.contains(cause), "{}", done.stderr);
        }
        let done = run(wordcount(3).arg(&good).arg(bad));
        assert_eq!(done.status.code(), Some(1));
        assert_eq!(done.text(), "");
    }
}

fn options_that_make_no_sense_are_refused_once() {
    for (option, said) in [
        ("--pot=3", "--pot"),
        ("--capacity=0", "--capacity"),
        ("--top=x", "--top"),
    ] {
        let done = endings(3, &[Path::new(option)]);
        assert_eq!(done.text(), "ended 2\n".repeat(3));
        assert_eq!(done.stderr.matches("error:").count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
    let done = run(wordcount(3).arg("--help"));
    assert!(done.status.success());
    assert_eq!(done.text().matches("Usage:").count(), 1, "{}", done.text());
}

fn rank_0_prints_the_most_frequent_words_and_the_totals() {
    let folder = Folder::new();
    let long = "y".repeat(100);
    let text = format!("b a c b a b {} {long} {long} {long} {long}", "l’été");
    let file = folder.file("text", text.as_bytes());
    let mut command = launcher::command(5, &["--label"]);
    let done = run(command.arg(program()).args(["--top", "3"]).arg(&file));
    assert!(done.status.success(), "{}", done.stderr);
    let lines: Vec<_> = done.text().lines().collect();
    let stripped: Vec<_> = lines
        .iter()
        .map(|line| line.strip_prefix("[0]").unwrap().trim())
        .collect();
    let shown = format!("4  {}… (100 bytes)", "y".repeat(60));
    assert_eq!(stripped[..3], [shown.as_str(), "3  b", "2  a"]);
    assert_eq!(stripped.len(), 4);
    let total = format!(
        "11  words, 5 distinct, in 1 file of {} bytes; 5 ranks,",
        text.len()
    );
    assert!(stripped[3].starts_with(&total), "{}", stripped[3]);
}
