//! The job to be modelled.

use std::path::PathBuf;

use clap::ValueEnum;
use transom::model::{Costs, LinkCosts, Placement, Procedure, Sharing};

use crate::picture::parse_picture;

/// The model needs memory for each rank, and a second for some hundred thousand of them.
const MOST_RANKS: i64 = 1 << 24;

/// Say how many messages collective calls take in a large job, and how long by LogGP
///
/// Goes through the steps of all ranks in this one process. Times are in nanoseconds. docs/scale.md says how well they were met.
#[derive(clap::Parser)]
#[command(name = "model")]
pub(crate) struct Args {
    /// How many ranks
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',')]
    #[arg(default_values = ["64", "1000", "32768", "1000000"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    pub(super) ranks: Vec<u32>,

    /// How many of them each host has
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    pub(super) per_host: u32,

    /// What they do
    #[arg(long, value_name = "CALL", value_enum, value_delimiter = ',')]
    #[arg(default_values = ["barrier", "create", "fence", "split", "pscw", "lock_all"])]
    pub(super) call: Vec<CallName>,

    /// L: until a message between hosts is there
    #[arg(long, value_name = "NS", default_value = "1600", value_parser = parse_cost)]
    latency: f64,

    /// o: processor time of a message between hosts, at either end
    #[arg(long, value_name = "NS", default_value = "200", value_parser = parse_cost)]
    overhead: f64,

    /// g: from one message of a rank to the next, between hosts
    #[arg(long, value_name = "NS", default_value = "200", value_parser = parse_cost)]
    gap: f64,

    /// G: of each byte between hosts
    #[arg(long, value_name = "NS", default_value = "0.08", value_parser = parse_cost)]
    gap_per_byte: f64,

    /// L of one host
    #[arg(long, value_name = "NS", default_value = "100", value_parser = parse_cost)]
    host_latency: f64,

    /// o of one host
    #[arg(long, value_name = "NS", default_value = "20", value_parser = parse_cost)]
    host_overhead: f64,

    /// g of one host
    #[arg(long, value_name = "NS", default_value = "20", value_parser = parse_cost)]
    host_gap: f64,

    /// G of one host
    #[arg(long, value_name = "NS", default_value = "0.1", value_parser = parse_cost)]
    host_gap_per_byte: f64,

    /// Processors of a host, which its ranks share if there are more of them; 0.5 for each of two hosts that are
    /// namespaces of a machine with one
    #[arg(long, value_name = "N", value_parser = parse_processors)]
    pub(super) processors: Option<f64>,

    /// For how long a rank that waits has a shared processor each time
    #[arg(long, value_name = "NS", default_value = "2000", value_parser = parse_cost)]
    switch: f64,

    /// Bytes of each rank, of allreduce and allgather
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    bytes: u64,

    /// With how many ranks each posts and starts, and to how many it puts under lock_all
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1 << 10))]
    pub(super) neighbours: u32,

    /// What a rank keeps that grows with the number of ranks, instead
    #[arg(long, conflicts_with_all = ["fit", "plot", "call"])]
    pub(super) table: bool,

    /// Find the costs that fit times which were measured: lines of CALL RANKS PER_HOST NANOSECONDS
    #[arg(long, value_name = "FILE")]
    pub(super) fit: Option<PathBuf>,

    /// Of those, fit the ones of jobs with up to so many ranks, and predict the others
    #[arg(long, value_name = "N", requires = "fit", default_value_t = u32::MAX, hide_default_value = true)]
    pub(super) fit_ranks: u32,

    /// Draw time over ranks, with what was measured, as an SVG picture
    #[arg(long, value_name = "FILE.svg", value_parser = parse_picture)]
    pub(super) plot: Option<PathBuf>,
}

/// A call that ranks make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum CallName {
    /// Of a communicator
    Barrier,
    Allreduce,
    Allgather,
    Dup,
    Split,
    /// A window by allocate or create
    Create,
    Fence,
    Free,
    /// Post, start, complete and wait with some neighbours
    Pscw,
    /// lock_all, puts to some ranks, flush_all, unlock_all
    LockAll,
}

impl CallName {
    /// The name in options.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Args {
    pub(super) fn procedure(&self, call: CallName) -> Procedure {
        match call {
            CallName::Barrier => Procedure::Barrier,
            CallName::Allreduce => Procedure::Allreduce(self.bytes),
            CallName::Allgather => Procedure::Allgather(self.bytes),
            CallName::Dup => Procedure::Dup,
            CallName::Split => Procedure::Split,
            CallName::Create => Procedure::Create,
            CallName::Fence => Procedure::Fence,
            CallName::Free => Procedure::Free,
            CallName::Pscw => Procedure::Pscw(self.neighbours / 2),
            CallName::LockAll => Procedure::LockAll(self.neighbours),
        }
    }

    pub(super) fn placement(&self, ranks: u32) -> Placement {
        let per_host = self.per_host;
        Placement { ranks, per_host }
    }

    pub(super) fn costs(&self) -> Costs {
        Costs {
            between: LinkCosts {
                latency: self.latency,
                overhead: self.overhead,
                gap: self.gap,
                gap_per_byte: self.gap_per_byte,
            },
            here: LinkCosts {
                latency: self.host_latency,
                overhead: self.host_overhead,
                gap: self.host_gap,
                gap_per_byte: self.host_gap_per_byte,
            },
            sharing: self.processors.map(|processors| Sharing {
                processors,
                switch: self.switch,
            }),
        }
    }
}

fn parse_processors(text: &str) -> Result<f64, &'static str> {
    let count = text
        .parse()
        .ok()
        .filter(|count| (0.01..=1e6).contains(count));
    count.ok_or("legal: 0.01 to 1000000")
}

fn parse_cost(text: &str) -> Result<f64, &'static str> {
    let cost = text.parse().ok().filter(|cost| (0.0..=1e9).contains(cost));
    cost.ok_or("legal: 0 to 1000000000 ns")
}
