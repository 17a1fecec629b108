use transom::{Communicator, Job, LockKind, Op, OwnedWindow, Result, Window};

/// Tasks for all ranks: rank 0 has the counter from which they draw.
struct Tasks {
    window: OwnedWindow<u64>,
    count: u64,
}

impl Tasks {
    /// Collective.
    fn new(comm: &Communicator, count: u64) -> Result<Self> {
        let window = Window::allocate(comm, 1)?.into_owned();
        Ok(Self { window, count })
    }

    /// Collective. Draws tasks, each of which one rank gets, and does them.
    fn run(&mut self, mut task: impl FnMut(u64)) -> Result<()> {
        let count = self.count;
        self.window.passive(|epoch| {
            let counter = epoch.lock(0, LockKind::Shared)?;
            loop {
                let number = counter.fetch_add(0, 1)?;
                if number >= count {
                    return counter.unlock();
                }
                task(number);
            }
        })
    }

    /// Collective.
    fn free(self) -> Result<()> {
        self.window.free()
    }
}

/// The job and what lives in it may stand in one value.
struct Program {
    tasks: Tasks,
    job: Job,
}

impl Program {
    fn start() -> Result<Self> {
        let job = Job::init()?;
        let tasks = Tasks::new(job.world(), 100)?;
        Ok(Self { tasks, job })
    }

    fn finish(self) -> Result<()> {
        // First the windows, then the job.
        self.tasks.free()?;
        self.job.finish()
    }
}

fn main() -> Result<()> {
    let mut program = Program::start()?;
    let mut sum = 0;
    program.tasks.run(|number| sum += number)?;
    let sum = program.job.world().allreduce_value(sum, Op::Sum)?;
    assert_eq!(sum, (0..100).sum());
    program.finish()
}
