//! `transom bench`: measures one-sided operations on this machine.
//!
//! The standard suite measures what plain MPI programs measure, line by line, with one method for all. It makes
//! `iterations / 10 + 1` rounds to warm up, and times `iterations` rounds together. The result is the maximum of the
//! ranks' times. Rank 1 is the origin and rank 0 the target, unless a line says that every rank takes part.

mod args;
mod attach;
mod busy;
mod creation;
mod engine;
mod error;
mod measure;
mod memory;
mod output;
mod pairs;
mod record;
mod results;
mod review;
mod samples;
mod selected;
mod suite;

use std::env;
use std::process::ExitCode;

use rdma_sys_shim::{Surroundings, variable};
use transom::devices::REGISTRY;
use transom::launcher::{Launch, is_launched};
use transom::lower::{count_traffic, traffic};
use transom::{ErrorKind, Job, PeerError, ThreadLevel, Traffic};

use super::{BindToArg, DEVICE};
pub(super) use args::Args;
use args::Plan;
use engine::Bench;
use error::{BenchError, Result};
use output::{JsonFile, Output};
use results::PlotFile;

pub(super) fn run(args: &Args) -> ExitCode {
    if !args.measures() {
        return review::run(args).unwrap_or_else(|error| match error.is_broken_pipe() {
            true => ExitCode::FAILURE,
            false => super::fail(&error, error.exit_code()),
        });
    }
    // If this process belongs to a job but cannot join it, this is an error. It is not a reason to start another job.
    let outcome = args.plan().and_then(|plan| match is_launched() {
        true => take_part(&plan),
        false => launch(&plan),
    });
    match outcome {
        Ok(code) => code,
        Err(error) => super::fail(&error, error.exit_code()),
    }
}

/// Starts this command again as the ranks of a job.
fn launch(plan: &Plan<'_>) -> Result<ExitCode> {
    let ranks = plan.args.ranks.unwrap_or(2);
    // Report errors that every rank would make once, here. An open pipe would not end for its reader before rank 0 has
    // written.
    let spec = plan.args.device.clone().or_else(|| variable(DEVICE));
    REGISTRY.open(spec.as_deref().unwrap_or(""), &Surroundings::default())?;
    enough(ranks)?;
    plan.check_memory(ranks)?;
    super::hints::warn_of_unknown(&plan.unknown_hints);
    plan.args.plot.as_deref().map(PlotFile::probe).transpose()?;
    plan.check_hints()?;
    let _held = plan.args.json.as_ref().map(JsonFile::probe).transpose()?;
    let program = env::current_exe().map_err(BenchError::Executable)?;
    let outcome = Launch::new(ranks, program)
        .args(["bench", "--started"])
        .args(env::args_os().skip(2))
        .device(plan.args.device.clone())
        .bind_to(plan.args.bind_to.unwrap_or(BindToArg::Auto).into())
        // Otherwise rank 0 would have no terminal for its progress bar.
        .direct_output(output::has_terminal())
        .name("transom bench")
        .run()?;
    Ok(ExitCode::from(outcome.exit_code()))
}

/// Runs the benchmark as a rank of a job.
fn take_part(plan: &Plan<'_>) -> Result<ExitCode> {
    if let Some(device) = &plan.args.device {
        // SAFETY: the process has only this thread, so nothing reads the environment meanwhile.
        unsafe { env::set_var(DEVICE, device) };
    }
    if plan.args.verbose {
        count_traffic();
    }
    // As by MPI_Init, which the MPI programs call to which this is compared.
    let job = Job::init_thread(ThreadLevel::Serialized)?;
    match measure(plan, &job) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The rank at fault, or its launcher, reports the error.
        Err(BenchError::Library(error)) if is_told_elsewhere(plan, &error) => Ok(ExitCode::FAILURE),
        // Every rank has found the same mistake: one reports it, and the others let it finish.
        Err(error) if error.is_usage() => {
            let code = match job.world().rank() {
                0 => super::fail(&error, error.exit_code()),
                _ => ExitCode::from(error.exit_code()),
            };
            let _ = job.world().barrier();
            Ok(code)
        }
        Err(error) => {
            abort(plan, &job, &error);
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

/// Ends the job after a failure of this rank, with one line. Transom's own launcher prints the reason.
fn abort(plan: &Plan<'_>, job: &Job, error: &BenchError) {
    let code = error.exit_code();
    let why = match error.is_broken_pipe() {
        true => "nobody reads the results".to_owned(),
        false => error.to_string(),
    };
    if !plan.args.started && !error.is_broken_pipe() {
        let rank = job.world().rank();
        super::fail(&format_args!("rank {rank}: {error}"), code);
    }
    job.abort(code.into(), &why);
}

/// If a peer is silent, only this rank may know, because the connection is broken. If a peer has died, Transom's
/// launcher reports it; where ranks meet without a launcher, nothing does.
fn is_told_elsewhere(plan: &Plan<'_>, error: &transom::Error) -> bool {
    match error.kind() {
        ErrorKind::Peer(PeerError::Silent { .. }) => false,
        ErrorKind::Peer(PeerError::Died { .. } | PeerError::Gone { .. }) => plan.args.started,
        ErrorKind::Peer(_) => true,
        _ => false,
    }
}

fn measure(plan: &Plan<'_>, job: &Job) -> Result<()> {
    let world = job.world();
    if let Some(asked) = plan.args.ranks.filter(|&asked| asked != world.size()) {
        let found = world.size();
        return Err(BenchError::JobSize { asked, found });
    }
    if plan.args.bind_to.is_some() && !plan.args.started {
        return Err(BenchError::BindTo);
    }
    enough(world.size())?;
    plan.check_hints()?;
    let output = match world.rank() {
        0 => {
            plan.check_memory(world.size())?;
            if !plan.args.started {
                super::hints::warn_of_unknown(&plan.unknown_hints);
            }
            Some(Output::open(plan, job)?)
        }
        _ => None,
    };
    let mut bench = Bench::new(job, plan, output);
    match &plan.selected {
        None => suite::run(&mut bench, plan.args.window)?,
        Some(selected) => selected::run(&mut bench, plan.args.window, selected)?,
    }
    if plan.args.verbose {
        note_traffic(&mut bench, job)?;
        note_usage(&mut bench, job)?;
        note_addresses(&mut bench, job)?;
    }
    bench.finish()
}

/// Prints what each rank has sent so far in collective calls, post and complete.
fn note_traffic(bench: &mut Bench<'_>, job: &Job) -> Result<()> {
    let Traffic { mapped, device, .. } = traffic();
    let mine = [mapped, device].map(|way| [way.flags, way.messages, way.bytes]);
    let all = job.world().gather(mine.as_flattened(), 0)?;
    let ways = |of_rank: &[u64]| {
        let names = ["in mapped memory", "by the device"];
        let ways = of_rank.chunks_exact(3).zip(names);
        let used = ways.filter(|(way, _)| way[0] + way[1] > 0);
        let texts = used.map(|(way, name)| {
            let [flags, messages, bytes] = [way[0], way[1], way[2]];
            format!("{flags} flags and {messages} messages of {bytes} bytes {name}")
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    let of_ranks = all.chunks_exact(6).enumerate();
    let lines = of_ranks.map(|(rank, of_rank)| format!("rank {rank}: sent {}", ways(of_rank)));
    bench.note(&lines.collect::<Vec<_>>().join("\n"))
}

/// The resources that a rank uses of a device.
const USAGE: [&str; 6] = [
    "bytes registered",
    "connections",
    "queue pairs",
    "completion queue entries",
    "work requests posted",
    "neighbours mapped",
];

/// Prints what each rank uses of a device whose resources are limited.
fn note_usage(bench: &mut Bench<'_>, job: &Job) -> Result<()> {
    let Some(usage) = job.device_usage() else {
        return Ok(());
    };
    let mine = [
        usage.registered_bytes,
        usage.connections.into(),
        usage.queue_pairs.into(),
        usage.completion_entries.into(),
        usage.requests,
        usage.neighbours.into(),
    ];
    let line = |(rank, of_rank): (usize, &[u64])| {
        let figures = of_rank.iter().zip(USAGE);
        let figures: Vec<_> = figures.map(|(n, what)| format!("{n} {what}")).collect();
        format!("rank {rank}: {}", figures.join(", "))
    };
    let all = job.world().gather(&mine, 0)?;
    let lines = all.chunks_exact(mine.len()).enumerate().map(line);
    bench.note(&lines.collect::<Vec<_>>().join("\n"))
}

/// Prints at which addresses each rank is reached, and at which it has reached others.
fn note_addresses(bench: &mut Bench<'_>, job: &Job) -> Result<()> {
    let mine = job.device_addresses().unwrap_or_default();
    let all = job.world().gatherv(mine.as_bytes(), 0)?;
    let told = all.iter().enumerate().filter(|(_, text)| !text.is_empty());
    let lines: Vec<_> = told
        .map(|(rank, text)| format!("rank {rank}: {}", String::from_utf8_lossy(text)))
        .collect();
    match lines.is_empty() {
        true => Ok(()),
        false => bench.note(&lines.join("\n")),
    }
}

fn enough(ranks: u32) -> Result<()> {
    if ranks < 2 {
        return Err(BenchError::TooFewRanks { ranks });
    }
    Ok(())
}
