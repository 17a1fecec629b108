//! A rank carries out its part of a program, and shows what it saw.

use std::collections::BTreeMap;
use transom::raw::Assert;
use transom::{Job, LockKind};

use crate::exposed::Exposed;
use crate::model::Seen;
use crate::program::{Epoch, Program, Round};
use crate::sabotage::Sabotage;

pub(crate) type Result<T> = std::result::Result<T, String>;

/// A rank of a running program.
pub(crate) struct Runner<'a> {
    job: &'a Job,
    program: &'a Program,
    pub(crate) windows: Vec<Exposed<'a>>,
    pub(crate) rank: u32,
    /// What it does wrong on purpose.
    pub(crate) sabotage: Option<Sabotage>,
}

/// What accesses fetched, by number.
pub(crate) type Fetched = BTreeMap<u32, Vec<u8>>;

pub(crate) fn named<T>(what: &str, result: transom::Result<T>) -> Result<T> {
    result.map_err(|error| format!("{what}: {error:?}"))
}

impl<'a> Runner<'a> {
    /// Collective.
    pub(crate) fn new(
        job: &'a Job,
        program: &'a Program,
        sabotage: Option<Sabotage>,
    ) -> Result<Self> {
        let open = |number| named("window", Exposed::open(job, program, number));
        Ok(Self {
            job,
            program,
            windows: (0..program.windows.len())
                .map(open)
                .collect::<Result<_>>()?,
            rank: job.world().rank(),
            sabotage,
        })
    }

    /// Collective.
    pub(crate) fn close(self) -> Result<()> {
        let free = |window: Exposed<'_>| named("free", window.close());
        self.windows.into_iter().try_for_each(free)
    }

    /// Collective. Rank 0 learns what all saw.
    pub(crate) fn round(&mut self, round: &Round) -> Result<Option<Seen>> {
        self.prepare(round)?;
        let mut fetched = Fetched::new();
        let mut before: Option<&Epoch> = None;
        for (index, epoch) in round.epochs.iter().enumerate() {
            let next = round.epochs.get(index + 1);
            let context = |what| format!("epoch {}: {what}", epoch.number);
            let seen = self.epoch(epoch, before, next).map_err(context)?;
            fetched.extend(seen);
            before = Some(epoch);
        }
        self.barrier()?;
        self.show(fetched)
    }

    pub(crate) fn barrier(&self) -> Result<()> {
        named("barrier", self.job.world().barrier())
    }

    fn prepare(&mut self, round: &Round) -> Result<()> {
        for window in &round.reattached {
            named("attach", self.windows[*window].reattach())?;
        }
        let stores = round.stores.iter().filter(|(rank, ..)| *rank == self.rank);
        for (_, window, at, bytes) in stores {
            let exposed = &self.windows[*window];
            let locks = self.program.windows[*window].locks;
            if locks {
                let lock = exposed
                    .window
                    .lock(LockKind::Exclusive, self.rank, Assert::NONE);
                named("lock of oneself", lock)?;
            }
            exposed.store(*at, bytes);
            if locks {
                named("unlock of oneself", exposed.window.unlock(self.rank))?;
            }
        }
        self.barrier()
    }

    fn show(&self, fetched: Fetched) -> Result<Option<Seen>> {
        let mut shown = Vec::new();
        for (exposed, spec) in self.windows.iter().zip(&self.program.windows) {
            if !exposed.is_guarded() {
                return Err("bytes beside a window were written to".to_owned());
            }
            if spec.locks {
                let lock = exposed
                    .window
                    .lock(LockKind::Shared, self.rank, Assert::NONE);
                named("lock to look", lock)?;
            }
            shown.extend(exposed.bytes());
            if spec.locks {
                named("unlock after looking", exposed.window.unlock(self.rank))?;
            }
            for counter in 0..spec.parts[self.rank as usize].counters {
                let count = named("notifications", exposed.window.notifications(counter))?;
                shown.extend(count.to_ne_bytes());
            }
        }
        for (id, bytes) in fetched {
            shown.extend(id.to_ne_bytes());
            shown.extend((bytes.len() as u32).to_ne_bytes());
            shown.extend(bytes);
        }
        let all = named("gatherv", self.job.world().gatherv(&shown, 0))?;
        Ok((self.rank == 0).then(|| self.collect(&all)))
    }

    fn collect(&self, all: &[Vec<u8>]) -> Seen {
        let mut seen = Seen {
            windows: vec![Vec::new(); self.windows.len()],
            counters: vec![Vec::new(); self.windows.len()],
            fetched: Fetched::new(),
        };
        for (rank, mut rest) in all.iter().map(Vec::as_slice).enumerate() {
            let mut take = |len: usize| {
                let (taken, left) = rest.split_at(len);
                rest = left;
                taken.to_vec()
            };
            for (window, spec) in self.program.windows.iter().enumerate() {
                let part = &spec.parts[rank];
                seen.windows[window].push(take(part.size));
                let counts = take(part.counters as usize * 8);
                let counts = counts
                    .chunks(8)
                    .map(|count| u64::from_ne_bytes(count.try_into().expect("eight")));
                seen.counters[window].push(counts.collect());
            }
            let number = |bytes: Vec<u8>| u32::from_ne_bytes(bytes.try_into().expect("four"));
            while !rest.is_empty() {
                let mut take = |len: usize| {
                    let (taken, left) = rest.split_at(len);
                    rest = left;
                    taken.to_vec()
                };
                let (id, len) = (number(take(4)), number(take(4)));
                seen.fetched.insert(id, take(len as usize));
            }
        }
        seen
    }
}
