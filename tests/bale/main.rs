//! The kernels of bale: each checks its result, on several numbers of ranks and devices.

use transom_testing::launcher;
use transom_testing::programs::{printed, program};

transom_testing::tests! {
    kernels_check_their_results,
    wrong_arguments_are_refused,
}

fn kernels_check_their_results() {
    for kernel in [
        "histogram",
        "gather",
        "permutation",
        "transpose",
        "toposort",
    ] {
        for (device, ranks) in [("soft", 1), ("soft", 3), ("soft:map=off", 2), ("tcp", 4)] {
            let mut command = launcher::command(ranks, &["--device", device]);
            let line = printed(command.arg(program("bale")).args([kernel, "320"]));
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[..2], [kernel, &ranks.to_string()], "{line}");
            assert!(words[2].parse::<f64>().unwrap() > 0.0, "{line}");
            assert!(words[3].parse::<f64>().unwrap() > 0.0, "{line}");
        }
    }
}

fn wrong_arguments_are_refused() {
    let refused = |arguments: &[&str]| {
        let output = std::process::Command::new(program("bale"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: bale histogram|"));
    };
    refused(&[]);
    refused(&["sort", "100"]);
    refused(&["gather", "15"]);
    refused(&["gather", "many"]);
}
