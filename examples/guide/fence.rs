use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);

    // Collective: four elements on every rank, zeroed.
    let mut window = Window::<u32>::allocate(world, 4)?;

    // What an operation uses is borrowed to the end of the epoch, so it is made before it.
    let mine = [rank, rank];
    let mut theirs = [u32::MAX];
    window.fence(|epoch| {
        epoch.target(right)?.put(0, &mine)?;
        epoch.target(left)?.get(3, &mut theirs)
    })?;
    // Behind the fence, all of it is there, on all ranks.
    assert_eq!(window.local()?, [left, left, 0, 0]);
    assert_eq!(theirs, [0]);

    // Between epochs, this rank's part is a slice like any other.
    window.local_mut()?[3] = 7;
    window.free()
}
