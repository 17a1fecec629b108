use transom::{Info, Job, LockKind, OperationKind, Result, Via, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let hints = Info::new().with("transom_statistics", "true");
    let mut window = Window::<u64>::allocate_with(world, 100, &hints)?;

    let row = [1; 10];
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        for start in [0, 10, 20] {
            lock.put(start, &row)?;
        }
        lock.fetch_add(99, 1)?;
        lock.unlock()
    })?;

    // What this rank did, not what others did here.
    let Some(counted) = window.statistics() else {
        unreachable!("the hint asked for it");
    };
    assert_eq!(counted.of(OperationKind::Put), (3, 240));
    assert_eq!(counted.of(OperationKind::Fetch).0, 1);
    // All ways together are all operations.
    let ways = [Via::Mapped, Via::Attached, Via::Agent, Via::Device];
    let all: u64 = ways.into_iter().map(|way| counted.by(way).0).sum();
    assert_eq!(all, 4);
    if world.rank() == 0 {
        // Rank 0 had it nearer.
        assert!(
            counted
                .accesses
                .iter()
                .all(|one| one.target.to_string() == "own")
        );
    }
    window.free()
}
