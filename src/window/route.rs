//! The ways to a target's memory and words, found at first use.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rdma_sys_shim::{Endpoint, Mapping, RemoteRegion};

use super::layout::{ACCUMULATE_LOCK_AT, BULK_MODE_AT, LOCK_AT};
use super::target::{Route, Target};
use super::{OnTarget, RegionCache, Window, WindowMemory};
use crate::error::{AbortCause, Error, ErrorKind, Result};
use crate::memory::reach::Reach;
use crate::memory::remote::RemoteMemory;
use crate::terms::Aim;
use crate::wait::take_due;

impl Window {
    /// Lets one thread at a time work on the state of a target.
    #[cold]
    pub(crate) fn while_entering<'a, R>(
        &'a self,
        target: &'a Target,
        body: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let patience = self.context().patience();
        let mut inside = None;
        let begin = || {
            inside = target.begin_entering();
            Ok(inside.is_some())
        };
        // The thread inside is of this rank. Its own waits are checked and logged.
        let check = || {
            take_due();
            Ok(())
        };
        patience.wait(begin, check)?;
        body()
    }

    /// The control memory that holds the block of a rank, and the block's place.
    pub(crate) fn block_of(&self, rank: u32) -> Result<(Arc<RemoteMemory>, u64)> {
        let peer = self.team.connect_to(rank)?;
        peer.block_in(self.atomic_domain(), self.parts.blocks.get(rank))
    }

    fn find_route(&self, rank: u32) -> Result<Route> {
        let (control, block) = self.block_of(rank)?;
        let endpoint = control.endpoint();
        let entry = self.read_entry(rank, &control, block)?;
        let exposed = entry.exposed();
        let mut route = Route {
            endpoint: endpoint.clone(),
            entry,
            region: exposed,
            size: exposed.len,
            lock: control.word(block + LOCK_AT),
            accumulate_lock: control.word(block + ACCUMULATE_LOCK_AT),
            bulk_mode: control.word(block + BULK_MODE_AT),
            one_by_one: AtomicUsize::new(0),
            mapping: None,
            mapped: Reach::NOTHING,
            attached: None,
        };
        route.mapped = match &self.memory {
            Some(WindowMemory::Shared(shared)) => shared.part(&exposed).unwrap_or(Reach::NOTHING),
            Some(WindowMemory::Dynamic(_)) => {
                // Displacements are addresses of memory that the table names.
                (route.region, route.size) = (RemoteRegion::default(), 0);
                let patience = self.context().patience();
                let table = RemoteMemory::new(endpoint.clone(), exposed, patience)?;
                let owner = self.team.world_rank(rank);
                route.attached = Some(RegionCache::new(table, owner, patience));
                Reach::NOTHING
            }
            _ => {
                route.mapping = self.map(&**endpoint, &exposed)?;
                route.mapping.as_ref().map_or(Reach::NOTHING, Reach::from)
            }
        };
        Ok(route)
    }

    fn map(&self, endpoint: &dyn Endpoint, exposed: &RemoteRegion) -> Result<Option<Mapping>> {
        if !self.shares_host || exposed.len == 0 {
            return Ok(endpoint.map(exposed)?);
        }
        // All ranks said that they could map it, and now there is no other way to access these
        // words.
        let mapped = endpoint.map_or_fail(exposed)?;
        Ok(mapped.map(Mapping::with_atomics))
    }

    /// Aborts the job, since this rank cannot do what others will wait for. They see only that this
    /// rank is alive.
    #[cold]
    pub(crate) fn give_up(&self, error: Error) -> Error {
        if error.is_of_this_rank() {
            self.context().abort_everywhere(AbortCause::EpochFailed);
        }
        error
    }

    /// Names the rank if the device named only a process.
    #[cold]
    pub(crate) fn failed(&self, aim: Aim, error: impl Into<Error>) -> Error {
        let error = self
            .context()
            .blame(self.team.world_rank(aim.rank), error.into());
        match error.kind() {
            ErrorKind::Misuse(_) => error,
            _ => error.during(aim.operation),
        }
    }
}

impl<'w> OnTarget<'w> {
    /// The route to the target, found now if it is not known.
    #[inline]
    pub(crate) fn route(self) -> Result<&'w Route> {
        match self.target.route() {
            Some(route) => Ok(route),
            None => self.aside(|on| (on.window).while_entering(on.target, || on.find_route())),
        }
    }

    /// As [`OnTarget::route`], for the thread that works on the state of the target.
    pub(crate) fn find_route(self) -> Result<&'w Route> {
        let Self {
            window,
            target,
            aim,
        } = self;
        if let Some(route) = target.route() {
            return Ok(route);
        }
        let found = window.find_route(aim.rank);
        let route = found.map_err(|error| window.team.blame(aim.operation, aim.rank, error))?;
        let reach = match &window.counters {
            None => route.mapped,
            // So that all operations pass the code that counts them.
            Some(_) => Reach::NOTHING,
        };
        // Rank 0's device has allocated it for all ranks.
        let atomic = window.is_shared_allocation() || route.endpoint.has_atomics(&route.region);
        let widths = window.atomic_widths.where_atomic(atomic);
        window.targets.note_used(aim.rank);
        Ok(target.set_route(route, reach, widths))
    }
}
