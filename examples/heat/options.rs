//! The command line.

use std::path::PathBuf;

use clap::Parser;

use transom_examples::{Launchable, Start};

/// Let heat spread on a plate, which the ranks of a job share out
#[derive(Parser)]
#[command(name = "heat")]
pub(crate) struct Options {
    /// The temperatures to begin with: a PNG or PGM picture, white is hot [default: one is made]
    pub(crate) picture: Option<PathBuf>,

    /// How many steps to take
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) steps: u64,

    /// Write a picture of every Nth step, and of the first and last; 0: none at all [default: a
    /// tenth of the steps]
    #[arg(long, value_name = "N")]
    pub(crate) every: Option<u64>,

    /// Where to write the pictures
    #[arg(long, value_name = "FOLDER", default_value = "heat-pictures")]
    pub(crate) out: PathBuf,

    /// Cells of the picture that is made
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = size, default_value = "256x256")]
    #[arg(conflicts_with = "picture")]
    pub(crate) size: (u32, u32),

    /// How much of a difference in temperature evens out in a step: more than 0, at most 0.25
    #[arg(long, value_name = "D", value_parser = diffusivity, default_value_t = 0.2)]
    pub(crate) diffusivity: f64,

    /// Write the temperatures of the last step to this file, row by row, as 64-bit floats
    #[arg(long, value_name = "FILE")]
    pub(crate) raw: Option<PathBuf>,

    /// Compute all on one rank too, and compare the last steps bit by bit
    #[arg(long)]
    pub(crate) check: bool,

    /// Say how the plate is shared out
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

impl Options {
    /// Steps between pictures; `None` if there are to be none.
    pub(crate) fn pictures_every(&self) -> Option<u64> {
        let every = self.every.unwrap_or(self.steps.div_ceil(10).max(1));
        (every > 0).then_some(every)
    }
}

fn size(text: &str) -> Result<(u32, u32), &'static str> {
    let numbers = text.split_once('x').and_then(|(width, height)| {
        let legal = |text: &str| text.parse().ok().filter(|&number: &u32| number > 0);
        Some((legal(width)?, legal(height)?))
    });
    numbers.ok_or("two numbers from 1 on are needed, such as 640x480")
}

fn diffusivity(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok();
    number
        .filter(|&number| number > 0.0 && number <= 0.25)
        .ok_or("a number is needed that is more than 0 and at most 0.25: beyond, heat runs away")
}
