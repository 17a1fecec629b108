//! A rank carries out its part of a program, and shows what it saw.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use transom::raw::{Assert, Request, Window};
use transom::{Job, LockKind, Op};

use crate::buffers::{Buffer, Exposed};
use crate::model::Seen;
use crate::program::{Access, Call, Epoch, Kind, Program, Round, Sync, Wrong};
use crate::wrong;

pub(crate) type Result<T> = std::result::Result<T, String>;

/// A rank of a running program.
pub(crate) struct Runner<'a> {
    job: &'a Job,
    program: &'a Program,
    windows: Vec<Exposed<'a>>,
    rank: u32,
}

/// What accesses fetched, by number.
type Fetched = BTreeMap<u32, Vec<u8>>;

/// An access that was made, and its buffers.
struct Flight<'a> {
    access: &'a Access,
    origin: Buffer,
    compare: Buffer,
    result: Buffer,
    request: Option<Request>,
    /// What the result was when the access was complete.
    fetched: Option<Vec<u8>>,
}

fn named<T>(what: &str, result: transom::Result<T>) -> Result<T> {
    result.map_err(|error| format!("{what}: {error:?}"))
}

impl<'a> Runner<'a> {
    /// Collective.
    pub(crate) fn new(job: &'a Job, program: &'a Program) -> Result<Self> {
        let open = |number| named("window", Exposed::open(job, program, number));
        Ok(Self {
            job,
            program,
            windows: (0..program.windows.len())
                .map(open)
                .collect::<Result<_>>()?,
            rank: job.world().rank(),
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

    fn barrier(&self) -> Result<()> {
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
            for (byte, at) in bytes.iter().zip(*at..) {
                exposed.store(at, *byte);
            }
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
            fetched: Fetched::new(),
        };
        for (rank, mut rest) in all.iter().map(Vec::as_slice).enumerate() {
            let mut take = |len: usize| {
                let (taken, left) = rest.split_at(len);
                rest = left;
                taken.to_vec()
            };
            for (window, spec) in seen.windows.iter_mut().zip(&self.program.windows) {
                window.push(take(spec.parts[rank].size));
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

    fn epoch(
        &self,
        epoch: &Epoch,
        before: Option<&Epoch>,
        next: Option<&Epoch>,
    ) -> Result<Fetched> {
        let exposed = &self.windows[epoch.window];
        let window = &exposed.window;
        let follows = before.is_some_and(|before| meets(before, epoch));
        let goes_on = next.is_some_and(|next| meets(epoch, next));
        for wrong in &epoch.before[self.rank as usize] {
            self.fail(exposed, wrong)?;
        }
        // So that ranks meet where they contend, too.
        if !follows {
            self.barrier()?;
        }
        let flights;
        match &epoch.sync {
            Sync::Fence { opening, closing } => {
                if !follows {
                    named("opening fence", window.fence(*opening))?;
                }
                flights = self.scripts(epoch)?;
                let closing = if goes_on { Assert::NONE } else { *closing };
                named("closing fence", window.fence(closing))?;
            }
            Sync::Exposure {
                origins,
                unchecked,
                by_test,
            } => {
                let me = self.rank;
                let own: &[u32] = &origins[me as usize];
                let targets: Vec<u32> = (0..window.ranks())
                    .filter(|&target| origins[target as usize].contains(&me))
                    .collect();
                let group = |ranks: &[u32]| named("group", window.group().include(ranks));
                named("post", window.post(&group(own)?, Assert::NONE))?;
                if *unchecked {
                    self.barrier()?;
                }
                let assert = if *unchecked {
                    Assert::NO_CHECK
                } else {
                    Assert::NONE
                };
                named("start", window.start(&group(&targets)?, assert))?;
                flights = self.scripts(epoch)?;
                named("complete", window.complete())?;
                if *by_test {
                    while !named("test", window.test())? {
                        thread::yield_now();
                    }
                } else {
                    named("wait", window.wait())?;
                }
            }
            Sync::Locks => flights = self.scripts(epoch)?,
            Sync::LockAll { assert, .. } => {
                if !follows {
                    named("lock_all", window.lock_all(*assert))?;
                }
                flights = self.scripts(epoch)?;
                if goes_on {
                    named("flush_all", window.flush_all())?;
                    self.barrier()?;
                    named("sync", window.sync())?;
                } else {
                    named("unlock_all", window.unlock_all())?;
                }
            }
        }
        let mut fetched = Fetched::new();
        for mut flight in flights {
            flight.complete();
            let id = flight.access.id;
            fetched.extend(flight.inspect()?.map(|bytes| (id, bytes)));
        }
        Ok(fetched)
    }

    /// Runs this rank's scripts, each in a thread of its own.
    fn scripts<'e>(&self, epoch: &'e Epoch) -> Result<Vec<Flight<'e>>> {
        let exposed = &self.windows[epoch.window];
        let scripts = &epoch.scripts[self.rank as usize];
        if let [script] = &scripts[..] {
            return self.script(exposed, script);
        }
        thread::scope(|scope| {
            let start = |script: &'e Vec<Call>| scope.spawn(move || self.script(exposed, script));
            let threads: Vec<_> = scripts.iter().map(start).collect();
            let ends = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?);
            let flights: Result<Vec<_>> = ends.collect();
            Ok(flights?.into_iter().flatten().collect())
        })
    }

    fn script<'e>(&self, exposed: &Exposed<'_>, script: &'e [Call]) -> Result<Vec<Flight<'e>>> {
        let window = &exposed.window;
        let mut flights: Vec<Flight<'e>> = Vec::new();
        for call in script {
            let what = || format!("{call:?}");
            let done = match call {
                Call::Access(access) => {
                    flights.push(self.access(exposed, access)?);
                    Ok(())
                }
                Call::Lock(kind, target, assert) => window.lock(*kind, *target, *assert),
                Call::Unlock(target) => window.unlock(*target),
                Call::Flush(target) => window.flush(*target),
                Call::FlushAll => window.flush_all(),
                Call::FlushLocal(target) => window.flush_local(*target),
                Call::FlushLocalAll => window.flush_local_all(),
                Call::Wait(id) => {
                    let flight = flights.iter_mut().find(|flight| flight.access.id == *id);
                    let Some(flight) = flight else { continue };
                    let waited = match flight.request.take() {
                        Some(request) => wait(request, id % 2 == 0),
                        None => Ok(()),
                    };
                    flight.complete();
                    waited
                }
                Call::Pause(micros) => {
                    thread::sleep(Duration::from_micros(*micros));
                    Ok(())
                }
                Call::Wrong(wrong) => {
                    self.fail(exposed, wrong)?;
                    Ok(())
                }
            };
            done.map_err(|error| format!("{}: {error:?}", what()))?;
            let all = u32::MAX;
            let completed = match call {
                Call::Unlock(target) | Call::Flush(target) | Call::FlushLocal(target) => *target,
                Call::FlushAll | Call::FlushLocalAll => all,
                _ => continue,
            };
            flights
                .iter_mut()
                .filter(|flight| completed == all || flight.access.target == completed)
                .for_each(Flight::complete);
        }
        Ok(flights)
    }

    fn access<'e>(&self, exposed: &Exposed<'_>, access: &'e Access) -> Result<Flight<'e>> {
        let blank = |index| Access::blank(access.id, index);
        let blank: Vec<u8> = match access.fetches() {
            true => (0..access.len()).map(blank).collect(),
            false => Vec::new(),
        };
        let shift = access.id as usize;
        let mut flight = Flight {
            access,
            origin: Buffer::new(&access.operands, shift),
            compare: Buffer::new(&access.compare, shift * 5),
            result: Buffer::new(&blank, shift * 3),
            request: None,
            fetched: None,
        };
        match access.kind {
            Kind::Store => {
                for (byte, at) in access.operands.iter().zip(access.at..) {
                    exposed.store(at, *byte);
                }
                flight.complete();
            }
            Kind::Load => {
                let loaded: Vec<u8> = access.bytes().map(|at| exposed.load(at)).collect();
                flight.result = Buffer::new(&loaded, shift);
                flight.complete();
            }
            _ => {
                let disp = exposed.disp(access.target, access.at);
                let posted = flight.post(&exposed.window, disp);
                flight.request = named(&access.to_string(), posted)?;
            }
        }
        Ok(flight)
    }

    /// Makes a wrong call, which must fail as the model says.
    fn fail(&self, exposed: &Exposed<'_>, wrong: &Wrong) -> Result<()> {
        match wrong::attempt(exposed, wrong) {
            Ok(()) => Err(format!("{wrong:?} succeeded")),
            Err(class) if class == wrong.class => Ok(()),
            Err(class) => Err(format!("{wrong:?} failed with class {class:?}")),
        }
    }
}

/// Whether the second epoch begins where the first ends, without a barrier of the program.
fn meets(first: &Epoch, second: &Epoch) -> bool {
    first.window == second.window
        && match (&first.sync, &second.sync) {
            (Sync::Fence { .. }, Sync::Fence { .. }) => true,
            // A barrier between post and start keeps ranks together anyway.
            (Sync::Exposure { .. }, Sync::Exposure { unchecked, .. }) => !unchecked,
            (Sync::LockAll { assert, goes_on }, Sync::LockAll { assert: other, .. }) => {
                *goes_on && assert == other
            }
            _ => false,
        }
}

fn wait(mut request: Request, by_test: bool) -> transom::Result<()> {
    if !by_test {
        return request.wait();
    }
    while !request.test()? {
        thread::yield_now();
    }
    Ok(())
}

impl Flight<'_> {
    fn post(&mut self, window: &Window, disp: u64) -> transom::Result<Option<Request>> {
        let Access {
            request,
            target,
            ty,
            count,
            op,
            id,
            ..
        } = *self.access;
        let origin: *const u8 = match op {
            Op::NoOp if id % 2 == 0 => std::ptr::null(),
            _ => self.origin.pointer(),
        };
        let (compare, result) = (self.compare.pointer(), self.result.pointer());
        // SAFETY: the buffers have `count` elements, are kept until the epoch is over, and are
        // touched only after the operation's completion.
        unsafe {
            match (self.access.kind, request) {
                (Kind::Put, false) => window.put(origin, count, target, disp),
                (Kind::Put, true) => return window.rput(origin, count, target, disp).map(Some),
                (Kind::Get, false) => window.get(result, count, target, disp),
                (Kind::Get, true) => return window.rget(result, count, target, disp).map(Some),
                (Kind::Accumulate, false) => window.accumulate(origin, count, ty, target, disp, op),
                (Kind::Accumulate, true) => {
                    return window
                        .raccumulate(origin, count, ty, target, disp, op)
                        .map(Some);
                }
                (Kind::GetAccumulate, false) => {
                    window.get_accumulate(origin, result, count, ty, target, disp, op)
                }
                (Kind::GetAccumulate, true) => {
                    return window
                        .rget_accumulate(origin, result, count, ty, target, disp, op)
                        .map(Some);
                }
                (Kind::FetchAndOp, _) => window.fetch_and_op(origin, result, ty, target, disp, op),
                (Kind::CompareAndSwap, _) => {
                    window.compare_and_swap(origin, compare, result, ty, target, disp)
                }
                (Kind::Store | Kind::Load, _) => unreachable!("no operations"),
            }
        }?;
        Ok(None)
    }

    /// To be called when the buffers are this rank's again: takes the result, and spoils what must
    /// not be read any more.
    fn complete(&mut self) {
        if self.fetched.is_none() {
            self.fetched = Some(self.result.content().to_vec());
            self.origin.scribble();
            self.compare.scribble();
        }
    }

    /// What was fetched, after the epoch. Nobody may have touched the buffers since.
    fn inspect(self) -> Result<Option<Vec<u8>>> {
        let buffers = [&self.origin, &self.compare, &self.result];
        if !buffers.iter().all(|buffer| buffer.is_guarded()) {
            return Err(format!(
                "bytes beside a buffer of {} were written to",
                self.access
            ));
        }
        let spoilt = |buffer: &Buffer| buffer.content().iter().all(|byte| *byte == 0x5a);
        if !spoilt(&self.origin) || !spoilt(&self.compare) {
            return Err(format!(
                "an origin buffer of {} was written to",
                self.access
            ));
        }
        let fetched = self.fetched.unwrap_or_default();
        if fetched != self.result.content() {
            return Err(format!(
                "the result of {} changed after its completion",
                self.access
            ));
        }
        Ok(self.access.fetches().then_some(fetched))
    }
}
