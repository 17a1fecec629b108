//! Who did what.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use png::{BitDepth, ColorType, Encoder, EncodingError};
use transom::{Communicator, Result};

use crate::mandelbrot::View;

/// What one rank has done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Share {
    pub(crate) rows: u64,
    /// Rows among them that were another rank's.
    pub(crate) stolen: u64,
    pub(crate) iterations: u64,
    /// Computing, not waiting.
    pub(crate) busy: Duration,
}

/// Collective. The ranks' shares, on rank 0.
pub(crate) fn shares(comm: &Communicator, mine: Share) -> Result<Vec<Share>> {
    let busy = mine.busy.as_nanos() as u64;
    let shares = comm.gather_value([mine.rows, mine.stolen, mine.iterations, busy], 0)?;
    let share = |[rows, stolen, iterations, busy]: [u64; 4]| Share {
        rows,
        stolen,
        iterations,
        busy: Duration::from_nanos(busy),
    };
    Ok(shares.into_iter().map(share).collect())
}

pub(crate) fn print(shares: &[Share], took: Duration) {
    println!(
        "{:>6}{:>8}{:>8}{:>16}{:>10}",
        "rank", "rows", "stolen", "iterations", "busy s"
    );
    for (rank, share) in shares.iter().enumerate() {
        let Share {
            rows,
            stolen,
            iterations,
            busy,
        } = share;
        let busy = busy.as_secs_f64();
        println!("{rank:>6}{rows:>8}{stolen:>8}{iterations:>16}{busy:>10.3}");
    }
    let iterations = shares.iter().map(|share| share.iterations);
    let (most, all) = (
        iterations.clone().max().unwrap_or(0),
        iterations.sum::<u64>(),
    );
    let average = all as f64 / shares.len() as f64;
    println!(
        "{all} iterations in {:.3} s; the busiest rank has done {:.2} times the average",
        took.as_secs_f64(),
        most as f64 / average.max(1.0),
    );
}

/// Points outside the set, the brighter the nearer they are to it; the set itself is black.
pub(crate) fn draw<'r>(
    path: &Path,
    view: View,
    rows: impl Iterator<Item = &'r [u32]>,
) -> std::result::Result<(), EncodingError> {
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = Encoder::new(file, view.width, view.height);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    let whole = f64::from(view.iterations).ln_1p();
    let grey = |&number: &u32| match number == view.iterations {
        true => 0,
        false => (f64::from(number).ln_1p() / whole * 255.0) as u8,
    };
    let pixels: Vec<u8> = rows.flatten().map(grey).collect();
    writer.write_image_data(&pixels)?;
    writer.finish()
}
