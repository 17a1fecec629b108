//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use transom_examples::{Launchable, Start};

/// Draw the Mandelbrot set, on all ranks of a job together: those that are done with their own rows take
/// others'
#[derive(Parser)]
#[command(name = "workqueue")]
pub(crate) struct Options {
    /// Points in a row
    #[arg(long, value_name = "N", default_value_t = 800)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(crate) width: u32,

    /// Rows, each of which is a task
    #[arg(long, value_name = "N", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(crate) height: u32,

    /// After how many iterations a point counts as one of the set
    #[arg(long, value_name = "N", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..u32::MAX as i64))]
    pub(crate) iterations: u32,

    /// How the ranks share out the rows
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Schedule::Dynamic)]
    pub(crate) schedule: Schedule,

    /// Write a PNG picture to this file
    #[arg(long, value_name = "FILE.png", value_parser = parse_picture)]
    pub(crate) picture: Option<PathBuf>,

    /// Compute all on one rank too, and compare
    #[arg(long)]
    pub(crate) check: bool,

    /// Say who takes which row, when it does
    #[arg(short, long)]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) start: Start,
}

impl Launchable for Options {
    fn ranks(&self) -> Option<u32> {
        self.start.ranks
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schedule {
    /// Each rank begins with as many rows as any other, and takes others' when it is done
    Dynamic,
    /// Each rank has as many rows as any other, to compare with
    Static,
}

fn parse_picture(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("png") => Ok(path),
        _ => Err("the picture is a PNG file, and so ends in .png"),
    }
}
