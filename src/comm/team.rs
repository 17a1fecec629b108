//! The ranks that take part in something, as one of them sees it.

use std::sync::Arc;

use super::by_host::ByHost;
use super::group::Group;
use super::ring::Ring;
use crate::error::{Error, Misuse, Result};
use crate::liveness::Awaited;
use crate::memory::columns::Column;
use crate::memory::remote::RemoteWord;
use crate::peers::{Context, Fabric, Hosts, Peer};
use crate::terms::WorldRank;
use crate::wait::Verdict;

/// A group and this process's place in it.
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) context: Arc<Context>,
    /// The device and peers through which its members reach each other.
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) group: Group,
    pub(crate) rank: u32,
    pub(crate) rings: Arc<Rings>,
}

/// The rings of a team's ranks, for calls in which all ranks have to hear of each other.
#[derive(Clone, Debug)]
pub(crate) struct Rings {
    /// Whether all ranks are known to run on one host.
    pub(crate) one_host: bool,
    pub(super) all: Ring,
    /// The order by hosts, if collectives take two steps.
    pub(super) by_host: Option<Arc<ByHost>>,
}

impl Rings {
    pub(crate) fn new(hosts: &Hosts, group: &Group, rank: u32) -> Self {
        let size = group.size();
        let members = (0..size).filter_map(|rank| group.in_world(rank));
        let of_members = match hosts.is_one() {
            true => Hosts::one(),
            false => Hosts::of(members.map(|WorldRank(rank)| hosts.host_of(rank))),
        };
        Self {
            one_host: of_members.is_one(),
            all: Ring::all(size, rank),
            by_host: ByHost::new(&of_members, size, rank).map(Arc::new),
        }
    }

    /// Whether barriers and collectives take two steps, by hosts.
    pub(crate) fn is_by_host(&self) -> bool {
        self.by_host.is_some()
    }

    /// The memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        let by_host = self.by_host.as_ref();
        self.all.bytes() + by_host.map_or(0, |hosts| hosts.bytes())
    }

    /// The same for another rank.
    pub(crate) fn see_as(&mut self, rank: u32) {
        self.all.place = rank;
        if let Some(hosts) = &mut self.by_host {
            Arc::make_mut(hosts).see_as(rank);
        }
    }
}

impl Team {
    /// See [`Context::check`], for a call of a communicator of these ranks.
    #[cold]
    pub(crate) fn check(&self, operation: &'static str, awaited: Awaited<'_>) -> Verdict<'_> {
        let place = || format!("on a communicator of {} ranks", self.size());
        self.context.check(operation, awaited, &place)
    }

    pub(crate) fn new(
        context: &Arc<Context>,
        fabric: Arc<Fabric>,
        group: Group,
        rank: u32,
    ) -> Self {
        Self {
            rings: Arc::new(Rings::new(context.hosts(), &group, rank)),
            context: context.clone(),
            fabric,
            group,
            rank,
        }
    }

    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.group.size()
    }

    /// `rank` as a rank of the world; `rank` is in the team.
    pub(crate) fn world_rank(&self, rank: u32) -> WorldRank {
        let of_the_world = self.group.in_world(rank);
        of_the_world.expect("the caller's rank is in the team")
    }

    /// A rank of the team, connected on first use.
    pub(crate) fn connect_to(&self, rank: u32) -> Result<&Peer> {
        self.context.connect_by(&self.fabric, self.world_rank(rank))
    }

    /// The error to report when an operation that needs `rank` failed.
    #[cold]
    pub(crate) fn blame(&self, operation: &'static str, rank: u32, error: Error) -> Error {
        let error = self.context.blame(self.world_rank(rank), error);
        error.during(operation)
    }

    pub(crate) fn check_rank(&self, operation: &'static str, rank: u32) -> Result<()> {
        let size = self.size();
        if rank < size {
            return Ok(());
        }
        Err(Error::new(operation, Misuse::RankOutOfRange { rank, size }))
    }

    /// The word at the offset `at` of `rank`'s block; `blocks` are the offsets of the blocks.
    pub(crate) fn word(&self, rank: u32, blocks: &Column<u64>, at: u64) -> Result<RemoteWord> {
        let (memory, block) = self.connect_to(rank)?.block(blocks.get(rank))?;
        Ok(memory.word(block + at))
    }
}
