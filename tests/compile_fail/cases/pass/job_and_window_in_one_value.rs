//! A value that holds the job and its windows, and helper functions over epochs. Runs as a job of one rank.

use transom::{Epoch, Job, LockKind, Op, OwnedWindow, Passive, Result, Target, Window};

struct Program {
    job: Job,
    counts: OwnedWindow<u64>,
    sums: OwnedWindow<f64>,
}

fn bump(epoch: &Epoch<u64, Passive>) -> Result<u64> {
    epoch.lock(0, LockKind::Shared)?.fetch_add(0, 1)
}

fn add<M>(target: &Target<f64, M>, value: f64) -> Result<()> {
    target.accumulate_value(Op::Sum, 0, value)
}

fn borrows(window: &mut Window<u64>) -> Result<u64> {
    window.passive(bump)
}

impl Program {
    fn start() -> Result<Self> {
        let job = Job::init()?;
        let counts = Window::allocate(job.world(), 1)?.into_owned();
        let sums = Window::allocate(job.world(), 1)?.into_owned();
        Ok(Self { job, counts, sums })
    }

    fn step(&mut self) -> Result<()> {
        let counts = &mut self.counts;
        self.sums.fence(|epoch| {
            let count = counts.passive(|inner| bump(inner))?;
            add(&epoch.target(None)?, 7.0)?;
            add(&epoch.target(0)?, count as f64 + 0.5)
        })
    }
}

fn main() -> Result<()> {
    let mut program = Program::start()?;
    program.step()?;
    program.step()?;
    assert_eq!(borrows(&mut program.counts)?, 2);
    assert_eq!(program.sums.local()?, [2.0]);
    let Program { job, counts, sums } = program;
    counts.free()?;
    drop(job);
    // Behind the job, a window's memory is leaked, and that is told.
    assert_eq!(sums.local()?, [2.0]);
    assert!(sums.free().is_err());
    Ok(())
}
