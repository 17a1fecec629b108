//! Draws time over ranks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use transom::model::{Costs, MeasuredTime, Model, Placement};

use super::args::{Args, CallName};
use super::measured::ModelError;
use crate::picture::{Chart, Picture, Series, svg, ticks};

pub(super) fn write(
    path: &Path,
    args: &Args,
    costs: &Costs,
    measured: &[(CallName, MeasuredTime)],
) -> Result<(), ModelError> {
    let text = svg(&picture(args, costs, measured)).map_err(ModelError::Drawing)?;
    fs::write(path, text).map_err(|source| {
        let path = path.to_owned();
        ModelError::Write { path, source }
    })
}

/// The model's times for the numbers of ranks asked for and for the measured ones, with the measured times.
fn picture(args: &Args, costs: &Costs, measured: &[(CallName, MeasuredTime)]) -> Picture {
    let mut calls = Vec::new();
    let measured_calls = measured.iter().map(|(call, _)| *call);
    let asked: Vec<CallName> = match measured.is_empty() {
        true => args.call.clone(),
        false => measured_calls.collect(),
    };
    for call in asked {
        if !calls.contains(&call) {
            calls.push(call);
        }
    }
    let mut series = Vec::new();
    for (operation, &call) in calls.iter().enumerate() {
        // A line for each number of ranks on a host.
        let mut lines: BTreeMap<u32, Vec<(Placement, Option<f64>)>> = BTreeMap::new();
        let asked = args.ranks.iter().filter(|_| measured.is_empty());
        for &ranks in asked {
            let placement = args.placement(ranks);
            let line = lines.entry(placement.per_host).or_default();
            line.push((placement, None));
        }
        for (_, one) in measured.iter().filter(|(of, _)| *of == call) {
            let line = lines.entry(one.placement.per_host).or_default();
            line.push((one.placement, Some(one.nanoseconds)));
        }
        for mut line in lines.into_values() {
            line.sort_by_key(|(placement, _)| placement.ranks);
            let time = |placement| {
                let model = Model::new(placement, args.processors.is_some());
                model.run(args.procedure(call), costs).nanoseconds
            };
            let places = || line.iter().map(|(placement, _)| *placement);
            let modelled = places().map(|placement| (f64::from(placement.ranks), time(placement)));
            // A logarithmic axis has no place for zero.
            let modelled = modelled.filter(|(_, time)| *time > 0.0);
            let found = line.iter().filter_map(|&(placement, nanoseconds)| {
                Some((f64::from(placement.ranks), nanoseconds?))
            });
            let both = [modelled.collect(), found.collect::<Vec<_>>()];
            for (run, points) in both.into_iter().enumerate() {
                if !points.is_empty() {
                    series.push(Series {
                        operation,
                        run,
                        is_white: run > 0,
                        points,
                    });
                }
            }
        }
    }
    let runs = match measured.is_empty() {
        true => vec![],
        false => ["model", "measured"].map(str::to_owned).to_vec(),
    };
    Picture {
        title: "Calls of all ranks".to_owned(),
        below: format!("transom {}", env!("CARGO_PKG_VERSION")),
        operations: calls.iter().map(|call| call.name()).collect(),
        runs,
        kinds: None,
        charts: vec![Chart {
            across: "ranks",
            across_text: ticks::plain,
            up: "time until the last rank is through",
            up_text: |time| ticks::time(rounded(time)),
            place: |point| point,
        }],
        series,
    }
}

/// Rounded to three digits.
fn rounded(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 2.0);
    (value / unit).round() * unit
}
