//! One epoch of each kind, with every way to lend a buffer. Runs as a job of one rank.

use transom::{Job, LockKind, Op, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let mut window = Window::<u64>::allocate(job.world(), 8)?;
    window.local_mut()?[0] = 1;
    let src = [1u64, 2];
    let mut dst = [0u64; 2];
    let mut buffer = job.alloc::<u64>(2)?;
    window.fence(|epoch| {
        let target = epoch.target(0)?;
        target.put(4, &src)?;
        target.get(0, &mut dst)
    })?;
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Exclusive)?;
        lock.target().fetch_add(0, 1)?;
        let back = lock.rget(0, &mut buffer)?.wait()?;
        back[0] += 1;
        let _ = lock.rput(0, back)?.wait()?;
        lock.target().put(6, &src)?;
        lock.flush()?;
        lock.unlock()?;

        let mut found = [0];
        let mut lock = epoch.lock(0, LockKind::Exclusive)?;
        lock.get_blocking(0, &mut found)?;
        lock.local_mut()?[1] = found[0];
        let owned = lock.rget_owned(0, vec![0; 2])?.wait()?;
        assert_eq!(owned, [3, 3]);
        lock.unlock()?;

        let all = epoch.lock_all()?;
        all.target(0)?.accumulate(Op::Sum, 2, &src)?;
        all.unlock()
    })?;
    assert_eq!(window.local()?, [3, 3, 1, 2, 1, 2, 1, 2]);
    assert_eq!((dst, &*buffer), ([1, 0], &[3, 0][..]));
    window.free()
}
