//! Costs that fit times which were measured.

use super::{Costs, Model, Placement, Procedure};

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredTime {
    /// The measured procedure.
    pub procedure: Procedure,
    /// The job.
    pub placement: Placement,
    /// The duration.
    pub nanoseconds: f64,
}

/// Factors by which costs are changed while this improves the fit.
const FACTORS: [f64; 6] = [4.0, 2.0, 1.4, 1.1, 1.02, 1.005];
/// The fitted costs.
const COSTS: [fn(&mut Costs) -> Option<&mut f64>; 5] = [
    |costs| Some(&mut costs.here.latency),
    |costs| Some(&mut costs.here.overhead),
    |costs| Some(&mut costs.between.latency),
    |costs| Some(&mut costs.between.overhead),
    |costs| costs.sharing.as_mut().map(|sharing| &mut sharing.switch),
];
/// The maximal number of times that all of them are tried.
const ROUNDS: u32 = 200;

/// Local. The costs with which the model is closest to the measured times, by the squares of the logarithms of ratios.
/// Latencies, overheads and the time of a switch are fitted, if the times depend on them, each as a multiple of its
/// value in `start`.
#[must_use]
pub fn fit(measured: &[MeasuredTime], start: Costs, oversubscribed: bool) -> Costs {
    let models = measured
        .iter()
        .map(|one| Model::new(one.placement, oversubscribed));
    let models: Vec<Model> = models.collect();
    let error = |costs: &Costs| -> f64 {
        let errors = measured.iter().zip(&models).map(|(one, model)| {
            let predicted = model.run(one.procedure, costs).nanoseconds;
            (predicted / one.nanoseconds).ln().powi(2)
        });
        errors.sum()
    };
    let mut best = (error(&start), start);
    for factor in FACTORS {
        for _ in 0..ROUNDS {
            let before = best.0;
            for cost in COSTS {
                for factor in [factor, 1.0 / factor] {
                    let mut costs = best.1;
                    if let Some(cost) = cost(&mut costs) {
                        *cost *= factor;
                    }
                    let tried = error(&costs);
                    if tried < best.0 {
                        best = (tried, costs);
                    }
                }
            }
            if best.0 == before {
                break;
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::super::{LinkCosts, Sharing};
    use super::*;

    #[test]
    fn costs_are_found_again_from_what_they_predict() {
        let link = |latency, overhead| LinkCosts {
            latency,
            overhead,
            gap: 10.0,
            gap_per_byte: 0.1,
        };
        let real = Costs {
            here: link(300.0, 80.0),
            between: link(9000.0, 700.0),
            sharing: None,
        };
        let measured: Vec<MeasuredTime> = [(16, 4), (8, 8), (64, 16), (4, 1)]
            .into_iter()
            .flat_map(|(ranks, per_host)| {
                [Procedure::Fence, Procedure::Create, Procedure::Pscw(2)].map(|procedure| {
                    let placement = Placement { ranks, per_host };
                    let model = Model::new(placement, false);
                    MeasuredTime {
                        procedure,
                        placement,
                        nanoseconds: model.run(procedure, &real).nanoseconds,
                    }
                })
            })
            .collect();
        let start = Costs {
            here: link(100.0, 100.0),
            between: link(1000.0, 100.0),
            sharing: Some(Sharing {
                processors: 64.0,
                switch: 1.0,
            }),
        };
        let found = fit(&measured, start, false);
        for placement in [(1024, 64), (100_000, 50)] {
            let (ranks, per_host) = placement;
            let model = Model::new(Placement { ranks, per_host }, false);
            let of = |costs| model.run(Procedure::Fence, costs).nanoseconds;
            let ratio = of(&found) / of(&real);
            assert!((0.9..1.1).contains(&ratio), "{ratio} with {found:?}");
        }
    }
}
