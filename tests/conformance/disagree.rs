//! Collective calls that do not match: every rank gets an error that names a rank, the call and both
//! operands, before anything is sent; then nothing waits for ever.

use std::thread::sleep;
use std::time::Duration;

use transom::raw::{Assert, Window};
use transom::{Communicator, ErrorClass, ErrorKind, Info, Job, Misuse, Op, Result};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["disagree":
    every_rank_makes_another_call @ [3, 4, 7],
    one_rank_has_wrong_arguments @ [2, 3, 4],
    a_slow_rank_is_none_that_disagrees @ [2, 4],
];

/// Hundreds of communicators: minutes, where a machine emulates its device.
pub(crate) const PAIRS: &[Case] = cases!["disagree":
    each_pair_of_calls @ [2, 3, 4],
];

/// A call, and how errors name it.
type Call = (&'static str, fn(&Communicator) -> Result<()>);

const CALLS: &[Call] = &[
    ("barrier", |comm| comm.barrier()),
    ("bcast of 1 element of 8 bytes with root 0", |comm| {
        comm.bcast(&mut [0_u64], 0)
    }),
    ("bcast of 2 elements of 4 bytes with root 0", |comm| {
        comm.bcast(&mut [0_u32; 2], 0)
    }),
    ("bcast of 1 element of 8 bytes with root 1", |comm| {
        comm.bcast(&mut [0_u64], 1)
    }),
    ("gather of 1 element of 8 bytes with root 0", |comm| {
        comm.gather(&[0_u64], 0).map(drop)
    }),
    ("gather of 20000 elements of 8 bytes with root 0", |comm| {
        comm.gather(&[0_u64; 20_000], 0).map(drop)
    }),
    ("gather of 1 element of 8 bytes with root 1", |comm| {
        comm.gather(&[0_u64], 1).map(drop)
    }),
    ("gatherv with root 0", |comm| {
        comm.gatherv(&[0_u64], 0).map(drop)
    }),
    ("gatherv with root 1", |comm| {
        comm.gatherv(&[0_u64], 1).map(drop)
    }),
    ("allgather of 1 element of 1 byte", |comm| {
        comm.allgather(&[0_u8]).map(drop)
    }),
    ("allgather of 2 elements of 1 byte", |comm| {
        comm.allgather(&[0_u8; 2]).map(drop)
    }),
    ("allgatherv", |comm| comm.allgatherv(&[0_u8]).map(drop)),
    ("reduce of 1 element of u64 by Sum with root 0", |comm| {
        comm.reduce(&[0_u64], Op::Sum, 0).map(drop)
    }),
    ("reduce of 2 elements of u64 by Sum with root 0", |comm| {
        comm.reduce(&[0_u64; 2], Op::Sum, 0).map(drop)
    }),
    ("reduce of 1 element of u64 by Max with root 0", |comm| {
        comm.reduce(&[0_u64], Op::Max, 0).map(drop)
    }),
    ("reduce of 1 element of i64 by Sum with root 0", |comm| {
        comm.reduce(&[0_i64], Op::Sum, 0).map(drop)
    }),
    ("reduce of 1 element of u64 by Sum with root 1", |comm| {
        comm.reduce(&[0_u64], Op::Sum, 1).map(drop)
    }),
    ("allreduce of 1 element of u64 by Sum", |comm| {
        comm.allreduce(&[0_u64], Op::Sum).map(drop)
    }),
    ("allreduce of 2 elements of u64 by Sum", |comm| {
        comm.allreduce(&[0_u64; 2], Op::Sum).map(drop)
    }),
    ("allreduce of 1 element of u64 by Max", |comm| {
        comm.allreduce(&[0_u64], Op::Max).map(drop)
    }),
    ("allreduce of 1 element of f64 by Sum", |comm| {
        comm.allreduce(&[0_f64], Op::Sum).map(drop)
    }),
    ("allocate", |comm| {
        Window::allocate(comm, 64, 1, &Info::new())?.free()
    }),
    ("create_dynamic", |comm| {
        Window::create_dynamic(comm, &Info::new())?.free()
    }),
    ("dup", |comm| comm.dup().map(drop)),
    ("split of 3 elements of 8 bytes", |comm| {
        comm.split(Some(0), 0).map(drop)
    }),
    ("scatter of elements of 1 byte with root 0", |comm| {
        comm.scatter(&vec![0_u8; comm.size() as usize], 0).map(drop)
    }),
    ("alltoallv of elements of 1 byte", |comm| {
        let parts = vec![vec![0_u8]; comm.size() as usize];
        comm.alltoallv(&parts).map(drop)
    }),
    ("agree", |comm| comm.agree(Ok::<_, String>(()))),
    ("split_shared", |comm| comm.split_shared(0).map(drop)),
];

/// A communicator that is to fail, and a window of it.
struct Doomed {
    comm: Communicator,
    window: Window,
}

impl Doomed {
    fn new(job: &Job) -> Result<Self> {
        let comm = job.world().dup()?;
        let window = Window::allocate(&comm, 8, 1, &Info::new())?;
        Ok(Self { comm, window })
    }

    fn disagrees(&self, call: Call, names: impl Fn(u32, &str) -> bool) -> Outcome {
        let (words, call) = call;
        let Err(error) = call(&self.comm) else {
            return Err(Failure::new(format_args!("{words} was let through")));
        };
        check_eq!(error.class(), ErrorClass::Arg, "{error}");
        check!(words.starts_with(error.operation()), "{error}");
        let ErrorKind::Misuse(Misuse::Mismatch { rank, ours, theirs }) = error.kind() else {
            return Err(Failure::new(error));
        };
        // The window of the communicator is the third call on it.
        let number = " (collective number 2)";
        check_eq!(*ours, format!("{words}{number}"));
        let theirs = theirs.strip_suffix(number).unwrap_or(theirs);
        check!(names(*rank, theirs), "{error}");
        Ok(())
    }

    /// What comes after: nothing waits, and the window is as it was.
    fn ends(self) -> Outcome {
        for again in [self.comm.barrier(), self.comm.dup().map(drop)] {
            refused(again, ErrorClass::Comm, &["out of step"])?;
        }
        self.window.fence(Assert::NONE)?;
        Ok(self.window.free()?)
    }
}

fn each_pair_of_calls(job: &Job) -> Outcome {
    let (me, size) = (job.world().rank(), job.world().size());
    let pairs = (0..CALLS.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    for (number, (usual, unusual)) in (0..).zip(pairs) {
        let (odd, doomed) = (number % size, Doomed::new(job)?);
        let (ours, theirs) = match me == odd {
            true => (CALLS[unusual], CALLS[usual]),
            false => (CALLS[usual], CALLS[unusual]),
        };
        doomed.disagrees(ours, |rank, words| {
            (rank == odd) != (me == odd) && words == theirs.0
        })?;
        doomed.ends()?;
    }
    Ok(())
}

fn every_rank_makes_another_call(job: &Job) -> Outcome {
    let (me, size) = (job.world().rank(), job.world().size());
    for shift in 0..CALLS.len() {
        let call = |rank: u32| CALLS[(shift + 3 * rank as usize) % CALLS.len()];
        let doomed = Doomed::new(job)?;
        doomed.disagrees(call(me), |rank, words| {
            rank < size && rank != me && words == call(rank).0
        })?;
        doomed.ends()?;
    }
    Ok(())
}

fn one_rank_has_wrong_arguments(job: &Job) -> Outcome {
    let (me, size) = (job.world().rank(), job.world().size());
    for odd in 0..size {
        let root = if me == odd { size + 5 } else { 0 };
        let op = if me == odd { Op::Bxor } else { Op::Sum };
        type Try<'a> = &'a dyn Fn(&Communicator) -> Result<()>;
        let parts = vec![vec![0_u8]; size as usize + usize::from(me == odd)];
        let calls: [(ErrorClass, &str, Try<'_>); 7] = [
            (ErrorClass::Rank, "bcast", &|comm| {
                comm.bcast(&mut [0_u8], root)
            }),
            (ErrorClass::Rank, "gather", &|comm| {
                comm.gather(&[0_u8], root).map(drop)
            }),
            (ErrorClass::Rank, "gatherv", &|comm| {
                comm.gatherv(&[0_u8], root).map(drop)
            }),
            (ErrorClass::Rank, "reduce", &|comm| {
                comm.reduce(&[0_u8], Op::Sum, root).map(drop)
            }),
            (ErrorClass::Op, "allreduce", &|comm| {
                comm.allreduce(&[0_f64], op).map(drop)
            }),
            (ErrorClass::Count, "alltoallv", &|comm| {
                comm.alltoallv(&parts).map(drop)
            }),
            (ErrorClass::Count, "scatterv", &|comm| {
                comm.scatterv(&parts, odd).map(drop)
            }),
        ];
        for (class, name, call) in calls {
            let cause = match class {
                ErrorClass::Op => "Bxor is not defined for f64".to_owned(),
                ErrorClass::Count => format!("there are {} parts for {size} ranks", size + 1),
                _ => format!("rank {} is not one of these {size} ranks", size + 5),
            };
            let culprit = format!("rank {odd} failed: {name}: ");
            let words = match me == odd {
                true => vec![name, &cause],
                false => vec![name, &cause, &culprit],
            };
            let doomed = Doomed::new(job)?;
            refused(call(&doomed.comm), class, &words)?;
            doomed.ends()?;
        }
    }
    Ok(())
}

fn a_slow_rank_is_none_that_disagrees(job: &Job) -> Outcome {
    let world = job.world();
    let (me, size) = (world.rank(), world.size());
    // Far longer than it takes others to look after it.
    let late = Duration::from_millis(400);
    for slow in [0, size - 1] {
        for (_, call) in CALLS.iter().step_by(5) {
            if me == slow {
                sleep(late);
            }
            call(world)?;
        }
        let doomed = Doomed::new(job)?;
        if me == slow {
            sleep(late);
        }
        let call = CALLS[if me == slow { 17 } else { 18 }];
        doomed.disagrees(call, |rank, _| (rank == slow) != (me == slow))?;
        doomed.ends()?;
    }
    Ok(())
}
