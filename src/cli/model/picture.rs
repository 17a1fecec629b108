//! Time over ranks, as a picture.

use std::fs;
use std::path::Path;

use transom::model::{Costs, MeasuredTime, Model};

use super::args::{Args, CallName};
use super::measured::ModelError;
use crate::cli::picture::{Chart, Picture, Series, svg, ticks};

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

/// The model's times of the numbers of ranks asked for, and of those that were measured; and what was measured beside them.
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
        let of_call = measured.iter().filter(|(of, _)| *of == call);
        let of_call: Vec<&MeasuredTime> = of_call.map(|(_, one)| one).collect();
        let mut points: Vec<_> = match measured.is_empty() {
            true => args
                .ranks
                .iter()
                .map(|&ranks| args.placement(ranks))
                .collect(),
            false => of_call.iter().map(|one| one.placement).collect(),
        };
        points.sort_by_key(|placement| placement.ranks);
        points.dedup();
        let modelled = points.into_iter().map(|placement| {
            let model = Model::new(placement, args.processors.is_some());
            let found = model.run(args.procedure(call), costs);
            (f64::from(placement.ranks), found.nanoseconds)
        });
        series.push(Series {
            operation,
            run: 0,
            is_white: false,
            points: modelled.collect(),
        });
        let mut points: Vec<_> = of_call
            .iter()
            .map(|one| (f64::from(one.placement.ranks), one.nanoseconds))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        if !points.is_empty() {
            series.push(Series {
                operation,
                run: 1,
                is_white: true,
                points,
            });
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
        kinds: (!measured.is_empty()).then_some(["model", "measured"]),
        charts: vec![Chart {
            across: "ranks",
            across_text: ticks::plain,
            up: "time until the last rank is through",
            up_text: ticks::time,
            place: |point| point,
        }],
        series,
    }
}
