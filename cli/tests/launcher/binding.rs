//! `--bind-to`: where the ranks run.

use std::collections::BTreeSet;
use std::process::Command;

use libtest_mimic::Trial;
use transom_testing::job::{quiet, run};

use crate::{script, trials};

pub(crate) fn tests() -> Vec<Trial> {
    trials!["binding":
        without_binding_ranks_run_where_the_launcher_may,
        each_rank_has_a_core_of_its_own,
        more_ranks_than_cores_are_refused_or_not_bound,
    ]
}

const WHERE: &str = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";

fn processors(list: &str) -> BTreeSet<u32> {
    let ranges = list.trim().split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap()..=last.parse().unwrap()
    });
    ranges.flatten().collect()
}

/// Where this process may run.
fn here() -> BTreeSet<u32> {
    let done = run(quiet("sh").args(["-c", WHERE]));
    processors(done.expect(0).text())
}

/// The launcher, itself bound to one processor, and which that is.
fn on_one(ranks: u32, options: &[&str], text: &str) -> (Command, BTreeSet<u32>) {
    let one = *here().first().unwrap();
    let launcher = script(ranks, options, text);
    // Of util-linux, which every Debian has.
    let mut command = quiet("taskset");
    command
        .args(["-c", &one.to_string()])
        .arg(launcher.get_program())
        .args(launcher.get_args());
    (command, [one].into())
}

fn without_binding_ranks_run_where_the_launcher_may() {
    for options in [&[][..], &["--bind-to", "none"]] {
        let done = run(&mut script(3, options, WHERE)).expect(0);
        let ranks: Vec<_> = done.text().lines().map(processors).collect();
        assert_eq!(ranks, [here(), here(), here()]);
    }
}

fn each_rank_has_a_core_of_its_own() {
    let all = here();
    let of_one = run(&mut script(1, &["--bind-to", "core"], WHERE)).expect(0);
    let of_one = processors(of_one.text());
    assert!(of_one.is_subset(&all) && of_one.contains(all.first().unwrap()));
    if of_one == all {
        return; // There is one core only.
    }
    for what in ["core", "auto"] {
        let done = run(&mut script(2, &["--bind-to", what, "--label"], WHERE)).expect(0);
        let mut ranks: Vec<_> = done.text().lines().collect();
        ranks.sort_unstable();
        let first = processors(ranks[0].strip_prefix("[0] ").unwrap());
        let second = processors(ranks[1].strip_prefix("[1] ").unwrap());
        assert_eq!(first, of_one, "{what}");
        assert!(second.is_disjoint(&first), "{what}: {ranks:?}");
        assert!(
            !second.is_empty() && second.is_subset(&all),
            "{what}: {ranks:?}"
        );
    }
}

fn more_ranks_than_cores_are_refused_or_not_bound() {
    let (mut command, _) = on_one(2, &["--bind-to", "core"], "echo started");
    let done = run(&mut command).expect(2);
    assert_eq!(done.text(), "");
    done.says(
        "cannot bind 2 ranks to a core each: this process may run on 1 of the machine's cores",
    );

    let (mut command, one) = on_one(2, &["--bind-to", "auto"], WHERE);
    let done = run(&mut command).expect(0);
    let ranks: Vec<_> = done.text().lines().map(processors).collect();
    assert_eq!(ranks, [one.clone(), one]);
}
