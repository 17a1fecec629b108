//! Dup, split and groups.

use transom::{ErrorClass, Job};

use crate::case::{Case, Outcome, cases, check, check_eq};

pub(crate) const CASES: &[Case] = cases!["communicators":
    the_world_and_oneself @ [1, 3],
    dup_has_a_context_of_its_own @ [3],
    split_by_color_and_key @ [5, 8],
    split_of_a_split @ [8],
    split_without_a_color @ [3],
    groups_name_ranks_of_the_world @ [5],
    handles_are_clones @ [2],
];

fn the_world_and_oneself(job: &Job) -> Outcome {
    let world = job.world();
    check_eq!(world.group().size(), world.size());
    check_eq!(world.group().world_rank(world.rank()), Some(world.rank()));
    check_eq!(world.group().world_rank(world.size()), None);
    let alone = job.alone()?;
    check_eq!((alone.rank(), alone.size()), (0, 1));
    check_eq!(alone.group().world_rank(0), Some(world.rank()));
    alone.barrier()?;
    check_eq!(alone.allgather(&[world.rank()])?, [world.rank()]);
    let mut word = [world.rank()];
    alone.bcast(&mut word, 0)?;
    check_eq!(
        alone.dup()?.allreduce(&word, transom::Op::Sum)?,
        [world.rank()]
    );
    Ok(())
}

/// Collectives of two communicators take place side by side.
fn dup_has_a_context_of_its_own(job: &Job) -> Outcome {
    let world = job.world();
    let dup = world.dup()?;
    check_eq!((dup.rank(), dup.size()), (world.rank(), world.size()));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            (0..200_u32).try_for_each(|round| {
                let sum = dup.allreduce(&[round], transom::Op::Sum)?;
                check_eq!(sum, [3 * round], "on the duplicate");
                Ok(())
            })
        });
        for round in 0..200_u32 {
            let all = world.allgather(&[world.rank() + round])?;
            check_eq!(all, [round, round + 1, round + 2]);
        }
        other.join().expect("no panic")
    })
}

fn split_by_color_and_key(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    // Keys: equal ones keep the order of ranks; negative ones come first.
    for keys in [
        [0_i32; 8],
        [7, 6, 5, 4, 3, 2, 1, 0],
        [1, -1, 1, -1, 0, 0, i32::MIN, i32::MAX],
    ] {
        for colors in [1_u32, 2, 3] {
            let color = me % colors;
            let part = world
                .split(Some(color), keys[me as usize])?
                .expect("a colour");
            let mut wanted: Vec<u32> = (0..ranks).filter(|rank| rank % colors == color).collect();
            wanted.sort_by_key(|&rank| (keys[rank as usize], rank));
            check_eq!(part.size() as usize, wanted.len());
            check_eq!(wanted[part.rank() as usize], me);
            check_eq!(part.allgather(&[me])?, wanted);
            part.barrier()?;
        }
    }
    let highest = world.split(Some(u32::MAX), 0)?.expect("a colour");
    check_eq!(highest.size(), ranks);
    Ok(())
}

fn split_of_a_split(job: &Job) -> Outcome {
    let world = job.world();
    let me = world.rank();
    let half = world.split(Some(me / 4), -(me as i32))?.expect("a colour");
    let pair = half.split(Some(half.rank() / 2), 0)?.expect("a colour");
    check_eq!(pair.size(), 2);
    // Half 0 is 3 2 1 0, its pairs 3 2 and 1 0; half 1 is 7 6 5 4.
    let wanted = [[1, 0], [3, 2], [5, 4], [7, 6]][me as usize / 2];
    check_eq!(pair.allgather(&[me])?, wanted);
    check_eq!(
        [0, 1].map(|rank| pair.group().world_rank(rank)),
        wanted.map(Some)
    );
    Ok(())
}

fn split_without_a_color(job: &Job) -> Outcome {
    let world = job.world();
    for left_out in 0..3 {
        let part = world.split((world.rank() != left_out).then_some(0), 0)?;
        match part {
            None => check_eq!(world.rank(), left_out),
            Some(part) => {
                check!(world.rank() != left_out);
                let wanted: Vec<u32> = (0..3).filter(|&rank| rank != left_out).collect();
                check_eq!(part.allgather(&[world.rank()])?, wanted);
            }
        }
    }
    check!(world.split(None, 0)?.is_none());
    world.barrier()?;
    Ok(())
}

fn groups_name_ranks_of_the_world(job: &Job) -> Outcome {
    let world = job.world();
    let group = world.group().include(&[4, 0, 2])?;
    check_eq!(
        [0, 1, 2, 3].map(|rank| group.world_rank(rank)),
        [Some(4), Some(0), Some(2), None]
    );
    check_eq!(
        [0, 1, 4].map(|rank| group.rank_of_world(rank)),
        [Some(1), None, Some(0)]
    );
    let error = world.group().include(&[1, 5]).unwrap_err();
    check_eq!(error.class(), ErrorClass::Rank);
    check!(
        error.to_string().contains("rank 5") && error.to_string().contains("5 ranks"),
        "{error}"
    );
    Ok(())
}

fn handles_are_clones(job: &Job) -> Outcome {
    let clone = job.world().clone();
    for round in 0..50_u64 {
        check_eq!(clone.allgather(&[round])?, [round, round]);
        check_eq!(job.world().allgather(&[round])?, [round, round]);
    }
    Ok(())
}
