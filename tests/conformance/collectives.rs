//! Collectives against a serial model.

use std::fmt::Debug;

use transom::{Communicator, Element, Error, ErrorClass, Job, Op, Reduce};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};

pub(crate) const CASES: &[Case] = cases!["collectives":
    barrier_holds_everybody @ [1, 2, 3, 5, 8],
    bcast_from_every_root @ [1, 2, 3, 5, 8],
    gather_at_every_root @ [1, 2, 3, 5, 8],
    gatherv_at_every_root @ [1, 2, 3, 5, 8],
    allgather_everywhere @ [1, 2, 3, 5, 8],
    reduce_at_every_root @ [1, 2, 3, 5, 8],
    floats_reduce_to_the_same_bits @ [5],
    one_after_another_in_any_mixture @ [3, 5],
    wrong_arguments_are_errors @ [1, 3],
];

/// In elements of eight bytes: none, one, an odd few, 100 KiB.
const LENGTHS: [usize; 4] = [0, 1, 7, 12_800];

fn values(rank: u32, len: usize) -> Vec<u64> {
    (0..len as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(rank) << 40)
        .collect()
}

fn barrier_holds_everybody(job: &Job) -> Outcome {
    let world = job.world();
    let counter = crate::exposed::Exposed::open(job, crate::exposed::Memory::Allocate, 8, 8)?;
    for round in 1..=100 {
        counter.lock_all(transom::raw::Assert::NONE)?;
        crate::ops::fetch_and_op(&counter, 1_u64, 0, 0, Op::Sum)?;
        counter.unlock_all()?;
        world.barrier()?;
        counter.lock_all(transom::raw::Assert::NONE)?;
        let seen = crate::ops::fetch_and_op(&counter, 0_u64, 0, 0, Op::NoOp)?;
        counter.unlock_all()?;
        check_eq!(seen, round * u64::from(world.size()));
        world.barrier()?;
    }
    counter.close()
}

fn bcast_from_every_root(job: &Job) -> Outcome {
    let world = job.world();
    for len in LENGTHS {
        for root in 0..world.size() {
            let mut data = values(if world.rank() == root { root } else { 1000 }, len);
            world.bcast(&mut data, root)?;
            check!(data == values(root, len), "{len} from {root}");
        }
    }
    // Elements of other sizes.
    let mut bytes = [world.rank() as u8; 13];
    world.bcast(&mut bytes, world.size() - 1)?;
    check_eq!(bytes, [world.size() as u8 - 1; 13]);
    Ok(())
}

fn gather_at_every_root(job: &Job) -> Outcome {
    let world = job.world();
    for len in LENGTHS {
        for root in 0..world.size() {
            let all = world.gather(&values(world.rank(), len), root)?;
            if world.rank() == root {
                let wanted: Vec<u64> = (0..world.size()).flat_map(|r| values(r, len)).collect();
                check!(all == wanted, "{len} at {root}");
            } else {
                check!(all.is_empty(), "only the root gets something");
            }
        }
    }
    Ok(())
}

fn gatherv_at_every_root(job: &Job) -> Outcome {
    let world = job.world();
    for shift in 0..world.size() {
        let len = |rank: u32| LENGTHS[((rank + shift) % 4) as usize];
        let mine = values(world.rank(), len(world.rank()));
        let wanted: Vec<_> = (0..world.size()).map(|r| values(r, len(r))).collect();
        for root in 0..world.size() {
            let all = world.gatherv(&mine, root)?;
            if world.rank() == root {
                check!(all == wanted, "at {root}, shifted by {shift}");
            } else {
                check!(all.is_empty());
            }
        }
        check!(world.allgatherv(&mine)? == wanted, "shifted by {shift}");
    }
    Ok(())
}

fn allgather_everywhere(job: &Job) -> Outcome {
    let world = job.world();
    for len in LENGTHS {
        let all = world.allgather(&values(world.rank(), len))?;
        let wanted: Vec<u64> = (0..world.size()).flat_map(|r| values(r, len)).collect();
        check!(all == wanted, "{len}");
    }
    Ok(())
}

fn reduce_at_every_root(job: &Job) -> Outcome {
    fn of<T: Reduce + PartialEq + Debug>(
        world: &Communicator,
        ops: &[Op],
        value: impl Fn(u32, usize) -> T,
    ) -> Outcome {
        for len in LENGTHS {
            let data = |rank| (0..len).map(|at| value(rank, at)).collect::<Vec<T>>();
            for &op in ops {
                let mut wanted = data(0);
                for rank in 1..world.size() {
                    for (held, came) in wanted.iter_mut().zip(data(rank)) {
                        *held = T::combine(op, *held, came).expect("defined");
                    }
                }
                check!(
                    world.allreduce(&data(world.rank()), op)? == wanted,
                    "allreduce {op:?} of {len}"
                );
                for root in 0..world.size() {
                    let found = world.reduce(&data(world.rank()), op, root)?;
                    if world.rank() == root {
                        check!(found == wanted, "reduce {op:?} of {len} at {root}");
                    } else {
                        check!(found.is_empty());
                    }
                }
            }
        }
        Ok(())
    }
    let world = job.world();
    let every = [
        Op::Sum,
        Op::Prod,
        Op::Min,
        Op::Max,
        Op::Band,
        Op::Bor,
        Op::Bxor,
    ];
    of(world, &every, |rank, at| {
        ((at as i64 + 3) << 40) ^ (i64::from(rank) * 0x1234_5678_9abc)
    })?;
    of(world, &[Op::Sum, Op::Min, Op::Bxor], |rank, at| {
        (rank as u8).wrapping_mul(at as u8)
    })?;
    // Small whole numbers: exact in any order.
    of(world, &[Op::Sum, Op::Min, Op::Max], |rank, at| {
        f64::from(rank) - at as f64
    })?;
    of(world, &[Op::Sum, Op::Prod], |rank, at| {
        (rank + at as u32 % 2) as f32
    })?;
    Ok(())
}

fn floats_reduce_to_the_same_bits(job: &Job) -> Outcome {
    let world = job.world();
    let mine: Vec<f64> = (1..500)
        .map(|i| 1.0 / (f64::from(i) * f64::from(world.rank() + 1)))
        .collect();
    let sums = world.allreduce(&mine, Op::Sum)?;
    let bits: Vec<u64> = sums.iter().map(|sum| sum.to_bits()).collect();
    let all = world.allgather(&bits)?;
    check!(all.chunks(bits.len()).all(|other| other == bits));
    Ok(())
}

fn one_after_another_in_any_mixture(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let mut state = 12345_u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for round in 0..600 {
        let (kind, root, len) = (next(6), next(ranks.into()) as u32, next(3000) as usize);
        match kind {
            0 => world.barrier()?,
            1 => {
                let mut data = values(if me == root { root } else { 99 }, len);
                world.bcast(&mut data, root)?;
                check!(data == values(root, len), "round {round}");
            }
            2 => {
                let all = world.gather(&values(me, len), root)?;
                check_eq!(all.len(), if me == root { len * ranks as usize } else { 0 });
            }
            3 => {
                let all = world.allgather(&values(me, len))?;
                let wanted: Vec<u64> = (0..ranks).flat_map(|r| values(r, len)).collect();
                check!(all == wanted, "round {round}");
            }
            4 => {
                let sum = world.allreduce(&vec![me; len], Op::Sum)?;
                check!(
                    sum.iter().all(|&sum| sum == ranks * (ranks - 1) / 2),
                    "round {round}"
                );
            }
            _ => {
                let all = world.allgatherv(&values(me, len * me as usize % 777))?;
                for (rank, part) in (0..).zip(all) {
                    check!(
                        part == values(rank, len * rank as usize % 777),
                        "round {round}"
                    );
                }
            }
        }
    }
    Ok(())
}

fn wrong_arguments_are_errors(job: &Job) -> Outcome {
    let world = job.world();
    let size = world.size();
    fn refused<T: Element>(result: transom::Result<Vec<T>>) -> Result<Error, Failure> {
        result
            .err()
            .ok_or_else(|| Failure::new("it was let through"))
    }
    let errors = [
        ("bcast", world.bcast(&mut [0_u8], size).unwrap_err()),
        ("gather", refused(world.gather(&[0_u8], size))?),
        ("gatherv", world.gatherv(&[0_u8], size + 7).unwrap_err()),
        ("reduce", refused(world.reduce(&[0_u8], Op::Sum, u32::MAX))?),
    ];
    for (name, error) in errors {
        check_eq!(error.class(), ErrorClass::Rank, "{error}");
        check_eq!(error.operation(), name);
        check!(
            error.to_string().contains(&format!("{size} ranks")),
            "{error}"
        );
    }
    for (op, ty, error) in [
        (
            "Replace",
            "u8",
            refused(world.reduce(&[0_u8], Op::Replace, 0))?,
        ),
        (
            "Bxor",
            "f64",
            refused(world.allreduce(&[0.0_f64], Op::Bxor))?,
        ),
    ] {
        check_eq!(error.class(), ErrorClass::Op, "{error}");
        check!(
            error.to_string().contains(op) && error.to_string().contains(ty),
            "{error}"
        );
    }
    // All of them were found before anything was sent.
    check_eq!(world.allreduce(&[1_u32], Op::Sum)?, [size]);
    Ok(())
}
