//! A rank in an epoch: its scripts, call by call.

use std::thread;
use std::time::{Duration, Instant};

use transom::raw::{Assert, Request, Window};

use crate::access::{Access, Kind};
use crate::execute::{Fetched, Result, Runner, named};
use crate::exposed::Exposed;
use crate::flight::Flight;
use crate::program::{Await, Call, Epoch, Sync, Wrong};
use crate::sabotage::{self, Sabotage};
use crate::wrong;

/// For how long a notification is awaited that may have been lost on purpose.
const LONGEST_AWAIT: Duration = Duration::from_millis(500);
static SPOILT: u8 = 0xee;

impl Runner<'_> {
    pub(crate) fn epoch(
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
                let promise = self.promise(epoch, before);
                if !follows {
                    named("opening fence", window.fence(*opening | promise))?;
                }
                flights = self.scripts(epoch)?;
                let closing = if goes_on { Assert::NONE } else { *closing };
                // What follows, if anything, has promises of its own.
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
                let unless_checked = match unchecked {
                    true => Assert::NO_CHECK,
                    false => Assert::NONE,
                };
                let promise = self.promise(epoch, before);
                let group = |ranks: &[u32]| named("group", window.group().include(ranks));
                named("post", window.post(&group(own)?, unless_checked | promise))?;
                if *unchecked {
                    self.barrier()?;
                }
                named("start", window.start(&group(&targets)?, unless_checked))?;
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
                    named("sync", window.sync())?;
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

    /// What this rank may assert of its part where an epoch begins.
    fn promise(&self, epoch: &Epoch, before: Option<&Epoch>) -> Assert {
        let mine = |epoch: &Epoch, kind: fn(Kind) -> bool| {
            let accesses = epoch.scripts.iter().flatten().flatten();
            accesses.clone().any(|call| match call {
                Call::Access(access) => access.target == self.rank && kind(access.kind),
                _ => false,
            })
        };
        let changes = |kind| !matches!(kind, Kind::Get | Kind::Load);
        let stored = |kind| kind == Kind::Store;
        let quiet = match mine(epoch, changes) {
            true => Assert::NONE,
            false => Assert::NO_PUT,
        };
        match before.is_none_or(|before| mine(before, stored)) {
            true => quiet,
            false => quiet | Assert::NO_STORE,
        }
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
                Call::Sync => window.sync(),
                Call::Churn => exposed.churn(),
                Call::Await(awaited) => {
                    self.wait_for_notifications(window, awaited)?;
                    Ok(())
                }
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

    fn wait_for_notifications(&self, window: &Window, awaited: &Await) -> Result<()> {
        let Await {
            counter,
            last,
            at_least,
        } = *awaited;
        // What was spoilt on purpose may never come.
        if last.is_multiple_of(2) && self.sabotage.is_none() {
            named("wait_notify", window.wait_notify(counter, at_least))?;
        } else {
            let deadline = Instant::now() + LONGEST_AWAIT;
            while !named("test_notify", window.test_notify(counter, at_least))? {
                if Instant::now() > deadline && self.sabotage.is_some() {
                    return Err(format!("counter {counter} never came to {at_least}"));
                }
                thread::yield_now();
            }
        }
        let there = named("notifications", window.notifications(counter))?;
        match there >= at_least {
            true => Ok(()),
            false => Err(format!("counter {counter} is {there}, not {at_least} yet")),
        }
    }

    fn access<'e>(&self, exposed: &Exposed<'_>, access: &'e Access) -> Result<Flight<'e>> {
        let mut flight = Flight::new(access);
        let by_processor = matches!(access.kind, Kind::Store | Kind::Load);
        let reached = match by_processor {
            true => named("shared_query", exposed.reach(access.target))?,
            false => None,
        };
        if let Some(memory) = reached {
            let is_mine = access.target == self.rank;
            match (access.kind, self.sabotage) {
                (Kind::Store, Some(Sabotage::LostStore)) if !is_mine => {}
                (Kind::Store, _) => memory.store(access.at, &access.operands),
                (_, Some(Sabotage::StaleLoad)) if !is_mine => {
                    flight.set_loaded(&vec![0; access.count()]);
                }
                _ => flight.set_loaded(&memory.load(access.bytes())),
            }
            flight.complete();
            return Ok(flight);
        }
        let mut disp = exposed.disp(access.target, access.at);
        if self.sabotage == Some(Sabotage::Shifted) && access.derived {
            disp += u64::from(exposed.has_room_behind(access));
        }
        let posted = flight.post(&exposed.window, disp, self.sabotage);
        named(&access.to_string(), posted)?;
        self.spoil_gaps(exposed, &mut flight);
        Ok(flight)
    }

    /// Writes where a datatype has none of its elements, if that is what this rank does wrong.
    fn spoil_gaps(&self, exposed: &Exposed<'_>, flight: &mut Flight<'_>) {
        let access = flight.access;
        match self.sabotage {
            Some(Sabotage::TargetGap) => {
                let gap = sabotage::target_gap(access).filter(|_| access.derived);
                if let Some(gap) = gap {
                    let disp = exposed.disp(access.target, gap);
                    // SAFETY: the byte is static.
                    let put = unsafe { exposed.window.put(&SPOILT, 1, access.target, disp) };
                    put.expect("the byte is inside the layout");
                }
            }
            Some(Sabotage::ResultGap) => {
                if let Some(gap) = sabotage::result_gap(access) {
                    flight.result.spoil(gap);
                }
            }
            _ => {}
        }
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
