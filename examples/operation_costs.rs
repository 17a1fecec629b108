//! What an operation costs an adapter: rank 1 does one operation on rank 0, so often.
//!
//!     soft-hca --hosts 2 -n 2 --count -- target/debug/examples/operation_costs put 1000
//!
//! `soft-hca` counts what the adapters do. The difference between two numbers of repetitions is the operations' part.

use transom::raw::{self, Assert};
use transom::{Info, Job, LockKind, Result, Window};

const OPERATIONS: &str = "put, get, put-SIZE, get-SIZE (64k, up to 16m), put-registered-SIZE, get-registered-SIZE, \
    batch, batch-SIZE, fetch-add, lock-put-unlock, fence (one call), epoch (two fences and a put), window";
const WORDS: usize = (1 << 21) + 64;

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
    let mut registered = job.register(vec![1_u64; WORDS])?;
    match operation.as_str() {
        "fence" => {
            let window = raw::Window::allocate(world, 8, 1, &Info::new())?;
            for _ in 0..times {
                window.fence(Assert::NONE)?;
            }
            window.free()?;
        }
        "epoch" => {
            for _ in 0..times {
                window.fence(|epoch| match is_origin {
                    true => epoch.target(0)?.put(0, &data[..1]),
                    false => Ok(()),
                })?;
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
            let (kind, words) = of_size(&operation);
            for _ in 0..times {
                match kind {
                    "put" => lock.put_blocking(0, &data[..words])?,
                    "get" => lock.get_blocking(0, &mut found[..words])?,
                    "put-registered" => lock.put_blocking(0, &registered[..words])?,
                    "get-registered" => lock.get_blocking(0, &mut registered[..words])?,
                    "fetch-add" => drop(lock.fetch_add(0, 1)?),
                    "batch" => {
                        for at in 0..64 {
                            lock.put(at, &data[..words])?;
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

/// What to do, and with how many words: 2048 for `put-16k`, and one without a size.
fn of_size(operation: &str) -> (&str, usize) {
    let parsed = operation.rsplit_once('-').and_then(|(kind, size)| {
        let unit = match size.chars().last()? {
            'k' => 1 << 7,
            'm' => 1 << 17,
            _ => return None,
        };
        let units: usize = size[..size.len() - 1].parse().ok()?;
        Some((kind, units * unit)).filter(|&(_, words)| words <= WORDS - 64)
    });
    parsed.unwrap_or((operation, 1))
}
