//! Passive target means passive: a target that computes and never calls in delays nobody.

use std::hint::black_box;
use std::time::{Duration, Instant};

use transom::raw::Assert;
use transom::{Job, LockKind, Op};
use transom_testing::environment::slowness;

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES};
use crate::ops::{accumulate, compare_and_swap, fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["passive":
    a_busy_target_delays_nobody @ [2, 3],
];

/// After this, on an ordinary machine, the others wait for rank 0, whatever its load.
const LIMIT: Duration = Duration::from_secs(20);

/// Rank 0 computes, looks at its own memory now and then, and makes no call until it has seen
/// there that the others are through with everything.
fn a_busy_target_delays_nobody(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 4096, 8)?;
        let me = window.rank();
        // So that nobody's first contact with rank 0 falls into its absence by chance only: half
        // of the ranks have had one.
        if me == 1 {
            window.lock(LockKind::Shared, 0, Assert::NONE)?;
            window.unlock(0)?;
        }
        job.world().barrier()?;
        if me == 0 {
            let begun = Instant::now();
            let mut x = 1_u64;
            let done = |rank: u32| window.read_u64(rank as usize * 64) == 42;
            while !(1..window.ranks()).all(done) {
                for _ in 0..10_000 {
                    x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
                }
                check!(
                    begun.elapsed() < LIMIT * slowness(),
                    "{memory:?}: the others wait for rank 0"
                );
            }
        } else {
            let disp = u64::from(me) * 8;
            for round in 0..20_u64 {
                window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
                put(&window, &round.to_ne_bytes(), 0, disp + 1)?;
                window.flush(0)?;
                let mut bytes = [0; 8];
                get(&window, &mut bytes, 0, disp + 1)?;
                window.flush(0)?;
                check_eq!(u64::from_ne_bytes(bytes), round);
                accumulate(&window, &[1_i64; 2], 0, disp + 2, Op::Sum)?;
                accumulate(&window, &[0.5], 0, disp + 4, Op::Sum)?;
                check_eq!(fetch_and_op(&window, 1_u64, 0, disp + 5, Op::Sum)?, round);
                check_eq!(
                    compare_and_swap(&window, round, round + 1, 0, disp + 6)?,
                    round
                );
                window.unlock(0)?;
            }
            window.lock_all(Assert::NONE)?;
            let mut half = [0; 8];
            get(&window, &mut half, 0, disp + 4)?;
            window.flush(0)?;
            check_eq!(f64::from_ne_bytes(half), 10.0);
            put(&window, &42_u64.to_ne_bytes(), 0, disp)?;
            window.unlock_all()?;
        }
        job.world().barrier()?;
        check!(me != 0 || window.read_u64(64 + 16) == 20, "{memory:?}");
        window.close()?;
    }
    Ok(())
}
