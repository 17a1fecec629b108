//! Random windows.

use transom_testing::random::Random;

use crate::program::{Memory, Part, WindowSpec};
use crate::wrong::MOVED;

pub(crate) fn window(random: &mut Random, ranks: u32) -> WindowSpec {
    let flavor = random.below(8);
    let locks = !random.one_in(6);
    let granularity = random.pick(&["", "", "2", "4", "8", "16", "4096"]);
    let ordering = random.pick(&["", "", "", "", "rar,raw,war,waw", "none", "raw,waw"]);
    let unit = random.pick(&[1, 1, 2, 3, 4, 8, 16]);
    let same_unit = random.one_in(2);
    let noncontiguous = random.one_in(2);
    let ops = random.pick(&["", "", "same_op_no_op", "same_op"]);
    let same_size = random.one_in(6).then(|| size(random));
    let part = |_| {
        let memory = match (flavor, random.below(3)) {
            (0..3, _) => Memory::Allocate,
            (3, _) => Memory::Shared,
            (4, _) => Memory::Dynamic,
            (_, 0) => Memory::AllocMem,
            _ => Memory::Heap {
                into_page: random.pick(&[0, 16, 64, 1, 5, 2048, 4090]),
            },
        };
        let size = same_size.unwrap_or_else(|| size(random));
        let mut hints = vec![("no_locks", if locks { "false" } else { "true" })];
        if !granularity.is_empty() {
            hints.push(("mpi_accumulate_granularity", granularity));
        }
        if !ordering.is_empty() {
            hints.push(("accumulate_ordering", ordering));
        }
        if noncontiguous {
            hints.push(("alloc_shared_noncontig", "true"));
        }
        if same_unit {
            hints.push(("same_disp_unit", "true"));
        }
        if random.one_in(4) {
            hints.push(("transom_eager_lock_all", "true"));
        }
        if random.one_in(4) {
            hints.push((
                "mpi_minimum_memory_alignment",
                random.pick(&["8", "64", "8192"]),
            ));
        }
        if !ops.is_empty() {
            hints.push(("accumulate_ops", ops));
        }
        if same_size.is_some() {
            hints.push(("same_size", "true"));
        }
        if random.one_in(4) {
            hints.push(("mpi_assert_memory_alloc_kinds", "system,mpi:alloc_mem"));
        }
        let (counters, text) =
            random.pick(&[(8, ""), (8, ""), (0, "0"), (1, "1"), (3, "3"), (40, "40")]);
        if !text.is_empty() {
            hints.push(("transom_notification_counters", text));
        }
        if random.one_in(4) {
            hints.push(("a_key_that_nobody_knows", "x"));
        }
        let unit = match (memory, same_unit) {
            // There, displacements are addresses.
            (Memory::Dynamic, _) => 1,
            (_, true) => unit,
            (_, false) => random.pick(&[1, 1, 2, 5, 8, 64]),
        };
        let mut cuts = Vec::new();
        if memory == Memory::Dynamic && size > MOVED {
            cuts.extend((0..random.below(4)).map(|_| random.from(MOVED, size - 1)));
            cuts.sort_unstable();
            cuts.dedup();
        }
        Part {
            memory,
            size,
            unit,
            hints,
            counters,
            cuts,
        }
    };
    let parts = (0..ranks).map(part).collect();
    WindowSpec {
        parts,
        locks,
        ordered: matches!(ordering, "" | "rar,raw,war,waw"),
        same_op: ops == "same_op",
    }
}

fn size(random: &mut Random) -> usize {
    match random.below(12) {
        0 => 0,
        1..4 => random.from(1, 64),
        4..8 => random.from(64, 700),
        8..11 => random.from(700, 5000),
        _ => random.from(5000, 40_000),
    }
}
