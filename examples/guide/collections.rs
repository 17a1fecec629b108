use transom::Job;
use transom_collections::{Deque, DistMap, Result};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();

    // How many numbers take so many steps to 1? A task is a range of numbers.
    let tasks = Deque::<[u64; 2]>::new(world, 100)?;
    let steps = DistMap::<u64, u64>::new(world, 2000)?;
    if world.rank() == 0 {
        tasks.push(&[1, 1000])?;
    }
    world.barrier()?;
    while let Some(task) = tasks.next()? {
        let [start, end] = *task;
        if end - start > 50 {
            tasks.push(&[start, (start + end) / 2])?;
            tasks.push(&[(start + end) / 2, end])?;
            continue;
        }
        for number in start..end {
            let mut at = number;
            let mut count = 0;
            while at != 1 {
                at = if at % 2 == 0 { at / 2 } else { 3 * at + 1 };
                count += 1;
            }
            steps.update(&count, |numbers| numbers.unwrap_or(0) + 1)?;
        }
    }
    // All ranks have done their tasks.
    assert_eq!(steps.get(&111)?, Some(5));
    tasks.free()?;
    steps.free()
}
