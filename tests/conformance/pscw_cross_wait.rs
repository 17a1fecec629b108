//! Targets that never post, since they wait for their origin in a collective call; and long waits that
//! only look like that.

use std::thread::sleep;
use std::time::Duration;

use transom::raw::Assert;
use transom::{ErrorClass, Job};

use crate::case::{Case, Outcome, cases, check_eq};
use crate::exposed::{Exposed, Memory};
use crate::ops::put;
use crate::pscw::of;
use crate::refused::{refused, works};

pub(crate) const CASES: &[Case] = cases!["pscw_cross_wait":
    a_target_is_in_a_fence @ [2, 3],
    another_target_posts @ [3],
    fences_that_wait_for_epochs @ [2, 3],
    a_stranger_waits_in_a_fence @ [3],
];

const SYNC: ErrorClass = ErrorClass::RmaSync;

/// Longer than it takes a waiting rank to look after the others, twice.
const LONG: Duration = Duration::from_millis(250);

fn a_target_is_in_a_fence(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let ahead = (window.rank() + 1) % window.ranks();
    for round in 0..2 {
        if window.rank() == 0 {
            let state = "rank 1 is in fence, where it waits for rank 0";
            window.start(&of(&window, &[1])?, Assert::NONE)?;
            refused(put(&window, &[9], 1, 0), SYNC, &["put", "post", state])?;
            refused(window.complete(), SYNC, &["complete", "post", state])?;
        }
        window.fence(Assert::NONE)?;
        put(&window, &[round + 1], ahead, 1)?;
        window.fence(Assert::NO_SUCCEED)?;
        check_eq!(window.read(0, 2), [0, round + 1]);
        // The epoch that never was does not count.
        if window.rank() == 0 {
            window.start(&of(&window, &[1])?, Assert::NONE)?;
            put(&window, &[round + 5], 1, 2)?;
            window.complete()?;
        } else if window.rank() == 1 {
            window.post(&of(&window, &[0])?, Assert::NONE)?;
            window.wait()?;
            check_eq!(window.read(2, 1), [round + 5]);
        }
    }
    window.write(0, &[0; 3]);
    works(job, &window)?;
    window.close()
}

/// What one target does is nothing to the others.
fn another_target_posts(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    match window.rank() {
        0 => {
            window.start(&of(&window, &[1, 2])?, Assert::NONE)?;
            put(&window, &[7], 2, 0)?;
            refused(window.complete(), SYNC, &["complete", "rank 1 is in fence"])?;
        }
        1 => {}
        _ => {
            window.post(&of(&window, &[0])?, Assert::NONE)?;
            window.wait()?;
            check_eq!(window.read(0, 1), [7]);
        }
    }
    window.fence(Assert::NO_SUCCEED)?;
    window.write(0, &[0]);
    works(job, &window)?;
    window.close()
}

/// Origins have completed when they wait in the fence, although their target does not know it yet.
fn fences_that_wait_for_epochs(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let others: Vec<u32> = (1..window.ranks()).collect();
    for round in 1..=3_u8 {
        if window.rank() == 0 {
            window.post(&of(&window, &others)?, Assert::NONE)?;
            sleep(LONG);
            window.wait()?;
            check_eq!(window.read(1, 1), [round]);
        } else {
            let me = window.rank();
            if me == 2 {
                sleep(LONG);
            }
            window.start(&of(&window, &[0])?, Assert::NONE)?;
            put(&window, &[round], 0, me.into())?;
            window.complete()?;
        }
        window.fence(Assert::NO_SUCCEED)?;
    }
    window.close()
}

fn a_stranger_waits_in_a_fence(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    match window.rank() {
        0 => {
            window.start(&of(&window, &[1])?, Assert::NONE)?;
            put(&window, &[3], 1, 0)?;
            window.complete()?;
        }
        1 => {
            sleep(2 * LONG);
            window.post(&of(&window, &[0])?, Assert::NONE)?;
            window.wait()?;
            check_eq!(window.read(0, 1), [3]);
        }
        _ => {}
    }
    window.fence(Assert::NO_SUCCEED)?;
    window.close()
}
