//! `examples/heat`, the real program under the real launcher, against a serial computation.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

mod serial;

use serial::{Plate, pgm};
use transom_testing::job::run;
use transom_testing::launcher;
use transom_testing::programs::{Folder, check_survivors, endings, printed, program, survivors};

transom_testing::tests! {
    equals_one_rank_bit_by_bit,
    more_ranks_than_cores,
    tiles_of_one_cell_and_of_one_column_or_row,
    every_way_of_the_soft_device,
    steps_are_counted_on_between_pictures,
    pictures_show_the_temperatures,
    pictures_that_are_none_fail_on_all_ranks_and_are_named,
    plates_that_cannot_be_shared_out_and_folders_that_cannot_be_written,
    options_that_make_no_sense_are_refused_once,
    a_rank_that_dies_ends_in_an_error,
    starts_its_ranks_itself,
}

/// The program on these ranks.
fn heat(ranks: u32, folder: &Folder) -> Command {
    let mut command = launcher::command(ranks, &[]);
    command
        .arg(program("heat"))
        .arg("--out")
        .arg(folder.0.path().join("pictures"));
    command
}

/// Runs the program from `plate` on, and compares the last temperatures, bit by bit.
fn check(command: &mut Command, folder: &Folder, plate: &Plate, steps: u64) {
    let picture = folder.file("plate.pgm", &pgm(plate));
    let raw = folder.0.path().join("raw");
    command
        .arg(&picture)
        .args(["--every", "0", "--steps", &steps.to_string()])
        .arg("--raw")
        .arg(&raw);
    printed(command);
    let bytes = fs::read(&raw).unwrap();
    let values = bytes.chunks_exact(8);
    let ours: Vec<_> = values
        .map(|value| f64::from_le_bytes(value.try_into().unwrap()))
        .collect();
    let expected = plate.after(steps, 0.2);
    assert_eq!(ours.len(), expected.len(), "{command:?}");
    let differs = (0..ours.len()).find(|&i| ours[i].to_bits() != expected[i].to_bits());
    if let Some(i) = differs {
        let (ours, expected) = (ours[i], expected[i]);
        panic!("{command:?}: cell {i} is {ours:e}, expected {expected:e}");
    }
}

fn equals_one_rank_bit_by_bit() {
    let folder = Folder::new();
    for (width, height, steps) in [(37, 23, 60), (64, 3, 25), (5, 41, 25)] {
        let plate = Plate::noise(width, height);
        for ranks in [1, 2, 3, 4, 5] {
            check(&mut heat(ranks, &folder), &folder, &plate, steps);
        }
    }
}

fn more_ranks_than_cores() {
    let folder = Folder::new();
    let plate = Plate::noise(50, 40);
    check(&mut heat(12, &folder), &folder, &plate, 40);
}

fn tiles_of_one_cell_and_of_one_column_or_row() {
    let folder = Folder::new();
    for (width, height, ranks) in [(3, 4, 12), (9, 1, 9), (1, 8, 8), (2, 3, 3), (1, 1, 1)] {
        let plate = Plate::noise(width, height);
        check(&mut heat(ranks, &folder), &folder, &plate, 30);
    }
}

fn every_way_of_the_soft_device() {
    let folder = Folder::new();
    let plate = Plate::noise(13, 11);
    for device in [
        "soft:map=off",
        "soft:cma=off",
        "soft:map=off,cma=off",
        "soft:adversarial,seed=1,delay=50",
        "soft:adversarial,seed=2,delay=50",
        "soft:adversarial,seed=3,delay=50,order=loose",
    ] {
        for ranks in [1, 4, 6] {
            let mut command = heat(ranks, &folder);
            check(command.env("TRANSOM_DEVICE", device), &folder, &plate, 12);
        }
    }
}

fn steps_are_counted_on_between_pictures() {
    let folder = Folder::new();
    let mut command = heat(3, &folder);
    let steps = ["--steps", "25", "--every", "7", "--size", "31x17"];
    let said = printed(command.args(steps).args(["--check", "--verbose"]));
    assert!(
        said.contains("25 steps of 31 x 17 cells on 3 ranks"),
        "{said}"
    );
    for tile in [
        "rank 0: columns 0..10, rows 0..17",
        "rank 1: columns 10..20, rows 0..17",
        "rank 2: columns 20..31, rows 0..17",
    ] {
        assert!(said.contains(tile), "{said}");
    }
    assert!(said.contains("bit by bit"), "{said}");
    let mut names: Vec<_> = fs::read_dir(folder.0.path().join("pictures"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [0, 7, 14, 21, 25].map(|step| format!("heat-{step:06}.png"));
    assert_eq!(names, expected);
}

fn pictures_show_the_temperatures() {
    let folder = Folder::new();
    let plate = Plate {
        width: 4,
        height: 1,
        // Black, full red, full yellow, white.
        values: vec![0, 20_000, 40_000, 60_000],
        most: 60_000,
    };
    let picture = folder.file("plate.pgm", &pgm(&plate));
    let mut command = heat(2, &folder);
    printed(command.arg(&picture).args(["--steps", "0"]));
    let path = folder.0.path().join("pictures/heat-000000.png");
    let decoder = png::Decoder::new(BufReader::new(File::open(&path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    let colours = [[0, 0, 0], [255, 0, 0], [255, 255, 0], [255, 255, 255]];
    assert_eq!(bytes, colours.concat());
}

fn pictures_that_are_none_fail_on_all_ranks_and_are_named() {
    let folder = Folder::new();
    let png = folder.0.path().join("pictures/heat-000000.png");
    printed(heat(1, &folder).args(["--steps", "0"]));
    let whole = fs::read(&png).unwrap();
    let cut = folder.file("cut.png", &whole[..whole.len() / 2]);
    let mut broken = whole.clone();
    broken[40] ^= 0x55;
    let broken = folder.file("broken.png", &broken);
    let text = folder.file("text.png", b"not a picture at all");
    let empty = folder.file("empty", b"");
    let short = folder.file("short.pgm", b"P5 20 20 255\nabc");
    for (bad, cause) in [
        (folder.0.path().join("missing").as_path(), "No such file"),
        (folder.0.path(), "directory"),
        (text.as_path(), "neither a PNG nor a PGM"),
        (empty.as_path(), "neither a PNG nor a PGM"),
        (cut.as_path(), "not a proper PNG picture"),
        (broken.as_path(), "not a proper PNG picture"),
        (short.as_path(), "fewer values than its header says"),
    ] {
        for ranks in [1, 3] {
            let done = endings(ranks, &program("heat"), &[bad]);
            assert_eq!(done.text(), "ended 1\n".repeat(ranks as usize));
            assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
            let name = bad.to_str().unwrap();
            assert!(done.stderr.contains(name), "{}", done.stderr);
            assert!(done.stderr.contains(cause), "{}", done.stderr);
        }
    }
}

fn plates_that_cannot_be_shared_out_and_folders_that_cannot_be_written() {
    let done = endings(5, &program("heat"), &["--size=2x4".as_ref()]);
    assert_eq!(done.text(), "ended 1\n".repeat(5));
    let said = "4 rows and 2 columns cannot be cut into 5 tiles";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);

    let folder = Folder::new();
    let file = folder.file("file", b"");
    let out = format!("--out={}", file.display());
    let raw = format!("--raw={}/raw", file.display());
    let few = Path::new("--steps=2");
    for (option, every) in [(out, "--every=1"), (raw, "--every=0")] {
        let done = endings(3, &program("heat"), &[option.as_ref(), every.as_ref(), few]);
        assert_eq!(done.text(), "ended 1\n".repeat(3));
        assert!(
            done.stderr.contains(file.to_str().unwrap()),
            "{}",
            done.stderr
        );
    }
}

fn options_that_make_no_sense_are_refused_once() {
    for (option, said) in [
        ("--size=0x3", "640x480"),
        ("--size=3", "640x480"),
        ("--diffusivity=0.3", "0.25"),
        ("--diffusivity=NaN", "0.25"),
        ("--steps=-1", "--steps"),
        ("--pot", "--pot"),
    ] {
        let done = endings(3, &program("heat"), &[Path::new(option)]);
        assert_eq!(done.text(), "ended 2\n".repeat(3));
        assert_eq!(done.stderr.matches("error:").count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
    let done = endings(3, &program("heat"), &["-n2".as_ref()]);
    assert_eq!(done.text(), "ended 1\n".repeat(3));
    assert!(done.stderr.contains("-n says 2 ranks"), "{}", done.stderr);
    let done = run(heat(2, &Folder::new()).arg("--size=100000x100000"));
    assert!(done.stderr.contains("268435456"), "{}", done.stderr);
}

fn a_rank_that_dies_ends_in_an_error() {
    let folder = Folder::new();
    let out = folder.0.path().to_str().unwrap();
    let under_way = format!("[ -e {out}/heat-000100.png ]");
    let endless = ["--steps=1000000000", "--every=100", "--size=20x20"];
    let options = [&endless[..], &["--out", out]].concat();
    let done = survivors(&under_way, &program("heat"), &options);
    check_survivors("heat", &done);
}

fn starts_its_ranks_itself() {
    let folder = Folder::new();
    let mut command = Command::new(program("heat"));
    command.args([
        "-n",
        "3",
        "--steps",
        "5",
        "--size",
        "9x8",
        "--check",
        "--every=0",
    ]);
    let said = printed(command.current_dir(folder.0.path()));
    assert!(said.contains("on 3 ranks"), "{said}");
    assert!(said.contains("bit by bit"), "{said}");
}
