//! Hints: what is in force, also where ranks give different ones, and what is refused.

use transom::raw::{Assert, Window};
use transom::{ErrorClass, Info, Job, LockKind};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::ops::put;
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["hints":
    defaults_are_in_force @ [1, 2],
    what_was_given_is_in_force @ [2],
    what_some_ranks_gave @ [3],
    malformed_ones_fail_everywhere @ [2],
    the_weakest_is_in_force @ [3],
    promises_that_are_kept @ [2],
    promises_that_are_broken @ [3],
    later_ones @ [2],
];

const DEFAULTS: [(&str, &str); 12] = [
    ("accumulate_ops", "same_op_no_op"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("alloc_shared_noncontig", "false"),
    ("mpi_accumulate_granularity", "0"),
    ("mpi_assert_memory_alloc_kinds", "system,mpi"),
    ("mpi_memory_alloc_kinds", "system,mpi"),
    ("no_locks", "false"),
    ("same_disp_unit", "false"),
    ("same_size", "false"),
    ("transom_eager_lock_all", "false"),
    ("transom_notification_counters", "8"),
    ("transom_statistics", "false"),
];

fn allocate(job: &Job, size: usize, unit: u64, info: &Info) -> transom::Result<Window> {
    Window::allocate(job.world(), size, unit, info)
}

fn defaults_are_in_force(job: &Job) -> Outcome {
    let info = Info::new().with("no_such_hint", "at all");
    let window = allocate(job, 64, 1, &info)?;
    let found = window.info();
    for (key, value) in DEFAULTS {
        check_eq!(found.get(key), Some(value), "{key}");
    }
    check_eq!(found.get("mpi_minimum_memory_alignment"), Some("64"));
    check_eq!(found.iter().count(), DEFAULTS.len() + 1);
    window.free()?;
    let window = Window::create_dynamic(job.world(), &info)?;
    check_eq!(window.info().iter().count(), DEFAULTS.len());
    window.free()?;
    Ok(())
}

fn what_was_given_is_in_force(job: &Job) -> Outcome {
    let given = [
        ("accumulate_ops", "same_op", "same_op"),
        ("accumulate_ordering", "waw, rar", "rar,waw"),
        ("mpi_accumulate_granularity", " 4096 ", "4096"),
        (
            "mpi_assert_memory_alloc_kinds",
            "system,cuda:device",
            "system",
        ),
        ("mpi_minimum_memory_alignment", "65536", "65536"),
        ("no_locks", "true", "true"),
        ("same_size", "true", "true"),
        ("transom_eager_lock_all", "true", "true"),
    ];
    let hints = given
        .iter()
        .fold(Info::new(), |info, (key, value, _)| info.with(*key, *value));
    let window = allocate(job, 64, 1, &hints)?;
    for (key, _, value) in given {
        check_eq!(window.info().get(key), Some(value), "{key}");
    }
    check_eq!(window.base().addr() % 65536, 0);
    // What is in force can be given to another window.
    let same = allocate(job, 64, 1, &window.info())?;
    check_eq!(same.info(), window.info());
    window.free()?;
    same.free()?;
    Ok(())
}

fn what_some_ranks_gave(job: &Job) -> Outcome {
    let hints = match job.world().rank() {
        1 => Info::new(),
        _ => Info::new()
            .with("no_locks", "true")
            .with("transom_notification_counters", "3"),
    };
    let window = allocate(job, 64, 1, &hints)?;
    check_eq!(window.info().get("no_locks"), Some("false"));
    let counters = if job.world().rank() == 1 { "8" } else { "3" };
    check_eq!(
        window.info().get("transom_notification_counters"),
        Some(counters)
    );
    window.lock(LockKind::Shared, 0, Assert::NONE)?;
    window.unlock(0)?;
    window.free()?;
    Ok(())
}

fn malformed_ones_fail_everywhere(job: &Job) -> Outcome {
    for (key, value, legal) in [
        ("no_locks", "yes", "true, false"),
        ("accumulate_ordering", "rar;raw", "rar,raw,war,waw"),
        ("accumulate_ops", "sum", "same_op_no_op"),
        ("mpi_accumulate_granularity", "-8", "bytes"),
        ("mpi_assert_memory_alloc_kinds", "system,,", "list of kinds"),
        ("mpi_minimum_memory_alignment", "100", "power of two"),
        ("same_size", "", "true, false"),
        ("same_disp_unit", "8", "true, false"),
        ("alloc_shared_noncontig", "1", "true, false"),
        ("transom_eager_lock_all", "no", "true, false"),
    ] {
        let bad = Info::new().with(key, value);
        let words = [key, legal];
        refused(allocate(job, 64, 1, &bad), ErrorClass::InfoValue, &words)?;
        // On one rank only: all hear of it.
        let mine = if job.world().rank() == 1 {
            &bad
        } else {
            &Info::new()
        };
        refused(
            Window::create_dynamic(job.world(), mine),
            ErrorClass::InfoValue,
            &words,
        )?;
    }
    Ok(())
}

fn the_weakest_is_in_force(job: &Job) -> Outcome {
    let world = job.world();
    for (key, values, weakest) in [
        ("accumulate_ordering", ["none", "none", "waw"], "waw"),
        ("accumulate_ordering", ["rar", "none", "waw"], "rar,waw"),
        (
            "accumulate_ordering",
            ["none", "", "none"],
            "rar,raw,war,waw",
        ),
        (
            "accumulate_ops",
            ["same_op", "same_op", ""],
            "same_op_no_op",
        ),
        ("mpi_accumulate_granularity", ["1048576", "1", "64"], "1"),
        ("mpi_accumulate_granularity", ["64", "", "4096"], "0"),
        ("same_size", ["", "true", "true"], "false"),
        ("same_disp_unit", ["true", "true", "false"], "false"),
        ("alloc_shared_noncontig", ["false", "true", ""], "false"),
        ("no_locks", ["true", "", "true"], "false"),
    ] {
        for shift in 0..3 {
            let mine = match values[(world.rank() as usize + shift) % 3] {
                "" => Info::new(),
                value => Info::new().with(key, value),
            };
            let unit = if world.rank() == 0 { 1 } else { 8 };
            let size = 64 + 8 * world.rank() as usize;
            for window in [
                Window::allocate(world, size, unit, &mine)?,
                Window::create_dynamic(world, &mine)?,
            ] {
                check_eq!(window.info().get(key), Some(weakest), "{key}={values:?}");
                window.lock_all(Assert::NONE)?;
                window.unlock_all()?;
                window.free()?;
            }
        }
    }
    Ok(())
}

fn promises_that_are_kept(job: &Job) -> Outcome {
    let hints = Info::new()
        .with("same_size", "true")
        .with("same_disp_unit", "true");
    let window = allocate(job, 64, 8, &hints)?;
    window.fence(Assert::NONE)?;
    put(&window, &[7; 8], 1 - window.rank(), 7)?;
    let past = put(&window, &[7; 8], 1 - window.rank(), 8);
    refused(past, ErrorClass::RmaRange, &["64 bytes"])?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    Ok(())
}

fn promises_that_are_broken(job: &Job) -> Outcome {
    let mine = |odd: usize, usual: usize| if job.world().rank() == 1 { odd } else { usual };
    let hints = Info::new().with("same_size", "true");
    let sizes = allocate(job, mine(128, 64), 1, &hints);
    refused(
        sizes,
        ErrorClass::Size,
        &["same_size", "rank 1", "128 bytes", "64"],
    )?;
    let hints = Info::new().with("same_disp_unit", "true");
    let units = allocate(job, 64, mine(4, 8) as u64, &hints);
    refused(
        units,
        ErrorClass::Disp,
        &["same_disp_unit", "rank 1", "4 bytes"],
    )?;
    // Nothing is left behind that a later window stumbles over.
    let window = allocate(job, mine(128, 64), mine(4, 8) as u64, &Info::new())?;
    window.fence(Assert::NONE)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.free()?;
    Ok(())
}

fn later_ones(job: &Job) -> Outcome {
    let window = allocate(job, 64, 1, &Info::new())?;
    let before = window.info();
    let later = Info::new()
        .with("transom_eager_lock_all", "true")
        .with("same_size", "true");
    window.set_info(&later)?;
    check_eq!(
        window.info(),
        before.clone().with("transom_eager_lock_all", "true")
    );
    window.lock_all(Assert::NONE)?;
    window.unlock_all()?;
    let bad = Info::new()
        .with("transom_eager_lock_all", "false")
        .with("no_locks", "2");
    refused(
        window.set_info(&bad),
        ErrorClass::InfoValue,
        &["set_info", "no_locks"],
    )?;
    check_eq!(window.info().get("transom_eager_lock_all"), Some("true"));
    window.set_info(&Info::new())?;
    check_eq!(window.info().get("transom_eager_lock_all"), Some("true"));
    check!(before.get("transom_eager_lock_all") == Some("false"));
    window.free()?;
    Ok(())
}
