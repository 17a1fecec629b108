use transom::{Communicator, Job, Op, Result, Session, Window};

/// Of a library: counters, spread over all ranks.
struct Counters {
    session: Session<'static, u64>,
}

impl Counters {
    /// Collective.
    fn new(comm: &Communicator, each: usize) -> Result<Self> {
        let window = Window::allocate(comm, each)?.into_owned();
        Ok(Self {
            session: window.into_session()?,
        })
    }

    fn place(&self, number: usize) -> (u32, usize) {
        let ranks = self.session.ranks() as usize;
        ((number % ranks) as u32, number / ranks)
    }

    /// One-sided, from any thread.
    fn add(&self, number: usize, count: u64) -> Result<u64> {
        let (rank, at) = self.place(number);
        self.session.fetch_add(rank, at, count)
    }

    /// One-sided: all of them at once.
    fn add_all(&self, numbers: &[usize]) -> Result<()> {
        let places: Vec<_> = numbers.iter().map(|&number| self.place(number)).collect();
        self.session
            .accumulate_indexed(Op::Sum, &places, &vec![1; places.len()])
    }

    /// One-sided: the first counter of each rank.
    fn firsts(&self) -> Result<Vec<u64>> {
        let mut firsts = vec![0; self.session.ranks() as usize];
        self.session.batch(|batch| {
            for (rank, first) in firsts.chunks_mut(1).enumerate() {
                batch.target(rank)?.get(0, first)?;
            }
            Ok(())
        })?;
        Ok(firsts)
    }
}

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let counters = Counters::new(world, 10)?;
    counters.add(3, 10)?;
    counters.add_all(&[0, 3, 3, 7])?;
    world.barrier()?;
    assert_eq!(counters.add(3, 0)?, 12 * u64::from(world.size()));
    assert_eq!(counters.firsts()?[0], u64::from(world.size()));
    counters.session.free()
}
