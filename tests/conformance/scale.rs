//! What collective calls send, beside what the model of large jobs says.

use transom::lower::{count_traffic, traffic};
use transom::model::{Costs, LinkCosts, Model, Procedure};
use transom::raw::{Assert, Window};
use transom::{Info, Job, Op, Sent, Traffic};
use transom_testing::devices::{is_adversarial, is_soft};
use transom_testing::environment::some_are_neighbours;

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};

pub(crate) const CASES: &[Case] = cases!["scale":
    ranks_send_what_the_model_says @ [2, 5, 16],
];

/// In jobs that take long to start.
pub(crate) const LARGE: &[Case] = cases!["large_scale":
    ranks_of_large_jobs_send_what_the_model_says @ [64, 256, 1000],
];

/// Counts are the same under all costs.
const FREE: LinkCosts = LinkCosts {
    latency: 0.0,
    overhead: 0.0,
    gap: 0.0,
    gap_per_byte: 0.0,
};

const COSTS: Costs = Costs {
    here: FREE,
    between: FREE,
    sharing: None,
};

/// What this rank has sent in calls: flags, messages and their bytes, in mapped memory and by the device.
#[derive(Default)]
struct Seen {
    procedures: Vec<Procedure>,
    sent: Vec<[u64; 6]>,
}

impl Seen {
    fn note(&mut self, procedure: Procedure, call: impl FnOnce() -> Outcome) -> Outcome {
        let before = numbers(traffic());
        call()?;
        let after = numbers(traffic());
        self.procedures.push(procedure);
        self.sent
            .push(std::array::from_fn(|at| after[at] - before[at]));
        Ok(())
    }

    /// Rank 0 looks at what all have sent.
    fn compare(self, job: &Job, model: &Model) -> Outcome {
        let (world, device) = (job.world(), job.device_name());
        let all = world.gather(&self.sent, 0)?;
        for (at, procedure) in self.procedures.into_iter().enumerate() {
            if world.rank() > 0 {
                break;
            }
            let predicted = model.run(procedure, &COSTS).traffic;
            for (rank, of_rank) in all.chunks_exact(self.sent.len()).enumerate() {
                let (found, predicted) = (of_rank[at], numbers(predicted[rank]));
                check_eq!(sums(found), sums(predicted), "{procedure:?} on rank {rank}");
                // Ranks of one host may be reached by the device, too, but those of others never otherwise. For tests,
                // devices tell of hosts that there are not.
                let reaches = found[3..].iter().zip(&predicted[3..]);
                check!(
                    is_adversarial(device)
                        || (!is_soft(device) && some_are_neighbours())
                        || reaches.into_iter().all(|(found, least)| found >= least),
                    "{procedure:?} on rank {rank}: {found:?}, by the model {predicted:?}"
                );
            }
        }
        Ok(())
    }
}

fn numbers(traffic: Traffic) -> [u64; 6] {
    let of = |way: Sent| [way.flags, way.messages, way.bytes];
    let ([a, b, c], [d, e, f]) = (of(traffic.mapped), of(traffic.device));
    [a, b, c, d, e, f]
}

fn sums(ways: [u64; 6]) -> [u64; 3] {
    std::array::from_fn(|at| ways[at] + ways[at + 3])
}

fn ranks_send_what_the_model_says(job: &Job) -> Outcome {
    count_traffic();
    let world = job.world();
    let model = Model::of_job(world)?;
    let mut seen = Seen::default();
    seen.note(Procedure::Barrier, || Ok(world.barrier()?))?;
    // The longer one does not fit into a pipe, of many ranks together.
    for len in [1, 11_200 / world.size() as usize + 1] {
        let mine = vec![0_u64; len];
        let bytes = 8 * len as u64;
        seen.note(Procedure::Allgather(bytes), || {
            check_eq!(world.allgather(&mine)?.len(), len * world.size() as usize);
            Ok(())
        })?;
        seen.note(Procedure::Allreduce(bytes), || {
            check_eq!(world.allreduce(&mine, Op::Sum)?, mine);
            Ok(())
        })?;
    }
    seen.note(Procedure::Dup, || Ok(world.dup().map(drop)?))?;
    let color = Some(world.rank() % 2);
    seen.note(Procedure::Split, || Ok(world.split(color, 0).map(drop)?))?;
    let mut made = None;
    seen.note(Procedure::Create, || {
        made = Some(Window::allocate(world, 64, 8, &Info::new())?);
        Ok(())
    })?;
    let window = made.ok_or_else(|| Failure::new("no window"))?;
    for _ in 0..3 {
        seen.note(Procedure::Fence, || Ok(window.fence(Assert::NONE)?))?;
    }
    window.fence(Assert::NO_SUCCEED)?;
    if world.size() > 2 {
        neighbours(job, &window, &mut seen)?;
    }
    seen.note(Procedure::Free, || Ok(window.free()?))?;
    seen.compare(job, &model)
}

/// Epochs with the ranks before and behind this one.
fn neighbours(job: &Job, window: &Window, seen: &mut Seen) -> Outcome {
    let world = job.world();
    let (rank, size) = (world.rank(), world.size());
    let near = [(rank + size - 1) % size, (rank + 1) % size];
    let group = world.group().include(&near)?;
    let epoch = || {
        window.post(&group, Assert::NONE)?;
        window.start(&group, Assert::NONE)?;
        window.complete()?;
        window.wait()
    };
    // In the first one they meet.
    epoch()?;
    for _ in 0..2 {
        seen.note(Procedure::Pscw(1), || Ok(epoch()?))?;
    }
    Ok(())
}

fn ranks_of_large_jobs_send_what_the_model_says(job: &Job) -> Outcome {
    ranks_send_what_the_model_says(job)
}
