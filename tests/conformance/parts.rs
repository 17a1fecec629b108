//! Collectives by which each rank gets something of its own, against a serial model: on the world, on parts of it,
//! and over an allgather that the caller lends.

use transom::lower::{Allgather, AllgatherError};
use transom::{Communicator, ErrorClass, ErrorKind, Job, Op, PeerError};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["parts":
    scatter_from_every_root @ [1, 2, 3, 5],
    alltoall_everywhere @ [1, 2, 3, 5],
    scans_over_the_ranks_before @ [1, 2, 3, 5],
    single_values @ [1, 2, 3, 5],
    all_agree_or_none @ [1, 2, 3, 5],
    what_cannot_be_cut_is_an_error @ [1, 2, 3],
];

/// A communicator's allgather, as a caller may lend it.
struct Lent(Communicator);

// SAFETY: a collective of a communicator keeps what the trait asks for.
unsafe impl Allgather for Lent {
    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn size(&self) -> u32 {
        self.0.size()
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
        let all = self.0.allgather(mine)?;
        Ok(all.chunks(mine.len()).map(<[u8]>::to_vec).collect())
    }
}

/// The world, this rank's half of it in reverse order, and one over a lent allgather.
fn on_each_kind(job: &Job, case: impl Fn(&Communicator) -> Outcome) -> Outcome {
    let world = job.world();
    case(world)?;
    let half = world.split(Some(world.rank() % 2), -(world.rank() as i32))?;
    case(&half.expect("a colour"))?;
    let lent = job.communicator(world.group(), Lent(world.dup()?))?;
    case(&lent)
}

/// In elements of eight bytes: none, one, an odd few, more than a pipe holds.
const LENGTHS: [usize; 4] = [0, 1, 7, 1500];

/// What `from` has for `to`.
fn part(from: u32, to: u32, len: usize) -> Vec<u64> {
    let value = |at| u64::from(from) << 48 | u64::from(to) << 32 | at as u64;
    (0..len).map(value).collect()
}

/// Of different lengths.
fn uneven(from: u32, to: u32) -> Vec<u64> {
    part(from, to, LENGTHS[(from + 2 * to) as usize % 4])
}

fn scatter_from_every_root(job: &Job) -> Outcome {
    on_each_kind(job, |comm| {
        let (me, size) = (comm.rank(), comm.size());
        for root in 0..size {
            for len in LENGTHS {
                let all: Vec<u64> = (0..size).flat_map(|to| part(root, to, len)).collect();
                // What the others pass does not count.
                let data = if me == root { &all[..] } else { &[7; 5] };
                check!(
                    comm.scatter(data, root)? == part(root, me, len),
                    "{len} from {root}"
                );
            }
            let parts: Vec<_> = (0..size).map(|to| uneven(root, to)).collect();
            let parts = if me == root { &parts[..] } else { &[] };
            check!(
                comm.scatterv(parts, root)? == uneven(root, me),
                "from {root}"
            );
            let squares: Vec<u16> = (0..size as u16).map(|rank| rank * rank).collect();
            let squares = if me == root { &squares[..] } else { &[] };
            check_eq!(comm.scatter_value(squares, root)?, (me * me) as u16);
        }
        Ok(())
    })
}

fn alltoall_everywhere(job: &Job) -> Outcome {
    on_each_kind(job, |comm| {
        let (me, size) = (comm.rank(), comm.size());
        for len in LENGTHS {
            let mine: Vec<u64> = (0..size).flat_map(|to| part(me, to, len)).collect();
            let wanted: Vec<u64> = (0..size).flat_map(|from| part(from, me, len)).collect();
            check!(comm.alltoall(&mine)? == wanted, "{len}");
        }
        let mine: Vec<_> = (0..size).map(|to| uneven(me, to)).collect();
        let wanted: Vec<_> = (0..size).map(|from| uneven(from, me)).collect();
        check!(comm.alltoallv(&mine)? == wanted);
        let nothing = vec![Vec::<[u8; 3]>::new(); size as usize];
        check_eq!(comm.alltoallv(&nothing)?, nothing);
        Ok(())
    })
}

fn scans_over_the_ranks_before(job: &Job) -> Outcome {
    on_each_kind(job, |comm| {
        let (me, size) = (comm.rank(), comm.size());
        // The last in several pieces.
        for len in [0, 1, 7, 70_000] {
            let data = |rank| part(rank, rank, len);
            let ops = [Op::Sum, Op::Max, Op::Bxor];
            let ops = if len < 10 { &ops[..] } else { &ops[..1] };
            for &op in ops {
                let fold = |ranks: u32| {
                    let mut all = (0..ranks).map(data);
                    let mut sums = all.next().unwrap_or_default();
                    for other in all {
                        for (sum, value) in sums.iter_mut().zip(other) {
                            *sum = transom::Reduce::combine(op, *sum, value).expect("defined");
                        }
                    }
                    sums
                };
                check!(comm.scan(&data(me), op)? == fold(me + 1), "{len} {op:?}");
                check!(comm.exscan(&data(me), op)? == fold(me), "{len} {op:?}");
            }
        }
        // In the order of ranks, to the last bit.
        let value = |rank: u32| 1.0 / f64::from(rank + 3);
        let sum = (0..=me).map(value).reduce(|sum, value| sum + value);
        check_eq!(Some(comm.scan_value(value(me), Op::Sum)?), sum);
        check_eq!(
            comm.exscan_value(2_usize, Op::Prod)?,
            (me > 0).then(|| 1 << me)
        );
        check_eq!(comm.scan(&[1_u8], Op::Sum)?, [me as u8 + 1]);
        refused(
            comm.scan(&[0.5], Op::Band),
            ErrorClass::Op,
            &["scan", "Band", "f64"],
        )?;
        check_eq!(comm.allreduce_value(1, Op::Sum)?, size as i32);
        Ok(())
    })
}

fn single_values(job: &Job) -> Outcome {
    on_each_kind(job, |comm| {
        let (me, size) = (comm.rank(), comm.size());
        let numbers: Vec<u32> = (0..size).collect();
        let sum = size * (size - 1) / 2;
        check_eq!(comm.allgather_value(me)?, numbers);
        check_eq!(comm.allreduce_value(me, Op::Sum)?, sum);
        // A root may be an index.
        for root in 0..size as usize {
            let at_root = me as usize == root;
            check_eq!(comm.bcast_value(me, root)? as usize, root);
            let gathered = comm.gather_value(me, root)?;
            check_eq!(gathered, if at_root { &numbers[..] } else { &[] });
            check_eq!(
                comm.reduce_value(me, Op::Sum, root)?,
                at_root.then_some(sum)
            );
        }
        for one in 0..size {
            check_eq!(comm.any(me == one)?, true);
            check_eq!(comm.all(me == one)?, size == 1);
            check_eq!(comm.all(me != one)?, false);
        }
        check_eq!((comm.all(true)?, comm.any(false)?), (true, false));
        refused(
            comm.bcast_value(0, -1),
            ErrorClass::Rank,
            &["bcast: -1 is not one of these"],
        )
    })
}

fn all_agree_or_none(job: &Job) -> Outcome {
    on_each_kind(job, |comm| {
        let (me, size) = (comm.rank(), comm.size());
        let mine = vec![me.to_string()];
        check_eq!(comm.agree(Ok::<_, String>(mine.clone()))?, mine);
        for first in 0..size {
            // Those behind fail, too.
            let result = match me < first {
                true => Ok(me),
                false => Err(format!("file {me} is gone")),
            };
            let error = comm.agree(result).unwrap_err();
            check_eq!(
                error.to_string(),
                format!("agree: rank {first} failed: file {first} is gone")
            );
            check_eq!(error.class(), ErrorClass::Other);
            let ErrorKind::Peer(PeerError::Failed { rank, .. }) = error.kind() else {
                return Err(error.into());
            };
            check_eq!(*rank, first);
        }
        // Longer than what is passed on, with a character across the end.
        let long = "ä".repeat(400);
        let error = comm.agree(Err::<u8, _>(&long)).unwrap_err();
        check!(error.to_string().ends_with(&"ä".repeat(256)), "{error}");
        // They go on together.
        check_eq!(comm.allgather_value(me)?.len(), size as usize);
        Ok(())
    })
}

fn what_cannot_be_cut_is_an_error(job: &Job) -> Outcome {
    on_each_kind(job, |comm| {
        let size = comm.size();
        let n = size as usize;
        // Where all are refused alike, all go on.
        let parts = format!("{} parts for {size} ranks", n + 1);
        let parts = ["there are", &parts];
        refused(
            comm.alltoallv(&vec![vec![0_u8]; n + 1]),
            ErrorClass::Count,
            &parts,
        )?;
        if size > 1 {
            let words = format!(
                "{} elements cannot be cut into equal parts for {size}",
                n + 1
            );
            refused(
                comm.alltoall(&vec![0_u8; n + 1]),
                ErrorClass::Count,
                &[&words],
            )?;
        }
        refused(
            comm.scatter(&[0_u8], size),
            ErrorClass::Rank,
            &["scatter: rank"],
        )?;
        check_eq!(comm.allreduce_value(1_u32, Op::Sum)?, size);
        // Only the root knows how much it is.
        for root in 0..size {
            let dup = comm.dup()?;
            let error = dup.scatter_value(&vec![0_u8; n + 1], root).unwrap_err();
            check_eq!(error.class(), ErrorClass::Count, "{error}");
            let words = format!("there are {} parts for {size} ranks", n + 1);
            check!(error.to_string().contains(&words), "{error}");
            let blamed = error.to_string().contains(&format!("rank {root} failed"));
            check_eq!(blamed, comm.rank() != root, "{error}");
            let again = dup.scatter(&[0_u8], 0);
            if size > 1 {
                refused(again, ErrorClass::Comm, &["out of step"])?;
            }
        }
        Ok(())
    })
}
