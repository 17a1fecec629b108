//! Predicts collective calls in jobs that are too large to run, and makes the figures of docs/scale.md:
//!
//! ```text
//! cargo run --release -p transom-cli --example model -- -n 1024,32768 --call fence
//! ```

mod args;
mod measured;
mod over_ranks;
#[allow(dead_code, reason = "the command draws more")]
#[path = "../../src/picture/mod.rs"]
mod picture;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use transom::model::{Costs, MeasuredTime, Model, fit, memory};

use args::{Args, CallName};
use measured::{MOST_PAIRS, ModelError};

fn main() -> ExitCode {
    match text(&Args::parse()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("model: {error}");
            ExitCode::from(2)
        }
    }
}

fn text(args: &Args) -> Result<String, ModelError> {
    if args.table {
        return Ok(table(args));
    }
    check(args)?;
    let (mut text, mut costs, mut measured) = (String::new(), args.costs(), Vec::new());
    if let Some(path) = &args.fit {
        measured = measured::read(path, args)?;
        let fitted = measured.iter().map(|(_, one)| *one);
        let fitted = fitted.filter(|one| one.placement.ranks <= args.fit_ranks);
        let fitted: Vec<MeasuredTime> = fitted.collect();
        if fitted.is_empty() {
            let (path, most) = (path.clone(), args.fit_ranks);
            return Err(ModelError::Nothing { path, most });
        }
        costs = fit(&fitted, costs, args.processors.is_some());
        text += &compared(args, &costs, &measured);
    } else {
        text += &predicted(args, &costs);
    }
    if let Some(path) = &args.plot {
        over_ranks::write(path, args, &costs, &measured)?;
    }
    Ok(text)
}

fn check(args: &Args) -> Result<(), ModelError> {
    let (most, neighbours) = (args.ranks.iter().max(), args.neighbours);
    match most {
        Some(&ranks)
            if args.call.contains(&CallName::Pscw)
                && u64::from(ranks) * u64::from(neighbours) > MOST_PAIRS =>
        {
            Err(ModelError::TooMany { ranks, neighbours })
        }
        _ => Ok(()),
    }
}

fn model(args: &Args, ranks: u32) -> Model {
    Model::new(args.placement(ranks), args.processors.is_some())
}

/// A row for each call in each job.
fn predicted(args: &Args, costs: &Costs) -> String {
    let mut rows = vec![
        [
            "RANKS",
            "HOSTS",
            "CALL",
            "TIME",
            "SENT BY A RANK",
            "BETWEEN HOSTS",
        ]
        .map(str::to_owned),
    ];
    for &ranks in &args.ranks {
        let model = model(args, ranks);
        for &call in &args.call {
            let found = model.run(args.procedure(call), costs);
            rows.push([
                ranks.to_string(),
                ranks.div_ceil(args.per_host).to_string(),
                call.name(),
                time(found.nanoseconds),
                found.most_sent().to_string(),
                found.between_hosts().to_string(),
            ]);
        }
    }
    lines(&rows)
}

/// The costs that were fitted, and a row for each measured time.
fn compared(args: &Args, costs: &Costs, measured: &[(CallName, MeasuredTime)]) -> String {
    let mut rows =
        vec![["CALL", "RANKS", "HOSTS", "MEASURED", "MODEL", "RATIO", ""].map(str::to_owned)];
    for (call, one) in measured {
        let placement = one.placement;
        let model = Model::new(placement, args.processors.is_some());
        let found = model.run(one.procedure, costs).nanoseconds;
        let fitted = placement.ranks <= args.fit_ranks;
        rows.push([
            call.name(),
            placement.ranks.to_string(),
            placement.ranks.div_ceil(placement.per_host).to_string(),
            time(one.nanoseconds),
            time(found),
            format!("{:.2}", found / one.nanoseconds),
            if fitted { "fitted" } else { "predicted" }.to_owned(),
        ]);
    }
    let mut text = String::new();
    for (what, prefix, link) in [
        ("one host", "host-", costs.here),
        ("two hosts", "", costs.between),
    ] {
        let _ = writeln!(
            text,
            "{what}: --{prefix}latency {:.0} --{prefix}overhead {:.0}",
            link.latency, link.overhead
        );
    }
    if let Some(sharing) = costs.sharing {
        let _ = writeln!(
            text,
            "processors that ranks share: --switch {:.0}",
            sharing.switch
        );
    }
    text + "\n" + &lines(&rows)
}

/// The memory that grows with the number of ranks, with a column for each number.
fn table(args: &Args) -> String {
    let columns = args
        .ranks
        .iter()
        .map(|&ranks| memory(args.placement(ranks)));
    let columns: Vec<_> = columns.collect();
    let mut head = vec!["OF A RANK".to_owned()];
    head.extend(args.ranks.iter().map(|ranks| format!("{ranks} RANKS")));
    let mut rows = vec![head];
    for number in 0..columns[0].len() {
        let mut row = vec![columns[0][number].what.to_owned()];
        row.extend(columns.iter().map(|column| match column[number] {
            row if row.is_bytes => bytes(row.count),
            row => row.count.to_string(),
        }));
        rows.push(row);
    }
    lines(&rows)
}

/// A table: a head, texts aligned to the left, and numbers to the right.
fn lines<R: AsRef<[String]>>(rows: &[R]) -> String {
    let is_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit());
    let cells = |column: usize| rows.iter().map(move |row| &row.as_ref()[column]);
    let columns = rows[0].as_ref().len();
    let mut text = String::new();
    for row in rows {
        let cell = |column: usize| {
            let cell = &row.as_ref()[column];
            let width = cells(column)
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0);
            match cells(column).skip(1).all(is_number) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            }
        };
        let line = (0..columns).map(cell).collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ..1e3 => format!("{nanoseconds:.0} ns"),
        1e3..1e6 => format!("{:.1} us", nanoseconds / 1e3),
        1e6..1e9 => format!("{:.1} ms", nanoseconds / 1e6),
        _ => format!("{:.1} s", nanoseconds / 1e9),
    }
}

fn bytes(count: u64) -> String {
    let in_unit = |shift: u32, unit: &str| {
        let value = count as f64 / f64::from(1 << shift);
        let places = usize::from(value < 10.0);
        format!("{value:.places$} {unit}")
    };
    match count {
        ..1024 => format!("{count} B"),
        1024..1_048_576 => in_unit(10, "KiB"),
        _ => in_unit(20, "MiB"),
    }
}
