//! Makes a job of two ranks out of a bench binary.
//!
//! Started without a launcher, the binary starts itself twice. Rank 1 runs criterion and is the
//! origin of all operations. Rank 0 is the target: it waits for word of what both are to do
//! together, does that, and waits again.
#![allow(dead_code, reason = "each bench binary uses a part of this")]

use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use criterion::measurement::WallTime;
use transom::launcher::Launch;
use transom::raw::{Assert, Window};
use transom::{Communicator, Info, Job, Op};

pub(crate) const TARGET: u32 = 0;
const ORIGIN: u32 = 1;

/// Bytes of each rank's windows, and of the origin's buffer.
pub(crate) const SPAN: usize = 16 << 20;

/// Something that both ranks do, over and over.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    PutFence,
    Barrier,
    Bcast,
    Allreduce,
    Allgather,
    AllocateFree,
}

const STEPS: [Step; 6] = [
    Step::PutFence,
    Step::Barrier,
    Step::Bcast,
    Step::Allreduce,
    Step::Allgather,
    Step::AllocateFree,
];
/// In place of a step's number: there is nothing more to do.
const END: u64 = u64::MAX;

/// What a rank works with.
pub(crate) struct Stage<'a> {
    pub(crate) comm: &'a Communicator,
    /// Over memory that the library allocated, and over the caller's.
    pub(crate) windows: [(&'static str, Window); 2],
    pub(crate) buffer: *mut u8,
}

/// The whole `main` of a bench binary.
pub(crate) fn main(benches: fn(&mut Criterion, &Stage<'_>)) {
    // Ends the process where the arguments are wrong or ask for help, before there are ranks.
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    if env::var_os("PMI_FD").is_none() {
        let launch = Launch::new(2, env::current_exe().expect("a path of this program"));
        let outcome = launch
            .args(env::args_os().skip(1))
            .direct_output(true)
            .name("bench")
            .run()
            .unwrap_or_else(|error| panic!("{error}"));
        std::process::exit(outcome.exit_code().into());
    }
    let job = Job::init().unwrap();
    let comm = job.world();
    assert_eq!(comm.size(), 2, "benches run on two ranks");
    let mut memory = vec![1_u8; SPAN];
    let mut buffer = vec![0_u8; SPAN];
    let info = Info::new();
    let allocated = Window::allocate(comm, SPAN, 1, &info).unwrap();
    // SAFETY: the memory outlives the window, is used through it alone, and the process has no
    // other thread so far.
    let created = unsafe { Window::create(comm, memory.as_mut_ptr(), SPAN, 1, &info).unwrap() };
    let stage = Stage {
        comm,
        windows: [("allocate", allocated), ("create", created)],
        buffer: buffer.as_mut_ptr(),
    };
    if comm.rank() == ORIGIN {
        benches(&mut criterion, &stage);
        criterion.final_summary();
        stage.tell(END, 0);
    } else {
        stage.follow();
    }
    for (_, window) in stage.windows {
        window.free().unwrap();
    }
}

impl Stage<'_> {
    /// Benches what both ranks do together. To be called on rank 1.
    pub(crate) fn together(
        &self,
        group: &mut criterion::BenchmarkGroup<'_, WallTime>,
        name: &str,
        step: Step,
    ) {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                self.tell(step as u64, count);
                self.perform(step, count)
            });
        });
    }

    /// Benches an operation of rank 1 under `lock_all`, and the flush after it.
    pub(crate) fn flushed(
        &self,
        group: &mut criterion::BenchmarkGroup<'_, WallTime>,
        name: impl Into<String>,
        window: &Window,
        operation: impl Fn() -> transom::Result<()>,
    ) {
        let target = black_box(TARGET);
        window.lock_all(Assert::NONE).unwrap();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                operation().unwrap();
                window.flush(target).unwrap();
            });
        });
        window.unlock_all().unwrap();
    }

    fn tell(&self, step: u64, count: u64) {
        self.comm.bcast(&mut [step, count], ORIGIN).unwrap();
    }

    /// Rank 0's part.
    fn follow(&self) {
        loop {
            let mut told = [0; 2];
            self.comm.bcast(&mut told, ORIGIN).unwrap();
            let [step, count] = told;
            if step == END {
                return;
            }
            self.perform(STEPS[step as usize], count);
        }
    }

    fn perform(&self, step: Step, count: u64) -> Duration {
        let window = &self.windows[0].1;
        let fences = matches!(step, Step::PutFence);
        if fences {
            window.fence(Assert::NO_PRECEDE).unwrap();
        }
        self.comm.barrier().unwrap();
        let start = Instant::now();
        for _ in 0..count {
            self.once(step);
        }
        let elapsed = start.elapsed();
        if fences {
            window.fence(Assert::NO_SUCCEED).unwrap();
        }
        elapsed
    }

    fn once(&self, step: Step) {
        let Self { comm, windows, .. } = self;
        match step {
            Step::PutFence => {
                let window = &windows[0].1;
                if comm.rank() == ORIGIN {
                    // SAFETY: the buffer is longer, and nobody writes to it before the fence.
                    unsafe { window.put(self.buffer, 8, TARGET, 0).unwrap() };
                }
                window.fence(Assert::NONE).unwrap();
            }
            Step::Barrier => comm.barrier().unwrap(),
            Step::Bcast => comm.bcast(&mut [0_u64], ORIGIN).unwrap(),
            Step::Allreduce => {
                black_box(comm.allreduce(&[1.0_f64], Op::Sum).unwrap());
            }
            Step::Allgather => {
                black_box(comm.allgather(&[1_u64]).unwrap());
            }
            Step::AllocateFree => {
                let window = Window::allocate(comm, 4096, 1, &Info::new()).unwrap();
                window.free().unwrap();
            }
        }
    }
}
