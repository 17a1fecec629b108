//! Communicators that are made from others.

use std::mem;
use std::sync::Arc;

use transom_launch::pmi::PmiError;

use super::two_steps::block_bytes;
use super::{Communicator, Group, Team};
use crate::error::{Error, Result};
use crate::memory::columns::Column;
use crate::memory::control::may_be_block;
use crate::peers::{Fabric, host_identity, join_parts, refusal, split_parts};
use crate::terms::WorldRank;

impl Communicator {
    /// Collective. A communicator of the same ranks with a context of its own (MPI-4.1, section
    /// 7.4.2, `MPI_Comm_dup`).
    ///
    /// # Errors
    /// A rank is out of control memory, died or left.
    pub fn dup(&self) -> Result<Self> {
        let team = self.team().clone();
        let every: Vec<u32> = (0..self.size()).collect();
        self.derive("dup", Ok(team), &every)
    }

    /// Collective. Splits the ranks by `color`. In each part, ranks are ordered by `key`, then by their rank here. A
    /// rank with the colour `None` is in no part (MPI-4.1, section 7.4.2, `MPI_Comm_split`).
    ///
    /// # Errors
    /// A rank is out of control memory, died or left.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Self>> {
        let mine = [
            i64::from(color.is_some()),
            i64::from(color.unwrap_or(0)),
            i64::from(key),
        ];
        let all = self.allgather_as("split", &mine)?;
        let mut members: Vec<u32> = (0..self.size())
            .filter(|&rank| rank == self.rank() || all[rank as usize * 3..][..2] == mine[..2])
            .collect();
        members.sort_by_key(|&rank| (all[rank as usize * 3 + 2], rank));
        if color.is_none() {
            // This rank takes part in the exchange only.
            self.agree_on("split", Ok(0_u64))?;
            return Ok(None);
        }
        let team = self.part(&members, self.team().fabric.clone());
        self.derive("split", Ok(team), &members).map(Some)
    }

    /// Collective. Splits the ranks into groups that can load from and store to each other's memory: those of one host
    /// in one PID namespace. In each part, ranks are ordered by `key`, then by their rank here (MPI-4.1, section 7.4.2,
    /// `MPI_Comm_split_type` with `MPI_COMM_TYPE_SHARED`).
    ///
    /// If the job's device maps no memory, like RDMA devices, the ranks of a part communicate through shared memory in
    /// this communicator, in communicators made from it, and in its windows. There
    /// [`allocate_shared`](crate::raw::Window::allocate_shared) works, and everything else is as fast as on the soft
    /// device.
    ///
    /// # Errors
    /// A rank is out of control memory or may not use the soft device, died or left.
    pub fn split_shared(&self, key: i32) -> Result<Self> {
        const OPERATION: &str = "split_shared";
        let during = |error: Error| error.during(OPERATION);
        let team = self.team();
        let WorldRank(me) = team.world_rank(team.rank);
        let (host, fabric) = match host_identity(me) {
            Ok(host) => (host, team.context.open_host_fabric()),
            // The other ranks hear of it below.
            Err(error) => (format!("{me:x}"), Err(error)),
        };
        let record = match &fabric {
            Ok(fabric) => fabric.own_record().to_owned(),
            Err(error) => refusal(error),
        };
        let mine = Introduction { host, key, record };
        let all = self.allgatherv_as(OPERATION, &mine.encode())?;
        let (mut members, mut records) = (Vec::new(), Vec::new());
        for (rank, bytes) in (0..).zip(&all) {
            let Some(other) = Introduction::decode(bytes) else {
                let WorldRank(rank) = team.world_rank(rank);
                return Err(during(PmiError::BadBootstrapRecord { rank }.into()));
            };
            if rank == team.rank || other.host == mine.host {
                members.push((other.key, rank));
                records.push((team.world_rank(rank).0, other.record));
            }
        }
        members.sort_unstable();
        let members: Vec<u32> = members.into_iter().map(|(_, rank)| rank).collect();
        let part = fabric.map(|fabric| self.part(&members, fabric));
        let made = self.derive(OPERATION, part, &members)?;
        // No rank has failed, so none of the records is an error.
        for (rank, record) in records {
            made.team().fabric.introduce(rank, record);
        }
        Ok(made)
    }

    /// The team of `members` of this communicator, as seen by this rank.
    fn part(&self, members: &[u32], fabric: Arc<Fabric>) -> Team {
        let team = self.team();
        let world: Vec<u32> = members
            .iter()
            .map(|&rank| team.world_rank(rank).0)
            .collect();
        let rank = members.iter().position(|&rank| rank == team.rank);
        let rank = rank.expect("one of them") as u32;
        Team::new(&team.context, fabric, Group::of(world), rank)
    }

    /// Collective over `self`: gives the new team its blocks, or fails on every rank if it failed on
    /// one. `members` are the team's ranks here.
    fn derive(&self, operation: &'static str, team: Result<Team>, members: &[u32]) -> Result<Self> {
        let made = team.and_then(|team| {
            let control = &team.fabric.control;
            let block = control.allocate(block_bytes(&team.rings))?;
            Ok((team, block))
        });
        let mine = made.as_ref().map(|(_, block)| block.place());
        let (team, block, offsets) = match (self.agree_on(operation, mine), made) {
            (Ok(offsets), Ok((team, block))) => (team, block, offsets),
            (_, Err(own_fault)) => return Err(own_fault.during(operation)),
            (Err(error), Ok((_, block))) => {
                if !error.is_known_everywhere() {
                    // Some ranks may believe that the communicator exists, and write here.
                    mem::forget(block);
                }
                return Err(error);
            }
        };
        if let Some(rank) = (0..)
            .zip(&offsets)
            .find_map(|(rank, &at)| (!may_be_block(at)).then_some(rank))
        {
            mem::forget(block);
            return Err(self.garbled(operation, rank, "the block of the communicator"));
        }
        let of_members: Vec<u64> = members.iter().map(|&rank| offsets[rank as usize]).collect();
        let blocks = Column::new(of_members.iter().copied());
        Ok(Self::new(team, block, blocks))
    }
}

/// What a rank sends so that the ranks of its host find it.
struct Introduction {
    host: String,
    key: i32,
    record: String,
}

impl Introduction {
    fn encode(&self) -> Vec<u8> {
        join_parts(&[
            &self.key.to_le_bytes(),
            self.host.as_bytes(),
            self.record.as_bytes(),
        ])
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let [key, host, record] = split_parts(bytes)?;
        Some(Self {
            host: str::from_utf8(host).ok()?.to_owned(),
            key: i32::from_le_bytes(key.try_into().ok()?),
            record: str::from_utf8(record).ok()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_survives_the_journey_and_a_torn_one_is_refused() {
        let mine = Introduction {
            host: "c0ffee".to_owned(),
            key: -7,
            record: "00ff".to_owned(),
        };
        let bytes = mine.encode();
        let back = Introduction::decode(&bytes).unwrap();
        assert_eq!(
            (back.host, back.key, back.record),
            (mine.host, mine.key, mine.record)
        );
        for cut in [0, 3, 7, 13] {
            assert!(Introduction::decode(&bytes[..cut]).is_none(), "{cut}");
        }
    }
}
