//! The first five minutes: every rank greets its neighbour, and all share a counter.
//!
//! ```text
//! cargo build --release --example hello
//! cargo run --release -- run -n 4 target/release/examples/hello
//! ```
//!
//! Started by itself, it is a job of one rank.

use transom::{Job, LockKind, Result, Window};

/// Where in every rank's part its neighbour's greeting arrives, and where its ticket is kept.
const GREETING: usize = 0;
const TICKET: usize = 1;
/// The counter; rank 0's is the one that counts.
const COUNTER: usize = 2;

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());

    // Memory on every rank that all ranks can reach: three numbers each.
    let mut window = Window::<u64>::allocate(world, 3)?;

    // Between two fences, all ranks put and get as they like. The greeting is lent to the put until
    // the second fence, so it has to live out here.
    let greeting = [1000 + u64::from(rank)];
    window.fence(|epoch| epoch.target((rank + 1) % size)?.put(GREETING, &greeting))?;

    // Under a lock, a rank needs nobody's help: who comes first draws the first ticket.
    let ticket = window.passive(|epoch| -> Result<u64> {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let ticket = lock.fetch_add(COUNTER, 1)?;
        lock.unlock()?;
        Ok(ticket)
    })?;

    // Outside epochs, this rank's own part is a slice.
    window.local_mut()?[TICKET] = ticket;

    // Rank 0 gets what everybody has, greeting and ticket, and prints it in the order of ranks.
    let mut found = vec![[0; 2]; size as usize];
    window.fence(|epoch| {
        if rank == 0 {
            for (other, found) in (0..).zip(&mut found) {
                epoch.target(other)?.get(GREETING, found)?;
            }
        }
        Ok(())
    })?;
    if rank == 0 {
        for (other, [greeting, ticket]) in found.iter().enumerate() {
            println!("rank {other} of {size}: greeted with {greeting}, drew ticket {ticket}");
        }
        println!("{} tickets were drawn", window.local()?[COUNTER]);
    }
    window.free()
}
