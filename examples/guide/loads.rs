use transom::{Job, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    // The ranks that can share memory with this one: those of one host, on every device.
    let host = job.world().split_shared(0)?;
    let mut window = Window::<u64>::allocate_shared(&host, 1000)?;

    // By turns: each rank writes to its own part, and then all read all parts, in place.
    window.local_mut()?.fill(u64::from(host.rank()));
    let sum: u64 = window.loads(|epoch| {
        let mut sum = 0;
        for rank in 0..epoch.ranks() {
            sum += epoch.part(rank)?.iter().sum::<u64>();
        }
        Ok(sum)
    })?;
    assert_eq!(sum, (0..u64::from(host.size())).sum::<u64>() * 1000);
    window.free()
}
