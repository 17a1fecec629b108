//! Workers that may die, and a result that is right nevertheless:
//!
//! ```text
//! cargo build --release --example survive
//! cargo run --release -- run --keep-going -n 4 target/release/examples/survive
//! ```
//!
//! Kill any of its processes meanwhile (`kill -9`), all but one if you like. The ranks draw tasks from a counter. Each
//! keeps the results of its own tasks, so what is lost with a rank is what it did. The survivors tell each other what they
//! have, and draw the rest.
//!
//! The argument is the number of tasks.

use std::process::ExitCode;

use transom::{Communicator, ErrorKind, Job, LockKind, Op, Result, Window};

fn main() -> Result<ExitCode> {
    let tasks = std::env::args()
        .nth(1)
        .map_or(Ok(1000), |text| text.parse());
    let Ok(tasks) = tasks else {
        eprintln!("survive: the argument is not a number of tasks");
        return Ok(ExitCode::FAILURE);
    };
    let job = Job::init()?;
    let mut world = job.world().clone();
    println!("rank {} of {} begins", world.rank(), world.size());
    // The results of this rank's own tasks; 0: not done here.
    let mut own = vec![0_u64; tasks];
    let total = loop {
        match work_off(&world, &mut own) {
            Ok(total) => break total,
            // A death. Errors of other kinds would come again.
            Err(error) if matches!(error.kind(), ErrorKind::Peer(_)) => {
                let survivors = world.survivors()?;
                let (rank, size) = (survivors.communicator.rank(), survivors.communicator.size());
                println!("rank {} goes on as {rank} of {size}: {error}", world.rank());
                world = survivors.communicator;
            }
            Err(error) => return Err(error),
        }
    };
    println!("rank {}: {tasks} tasks, total {total}", job.world().rank());
    Ok(ExitCode::SUCCESS)
}

/// Collective. The sum of all results, once all tasks are done.
fn work_off(world: &Communicator, own: &mut [u64]) -> Result<u64> {
    let done = world.allreduce(own, Op::Max)?;
    let left: Vec<usize> = (0..done.len()).filter(|&task| done[task] == 0).collect();

    // Of these tasks, the number of those that were drawn, on rank 0.
    let mut window = Window::<u64>::allocate(world, 1)?;
    window.passive(|epoch| {
        let counter = epoch.lock(0, LockKind::Shared)?;
        while let Some(&task) = left.get(counter.fetch_add(0, 1)? as usize) {
            own[task] = compute(task as u64);
        }
        counter.unlock()
    })?;
    window.free()?;

    Ok(world.allreduce(own, Op::Max)?.iter().sum())
}

/// How many steps the Collatz sequences of some numbers take: never 0.
fn compute(task: u64) -> u64 {
    let steps = |mut number: u64| {
        let mut steps = 1;
        while number != 1 {
            number = if number.is_multiple_of(2) {
                number / 2
            } else {
                3 * number + 1
            };
            steps += 1;
        }
        steps
    };
    (0..2000)
        .map(|number| steps(2000 * task + number + 1))
        .sum()
}
