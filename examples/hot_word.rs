//! All ranks at one word of rank 0: how many operations a second it takes, how fairly the ranks share them, and how many
//! packets the ranks that wait send there.
//!
//! ```text
//! cargo build --release --example hot_word
//! cargo run --release -- run -n 8 --device tcp target/release/examples/hot_word --op lock
//! ```

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use transom::{Communicator, LockKind, Op, Window};
use transom_examples::{Failure, Launchable, Start};

/// All ranks at one word of rank 0, the longest wait and the shares of ranks
#[derive(Parser)]
#[command(name = "hot_word")]
struct Options {
    /// What each rank does again and again
    #[arg(long, value_enum, default_value_t = What::Lock)]
    op: What,

    /// For how many seconds
    #[arg(long, default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    #[command(flatten)]
    start: Start,
}

impl Launchable for Options {
    fn ranks(&self) -> Option<u32> {
        self.start.ranks
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// An exclusive lock, a put of 8 bytes, unlock
    Lock,
    /// A shared lock, a put of 8 bytes, unlock; every tenth time an exclusive one
    Mixed,
    /// An accumulate of a float, under the accumulate lock
    Accumulate,
    /// A fetch_add, which is one atomic
    Counter,
    /// A fetch_and_op of the maximum, which over a network is a loop of compare-and-swap
    Maximum,
}

fn main() -> ExitCode {
    transom_examples::main("hot_word", run)
}

/// Collective.
fn run(comm: &Communicator, options: &Options) -> Result<(), Failure> {
    let mut floats = Window::<f64>::allocate(comm, 1)?;
    let mut words = Window::<u64>::allocate(comm, 1)?;
    let mut mine = Mine::default();
    let limit = Duration::from_secs(options.seconds);
    if options.op == What::Accumulate {
        floats.passive(|epoch| {
            let all = epoch.lock_all()?;
            let target = all.target(0)?;
            mine = repeat(comm, limit, |_| {
                target.accumulate_blocking(Op::Sum, 0, &[1.0])?;
                target.flush()
            })?;
            all.unlock()
        })?;
    } else if matches!(options.op, What::Lock | What::Mixed) {
        words.passive(|epoch| {
            mine = repeat(comm, limit, |round| {
                let kind = match options.op {
                    What::Mixed if round % 10 > 0 => LockKind::Shared,
                    _ => LockKind::Exclusive,
                };
                let lock = epoch.lock(0, kind)?;
                lock.put_blocking(0, &[round])?;
                lock.unlock()
            })?;
            transom::Result::Ok(())
        })?;
    } else {
        words.passive(|epoch| {
            let all = epoch.lock_all()?;
            let target = all.target(0)?;
            mine = repeat(comm, limit, |round| match options.op {
                What::Maximum => target.fetch_and_op(Op::Max, 0, round).map(drop),
                _ => target.fetch_add(0, 1).map(drop),
            })?;
            all.unlock()
        })?;
    }
    report(comm, options, mine)?;
    words.free()?;
    Ok(floats.free()?)
}

/// What one rank has seen.
#[derive(Default)]
struct Mine {
    operations: u64,
    time: Duration,
    longest: Duration,
    packets: Option<u64>,
}

/// Collective. Calls `operation` again and again, with its number.
fn repeat(
    comm: &Communicator,
    limit: Duration,
    mut operation: impl FnMut(u64) -> transom::Result<()>,
) -> transom::Result<Mine> {
    // Connected, and the way is known.
    operation(0)?;
    comm.barrier()?;
    let (mut operations, mut longest) = (0, Duration::ZERO);
    let packets = packets_received();
    let begun = Instant::now();
    let mut last = begun;
    while last - begun < limit {
        operation(operations)?;
        operations += 1;
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    let time = last - begun;
    let after = packets_received();
    comm.barrier()?;
    let packets = after.zip(packets).map(|(after, before)| after - before);
    Ok(Mine {
        operations,
        time,
        longest,
        packets,
    })
}

/// Packets that this host has received by all its interfaces, or by its RDMA adapters, if any of these counts them.
fn packets_received() -> Option<u64> {
    let adapters = fs::read_dir("/sys/class/infiniband");
    let counts = adapters.into_iter().flatten().filter_map(|adapter| {
        let count = adapter.ok()?.path().join("ports/1/hw_counters/rcvd_pkts");
        fs::read_to_string(count).ok()?.trim().parse::<u64>().ok()
    });
    if let Some(by_adapters) = counts.reduce(|sum, count| sum + count) {
        return Some(by_adapters);
    }
    let interfaces = fs::read_to_string("/proc/net/dev").ok()?;
    let counts = interfaces.lines().filter_map(|line| {
        let (_, counts) = line.split_once(':')?;
        counts.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Some(counts.sum())
}

/// Collective.
fn report(comm: &Communicator, options: &Options, mine: Mine) -> Result<(), Failure> {
    let micros = |time: Duration| time.as_micros() as u64;
    let found = comm.gather(&[mine.operations, micros(mine.longest)], 0)?;
    if comm.rank() > 0 {
        return Ok(());
    }
    let (mut counts, longest): (Vec<_>, Vec<_>) =
        found.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
    counts.sort_unstable();
    let all: u64 = counts.iter().sum();
    let a_second = |count: u64| count as f64 / mine.time.as_secs_f64();
    println!(
        "{:?}, {} ranks: {:.0} a second; by rank: least {}, median {}, most {}; longest wait {:.1} ms",
        options.op,
        comm.size(),
        a_second(all),
        counts[0],
        counts[counts.len() / 2],
        counts[counts.len() - 1],
        longest.into_iter().max().unwrap_or(0) as f64 / 1000.0
    );
    if let Some(packets) = mine.packets {
        println!(
            "packets to rank 0's host: {:.0} a second, {:.1} an operation",
            a_second(packets),
            packets as f64 / all.max(1) as f64
        );
    }
    Ok(())
}
