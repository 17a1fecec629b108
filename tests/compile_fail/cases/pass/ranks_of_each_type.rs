//! Ranks as literals and indices, and nobody.

use transom::{Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 8)?;
    let ranks: Vec<usize> = (0..1).collect();
    window.fence(|epoch| {
        epoch.target(None)?.put_value(0, 1)?;
        epoch.target(0)?.put_value(0, 1)?;
        epoch.target(ranks[0])?.put_value(1, 2)?;
        epoch.target(world.rank())?.put_value(2, 3)?;
        epoch.target(Some(world.rank()))?.put_value(3, 4)
    })?;
    window.passive(|epoch| {
        epoch.lock(0, LockKind::Shared)?.unlock()?;
        epoch.lock(ranks[0], LockKind::Shared)?.unlock()?;
        let all = epoch.lock_all()?;
        for rank in 0..epoch.ranks() {
            all.target(rank)?.flush()?;
        }
        all.target(None)?.flush()?;
        all.target(0)?.flush()?;
        all.target(-1 + 1)?.flush()
    })?;
    assert_eq!(window.len_of(0)? + window.len_of(ranks[0])?, 16);
    assert_eq!(world.gather(&[7], ranks[0])?, [7]);
    assert_eq!(world.gather(&[7_u64], 0)?, [7]);
    window.free()
}
