//! How long what all ranks do together takes on many ranks, and how much memory a rank has then:
//!
//! ```text
//! cargo run --release --example scale -- -n 1000
//! ```
//!
//! Each time is the median over the repetitions of the longest time that a rank took. `--lines` prints what
//! the example `model` of the command's crate reads by `--fit`.

use std::io;
use std::process::{self, ExitCode};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use transom::raw::{Assert, Window};
use transom::{Communicator, Group, Info, Op};
use transom_examples::{Failure, Launchable, Start};

/// Measure what all ranks of a job do together
#[derive(Parser)]
#[command(name = "scale")]
struct Options {
    /// How often each step is repeated
    #[arg(long, value_name = "N", default_value_t = 9)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Of so many calls in a row, the mean counts as one time
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,

    /// Print lines for `--fit` of the example model: CALL RANKS PER_HOST NANOSECONDS
    #[arg(long)]
    lines: bool,

    /// To how many ranks each rank puts in the step on first contacts
    #[arg(long, value_name = "N", default_value_t = 32)]
    contacts: u32,

    /// Make so many windows at last, and free them
    #[arg(long, value_name = "N", default_value_t = 20)]
    windows: u32,

    /// The bytes of each of these windows on each rank
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    bytes: usize,

    /// This rank kills itself at the end, while the others wait in a barrier
    #[arg(long, value_name = "RANK")]
    kill: Option<u32>,

    /// The second since 1970 at which the launcher was started, as `date +%s.%N` says it
    #[arg(long, value_name = "SECOND", allow_negative_numbers = true)]
    since: Option<f64>,

    #[command(flatten)]
    start: Start,
}

impl Launchable for Options {
    fn ranks(&self) -> Option<u32> {
        self.start.ranks
    }
}

fn main() -> ExitCode {
    transom_examples::main("scale", run)
}

/// Collective.
fn run(comm: &Communicator, options: &Options) -> Result<(), Failure> {
    // It takes memory and time, which is what the steps are about.
    let per_host = match options.lines {
        true => comm.split_shared(0)?.size(),
        false => 0,
    };
    let scale = Scale {
        comm,
        options,
        per_host,
    };
    if let Some(since) = options.since {
        comm.barrier()?;
        scale.report("start", now() - since)?;
    }
    scale.report_memory("start")?;

    let make = |bytes| Window::allocate(comm, bytes, 1, &Info::new());
    scale.measure("allocate and free a window", || make(8)?.free())?;

    let window = make(8)?;
    scale.measure("barrier", || comm.barrier())?;
    scale.measure("allreduce", || {
        comm.allreduce_value(1_u64, Op::Sum).map(drop)
    })?;
    scale.measure("allgather", || comm.allgather(&[1_u64]).map(drop))?;
    scale.measure("fence", || window.fence(Assert::NONE))?;
    window.fence(Assert::NO_SUCCEED)?;
    scale.measure("lock_all, unlock_all", || {
        window.lock_all(Assert::NONE)?;
        window.unlock_all()
    })?;
    let neighbours = scale.neighbours()?;
    scale.measure("post, start, complete, wait, 4 neighbours", || {
        window.post(&neighbours, Assert::NONE)?;
        window.start(&neighbours, Assert::NONE)?;
        window.complete()?;
        window.wait()
    })?;
    scale.report_memory("these")?;

    window.lock_all(Assert::NONE)?;
    let targets = scale.some_ranks();
    let put_to_all = || {
        let mine = u64::from(comm.rank());
        for &target in &targets {
            // SAFETY: `mine` lives until the flush.
            unsafe { window.put((&raw const mine).cast(), 8, target, 0)? };
            window.flush(target)?;
        }
        Ok(())
    };
    scale.once(
        &format!("{} first contacts of each rank", targets.len()),
        put_to_all,
    )?;
    scale.measure("the same again", put_to_all)?;
    window.unlock_all()?;
    scale.report_memory("these")?;

    let mut windows = Vec::new();
    let several = format!("{} windows of {} bytes", options.windows, options.bytes);
    scale.once(&format!("allocate {several}"), || {
        for _ in 0..options.windows {
            windows.push(make(options.bytes)?);
        }
        Ok(())
    })?;
    scale.report_memory("these")?;
    scale.once(&format!("free {several}"), || {
        windows.drain(..).try_for_each(Window::free)
    })?;
    window.free()?;
    match options.kill {
        Some(victim) => scale.die(victim),
        None => Ok(()),
    }
}

/// What the example `model` calls the steps that it knows.
const CALLS: [(&str, &str); 5] = [
    ("barrier", "barrier"),
    ("allreduce", "allreduce"),
    ("allgather", "allgather"),
    ("fence", "fence"),
    ("post, start, complete, wait, 4 neighbours", "pscw"),
];

struct Scale<'a> {
    comm: &'a Communicator,
    options: &'a Options,
    per_host: u32,
}

impl Scale<'_> {
    /// Collective. Rank 0 prints the median of the longest times.
    fn measure(&self, what: &str, step: impl Fn() -> transom::Result<()>) -> Result<(), Failure> {
        let calls = self.options.calls;
        let mut seconds = Vec::new();
        for _ in 0..self.options.repeat {
            let all = self.time(|| (0..calls).try_for_each(|_| step()))?;
            seconds.push(all / f64::from(calls));
        }
        seconds.sort_by(f64::total_cmp);
        self.report(what, seconds[seconds.len() / 2])
    }

    /// Collective. For what can be done only once.
    fn once(&self, what: &str, step: impl FnOnce() -> transom::Result<()>) -> Result<(), Failure> {
        let seconds = self.time(step)?;
        self.report(what, seconds)
    }

    /// Collective. How long the slowest rank took.
    fn time(&self, step: impl FnOnce() -> transom::Result<()>) -> Result<f64, Failure> {
        self.comm.barrier()?;
        let start = Instant::now();
        step()?;
        let mine = start.elapsed().as_secs_f64();
        Ok(self.comm.allreduce_value(mine, Op::Max)?)
    }

    /// Local. Rank 0 prints its own time.
    fn report(&self, what: &str, seconds: f64) -> Result<(), Failure> {
        if self.comm.rank() > 0 {
            return Ok(());
        }
        if !self.options.lines {
            println!("{what}: {:.3} us", seconds * 1e6);
        } else if let Some((_, call)) = CALLS.iter().find(|(step, _)| *step == what) {
            let (ranks, per_host) = (self.comm.size(), self.per_host);
            println!("{call} {ranks} {per_host} {:.0}", seconds * 1e9);
        }
        Ok(())
    }

    /// Collective. Rank 0 prints how much memory a rank has, each page divided among the processes that have it.
    fn report_memory(&self, after: &str) -> Result<(), Failure> {
        let kib = self.comm.allreduce_value(proportional_kib()?, Op::Sum)?;
        if self.comm.rank() == 0 && !self.options.lines {
            println!(
                "memory of a rank after {after}: {} KiB",
                kib / u64::from(self.comm.size())
            );
        }
        self.comm.barrier()?;
        Ok(())
    }

    /// Local. Two ranks before this one and two behind it.
    fn neighbours(&self) -> Result<Group, Failure> {
        let (rank, size) = (self.comm.rank(), self.comm.size());
        let near = [1, 2, size.saturating_sub(2), size - 1].map(|step| (rank + step) % size);
        let mut near: Vec<u32> = near.into_iter().filter(|&other| other != rank).collect();
        near.sort_unstable();
        near.dedup();
        Ok(self.comm.group().include(&near)?)
    }

    /// Local. Different ones, other than this rank: at random, but the same in each run.
    fn some_ranks(&self) -> Vec<u32> {
        let (rank, size) = (self.comm.rank(), self.comm.size());
        let wanted = self.options.contacts.min(size - 1) as usize;
        let mut state = u64::from(rank) + 1;
        let mut ranks = Vec::new();
        while ranks.len() < wanted {
            // Knuth's MMIX generator, of whose state the upper half is random enough.
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let other = ((state >> 33) % u64::from(size)) as u32;
            if other != rank && !ranks.contains(&other) {
                ranks.push(other);
            }
        }
        ranks
    }

    /// Collective. How long after a rank's death the others know of it; rank 0 prints its own time, and all fail.
    fn die(&self, victim: u32) -> Result<(), Failure> {
        let at = self.comm.allreduce_value(now(), Op::Max)? + 1.0;
        if self.comm.rank() == victim {
            thread::sleep(Duration::from_secs_f64((at - now()).max(0.0)));
            // SAFETY: ends this process, and nothing else.
            unsafe { libc::kill(process::id() as i32, libc::SIGKILL) };
        }
        let told = self.comm.barrier();
        self.report("a death is known", now() - at)?;
        Ok(told?)
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}

fn proportional_kib() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
    kib.ok_or_else(|| io::Error::other("/proc/self/smaps_rollup has no line Pss"))
}
