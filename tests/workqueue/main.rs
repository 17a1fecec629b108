//! `examples/workqueue`, the real program under the real launcher, against a serial computation.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use transom_testing::job::run;
use transom_testing::launcher;
use transom_testing::programs::{Folder, check_survivors, endings, printed, program, survivors};

transom_testing::tests! {
    all_rows_are_done_once,
    ranks_without_rows_take_others,
    shares_of_equal_rows_are_unequal_work,
    every_way_of_the_soft_device,
    the_picture_is_black_where_the_set_is,
    options_that_make_no_sense_are_refused_once,
    a_rank_that_dies_ends_in_an_error,
}

/// The program on these ranks.
fn workqueue(ranks: u32, options: &[&str]) -> Command {
    let mut command = launcher::command(ranks, &[]);
    command.arg(program("workqueue")).args(options);
    command
}

/// What the table says of each rank: rows, rows of other ranks among them, iterations.
fn shares(said: &str) -> Vec<[u64; 3]> {
    let lines = said.lines().skip(1).map(str::split_whitespace);
    let parsed = lines.map_while(|mut words| {
        let rank: Option<u32> = words.next()?.parse().ok();
        rank?;
        let mut number = || words.next()?.parse().ok();
        Some([number()?, number()?, number()?])
    });
    parsed.collect()
}

/// An independent computation, as a sum.
fn iterations(width: u32, height: u32, most: u32) -> u64 {
    let mut sum = 0;
    for row in 0..height {
        for column in 0..width {
            let c = (
                -2.2 + 3.0 * (f64::from(column) + 0.5) / f64::from(width),
                -1.25 + 2.5 * (f64::from(row) + 0.5) / f64::from(height),
            );
            let mut z = (0.0_f64, 0.0_f64);
            let mut number = 0;
            while number < most && z.0 * z.0 + z.1 * z.1 <= 4.0 {
                z = (z.0 * z.0 - z.1 * z.1 + c.0, 2.0 * z.0 * z.1 + c.1);
                number += 1;
            }
            sum += u64::from(number);
        }
    }
    sum
}

/// Runs the program, which compares each point, and looks at what it says of the ranks.
fn check(command: &mut Command, ranks: u32, size: [u32; 3]) -> Vec<[u64; 3]> {
    let [width, height, most] = size.map(|number| number.to_string());
    let size_options = [
        "--width",
        &width,
        "--height",
        &height,
        "--iterations",
        &most,
    ];
    let said = printed(command.args(size_options).arg("--check"));
    assert!(
        said.ends_with("equal to what one rank computes\n"),
        "{said}"
    );
    let shares = shares(&said);
    assert_eq!(shares.len(), ranks as usize, "{said}");
    let sum = |column: usize| shares.iter().map(|share| share[column]).sum::<u64>();
    assert_eq!(sum(0), u64::from(size[1]), "{said}");
    assert_eq!(sum(2), iterations(size[0], size[1], size[2]), "{said}");
    shares
}

fn all_rows_are_done_once() {
    for ranks in [1, 2, 3, 5, 8] {
        for size in [[60, 90, 300], [1, 1, 5], [7, 3, 1], [31, 257, 40]] {
            let shares = check(&mut workqueue(ranks, &[]), ranks, size);
            // Of its own rows, a rank has done none more than it has.
            let most = u64::from(size[1].div_ceil(ranks));
            assert!(
                shares.iter().all(|[rows, stolen, _]| rows - stolen <= most),
                "{shares:?}"
            );
        }
    }
}

/// The rank in the middle begins with nearly all of the work.
fn ranks_without_rows_take_others() {
    let shares = check(&mut workqueue(3, &[]), 3, [300, 90, 10_000]);
    let stolen = shares[0][1] + shares[2][1];
    assert!(stolen > 0, "{shares:?}");
}

fn shares_of_equal_rows_are_unequal_work() {
    let shares = check(&mut workqueue(5, &["--schedule=static"]), 5, [60, 100, 500]);
    assert!(
        shares
            .iter()
            .all(|[rows, stolen, _]| (*rows, *stolen) == (20, 0))
    );
    let [first, middle] = [shares[0], shares[2]];
    assert!(middle[2] > 5 * first[2], "{shares:?}");
}

fn every_way_of_the_soft_device() {
    for device in [
        "soft:map=off",
        "soft:cma=off",
        "soft:map=off,cma=off",
        "soft:adversarial,seed=1,delay=50",
        "soft:adversarial,seed=2,delay=50",
    ] {
        for ranks in [1, 4] {
            let mut command = workqueue(ranks, &[]);
            check(command.env("TRANSOM_DEVICE", device), ranks, [30, 50, 100]);
        }
    }
}

fn the_picture_is_black_where_the_set_is() {
    let folder = Folder::new();
    let path = folder.0.path().join("set.png");
    let mut command = workqueue(2, &["--width=30", "--height=25", "--picture"]);
    printed(command.arg(&path));
    let mut reader = png::Decoder::new(BufReader::new(File::open(&path).unwrap()))
        .read_info()
        .unwrap();
    assert_eq!(reader.info().size(), (30, 25));
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    // The origin of the plane, and its far left.
    assert_eq!(bytes[12 * 30 + 22], 0);
    assert!(bytes[0] > 0);

    let done = run(workqueue(3, &["--height=5", "--width=5"]).arg("--picture=/dev/null/x.png"));
    assert_eq!(done.status.code(), Some(1));
    assert!(
        done.stderr.contains("/dev/null/x.png: Not a directory"),
        "{}",
        done.stderr
    );
}

fn options_that_make_no_sense_are_refused_once() {
    for (option, said) in [
        ("--width=0", "--width"),
        ("--height=99999", "--height"),
        ("--iterations=0", "--iterations"),
        ("--schedule=guided", "dynamic"),
        ("--picture=set.jpg", ".png"),
    ] {
        let done = endings(3, &program("workqueue"), &[Path::new(option)]);
        assert_eq!(done.text(), "ended 2\n".repeat(3));
        assert_eq!(done.stderr.matches("error:").count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
}

/// The others work on, and learn of it when they are done.
fn a_rank_that_dies_ends_in_an_error() {
    let options = ["--verbose", "--iterations", "3000", "--width", "300"];
    let done = survivors("grep -q takes $SAID", &program("workqueue"), &options);
    check_survivors("workqueue", &done);
}
