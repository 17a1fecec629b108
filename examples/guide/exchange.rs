use transom::{Group, Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let mut window = Window::<u64>::allocate(world, size as usize)?;

    // Everybody sends to rank 0, which sends to nobody. The others do not wait for each other.
    let first = world.group().include(&[0])?;
    let all = world.group();
    let nobody = Group::empty();
    let (origins, targets) = match rank {
        0 => (all, &first),
        _ => (&nobody, &first),
    };
    let mine = [100 + u64::from(rank)];
    window.exchange(origins, targets, |epoch| {
        epoch.target(0)?.put(rank as usize, &mine)
    })?;
    if rank == 0 {
        let expected: Vec<u64> = (100..).take(size as usize).collect();
        assert_eq!(window.local()?, expected);
    }
    window.free()
}
