//! What an operation costs an adapter: rank 1 does one operation on rank 0, so often.
//!
//!     soft-hca --hosts 2 -n 2 --count -- target/debug/examples/operation_costs put 1000
//!
//! `soft-hca` counts what the adapters do. The difference between two numbers of repetitions is the operations' part.

use transom::{Job, LockKind, Result, Window};

const OPERATIONS: &str =
    "put, get, put-1k, put-64k, put-1m, get-64k, fetch-add, batch, lock-put-unlock, fence, window";
const WORDS: usize = 1 << 17;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (operation, times) = (
        args.next(),
        args.next().and_then(|times| times.parse().ok()),
    );
    let (Some(operation), Some(times)) = (operation, times) else {
        eprintln!("usage: operation_costs OPERATION TIMES; OPERATION is one of {OPERATIONS}");
        std::process::exit(2);
    };
    let job = Job::init()?;
    let world = job.world();
    let is_origin = world.rank() == 1;
    let mut window = Window::<u64>::allocate(world, WORDS)?;
    let data = vec![1_u64; WORDS];
    let mut found = vec![0_u64; WORDS];
    match operation.as_str() {
        "fence" => {
            for _ in 0..times {
                window.fence(|_| Ok(()))?;
            }
        }
        "window" => {
            for _ in 0..times {
                Window::<u64>::allocate(world, 512)?.free()?;
            }
        }
        "lock-put-unlock" => window.passive(|epoch| {
            for _ in 0..if is_origin { times } else { 0 } {
                let lock = epoch.lock(0, LockKind::Exclusive)?;
                lock.put(0, &data[..1])?;
                lock.unlock()?;
            }
            Ok(())
        })?,
        _ => window.passive(|epoch| {
            if !is_origin {
                return Ok(());
            }
            let lock = epoch.lock(0, LockKind::Shared)?;
            for _ in 0..times {
                match operation.as_str() {
                    "put" => lock.put_blocking(0, &data[..1])?,
                    "get" => lock.get_blocking(0, &mut found[..1])?,
                    "put-1k" => lock.put_blocking(0, &data[..1 << 7])?,
                    "put-64k" => lock.put_blocking(0, &data[..1 << 13])?,
                    "put-1m" => lock.put_blocking(0, &data)?,
                    "get-64k" => lock.get_blocking(0, &mut found[..1 << 13])?,
                    "fetch-add" => drop(lock.fetch_add(0, 1)?),
                    "batch" => {
                        for at in 0..64 {
                            lock.put(at, &data[at..=at])?;
                        }
                        lock.flush()?;
                    }
                    other => {
                        eprintln!("no operation {other}: {OPERATIONS}");
                        std::process::exit(2);
                    }
                }
            }
            lock.unlock()
        })?,
    }
    world.barrier()?;
    window.free()
}
