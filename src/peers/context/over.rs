//! Starting: what all ranks tell each other before they can reach each other.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use rdma_sys_shim::{Device, JobSecret, JobSpan, Joining, set_ranks_per_processor};
use transom_launch::pmi::PmiError;
use transom_launch::survivors::SurvivorSocket;
use transom_launch::{Allgather, Bootstrap, launcher, oversubscription};

use super::{Context, Membership, ThisRank, WorldBlock, fnv_1a};
use crate::error::{Error, Misuse, Result};
use crate::peers::control_header::WORLD;
use crate::peers::gather::{bootstrap_error, gather_any_by, gather_by};
use crate::peers::peer::{refusal, refused};
use crate::peers::start::{
    Whereabouts, host_identity, job_secret, joining, machine_identity, named_device,
    network_identity, open, position, shared_out, spec, warn_of_retired_variables,
};
use crate::peers::{Fabric, Hosts, fork, join_parts, split_parts};
use crate::terms::ThreadLevel;
use crate::wait::Patience;

const OPERATION: &str = "job start";

/// The first message of each rank; it shows ranks that do not belong to the job.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Hello {
    magic: [u8; 8],
    /// A digest of [`host_identity`].
    host: u64,
    /// Equal for all ranks that may share processors, even in containers that do not see each other.
    machine: u64,
    /// As [`network_identity`] says.
    network: u64,
    size: u32,
    /// The digest of [`shared_out`].
    devices: u32,
    /// The value of [`joining`].
    joining: u32,
    /// The last field, since the others are equal on ranks of one host.
    rank: u32,
}

/// The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"transom\x06";

/// The rank and the size that the allgather names; it is not asked again. No other rank has been told of this one yet.
///
/// # Errors
/// There is no such rank.
pub(crate) fn check_rank(by: &dyn Allgather) -> Result<(u32, u32)> {
    let (rank, size) = (by.rank(), by.size());
    match rank < size {
        true => Ok((rank, size)),
        false => Err(Error::new(OPERATION, Misuse::RankOutOfRange { rank, size })),
    }
}

impl Context {
    /// Collective. Joins the job of which this process is a rank. Fails on all ranks if one cannot start.
    ///
    /// # Errors
    /// The first rank could not start; or the bootstrap itself failed.
    pub(crate) fn join(
        by: Box<dyn Bootstrap>,
        level: ThreadLevel,
        named: Result<Option<Arc<dyn Device>>>,
        world_block: WorldBlock,
    ) -> Result<Arc<Self>> {
        let ranks = check_rank(&*by)?;
        let failed = |error| Error::new(OPERATION, bootstrap_error(error));
        let place = match by.is_one_host().map_err(failed)? {
            true => Ok(String::new()),
            false => host_identity(ranks.0),
        };
        let start = Start {
            by: &*by,
            bootstrap: Some(&*by),
            ranks,
            place,
            level,
            secret: job_secret(),
            named,
            world_block,
        };
        let context = start.run(None)?;
        if by.has_launcher() {
            context.set_launcher(by.into());
        }
        Ok(context)
    }

    /// Collective. As [`Context::join`], if an allgather of the caller connects the ranks.
    pub(crate) fn over(
        by: &dyn Allgather,
        ranks: (u32, u32),
        level: ThreadLevel,
        named: Result<Option<Arc<dyn Device>>>,
        world_block: WorldBlock,
    ) -> Result<Arc<Self>> {
        let start = Start {
            by,
            bootstrap: None,
            ranks,
            place: host_identity(ranks.0),
            level,
            secret: JobSecret::default(),
            named,
            world_block,
        };
        start.run(None)
    }

    /// Collective over the ranks that go on after a death, which `by` connects: their job. `membership`: as they are
    /// numbered when the next of them dies.
    pub(crate) fn after(
        before: &Self,
        by: &dyn Allgather,
        membership: Membership,
        world_block: WorldBlock,
    ) -> Result<Arc<Self>> {
        let ranks = check_rank(by)?;
        let start = Start {
            by,
            bootstrap: None,
            ranks,
            place: host_identity(ranks.0),
            level: before.this_rank.level,
            secret: job_secret(),
            named: named_device(job_secret()),
            world_block,
        };
        start.run(Some(membership))
    }
}

/// What a job starts with.
struct Start<'a> {
    by: &'a dyn Allgather,
    /// The same as `by`, if that is a bootstrap.
    bootstrap: Option<&'a dyn Bootstrap>,
    /// This rank's number, and how many there are.
    ranks: (u32, u32),
    /// The name of this rank's host; equal on all ranks of the host.
    place: Result<String>,
    level: ThreadLevel,
    secret: JobSecret,
    named: Result<Option<Arc<dyn Device>>>,
    world_block: WorldBlock,
}

impl Start<'_> {
    /// Collective. `membership`: for ranks that go on after a death.
    fn run(self, membership: Option<Membership>) -> Result<Arc<Context>> {
        let Self {
            by,
            bootstrap,
            ranks: (rank, size),
            place,
            level,
            secret,
            named,
            world_block,
        } = self;
        fork::watch();
        warn_of_retired_variables(rank);
        let all = hosts(by, (rank, size), place.as_deref().unwrap_or_default())?;
        let own = all[rank as usize];
        let choice = |one: &Hello| (one.host, one.devices);
        let here = |other: &u32| all[*other as usize].host == own.host;
        let whereabouts = Whereabouts {
            span: match (0..size).all(|other| here(&other)) {
                true => JobSpan::OneHost,
                false => JobSpan::SeveralHosts,
            },
            position: position(all[..rank as usize].iter().map(choice), &choice(&own)),
            joining: Joining(
                all.iter()
                    .fold(u32::MAX, |common, one| common & one.joining),
            ),
            secret,
        };
        // A rank that cannot start continues until the others know why.
        let is_local = whereabouts.span == JobSpan::OneHost
            && all.iter().all(|one| one.network == own.network);
        let ready = place.and(named).and_then(|named| {
            let device = match named {
                Some(device) => device,
                None => open(&spec(), whereabouts)?,
            };
            let hosts = Hosts::of_job(device.nearest(), all.iter().map(|one| one.host));
            let world_block = world_block(size, &hosts);
            let fabric = Fabric::new(device, WORLD + world_block, rank, size)?;
            Ok((fabric, hosts, world_block))
        });
        let record = match &ready {
            Ok((fabric, ..)) => fabric.own_record().to_owned(),
            Err(error) => refusal(error),
        };
        let failed = |error| Error::new(OPERATION, bootstrap_error(error));
        // All ranks need a refusal; only ranks that connect need a record.
        let keeps = |bootstrap: &dyn Bootstrap| match &ready {
            Ok(_) => bootstrap.publish(&record),
            Err(_) => Ok(false),
        };
        let is_kept = bootstrap.map_or(Ok(false), keeps).map_err(failed)?;
        let said = if is_kept { "" } else { &record };
        let socket = bootstrap.and_then(|_| survivor_socket(rank, is_local));
        let mine = join_parts(&[
            said.as_bytes(),
            launcher::processors().unwrap_or_default().as_bytes(),
            &socket
                .as_ref()
                .map(|socket| socket.address())
                .unwrap_or_default(),
        ]);
        let told = gather_any_by(OPERATION, by, (rank, size), &mine)?;
        let (fabric, hosts, world_block) = ready?;
        let (mut processors, mut addresses) = (Vec::new(), Vec::new());
        for (other, bytes) in (0..).zip(&told) {
            let parts = split_parts(bytes).and_then(|[record, allowed, address]| {
                let text = |bytes| String::from_utf8(<[u8]>::to_vec(bytes)).ok();
                Some((text(record)?, text(allowed)?, address))
            });
            let Some((record, allowed, address)) = parts else {
                return Err(PmiError::BadBootstrapRecord { rank: other }.into());
            };
            if socket.is_some() {
                addresses.push(address);
            }
            // It may be the reason why the rank could not start.
            if let Some(failed) = refused(other, &record) {
                return Err(Error::new(OPERATION, failed));
            }
            if !is_kept {
                fabric.introduce(other, record);
            }
            if all[other as usize].machine == own.machine {
                processors.push(allowed);
            }
        }
        if let Some(bootstrap) = bootstrap.filter(|_| is_kept) {
            // The job's identity is a digest of this record.
            fabric.introduce(0, bootstrap.published(0).map_err(failed)?);
        }
        let processors: Vec<&str> = processors.iter().map(String::as_str).collect();
        let ranks_per_processor = oversubscription::ranks_per_processor(&processors);
        set_ranks_per_processor(ranks_per_processor);
        let this_rank = ThisRank {
            rank,
            size,
            world_block,
            hosts,
            level,
            patience: Patience::new(ranks_per_processor),
        };
        let first = socket.map(|socket| {
            socket.introduce(&addresses, secret);
            Membership::first(socket, size)
        });
        let notices = bootstrap.and_then(Bootstrap::notices);
        let membership = first.or(membership);
        Ok(Arc::new(Context::new(
            this_rank, fabric, notices, membership,
        )))
    }
}

/// Without it, the job can start, but this rank cannot go on after a death.
fn survivor_socket(rank: u32, is_local: bool) -> Option<SurvivorSocket> {
    let opened = SurvivorSocket::open(rank, is_local);
    opened
        .inspect_err(|error| tracing::info!(%error, "this rank cannot go on after a death"))
        .ok()
}

/// Collective. The host of each rank, and the devices among which it can choose.
fn hosts(by: &dyn Allgather, (rank, size): (u32, u32), mine: &str) -> Result<Vec<Hello>> {
    let hello = Hello {
        magic: MAGIC,
        size,
        host: fnv_1a(mine.as_bytes()),
        machine: machine_identity(),
        network: network_identity(),
        devices: shared_out(),
        joining: match mine {
            // All ranks share this host.
            "" => u32::MAX,
            _ => joining().0,
        },
        rank,
    };
    let all = gather_by(OPERATION, by, (rank, size), bytemuck::bytes_of(&hello))?;
    let host = |(place, bytes): (u32, &Vec<u8>)| {
        let theirs: Hello = bytemuck::pod_read_unaligned(bytes);
        if theirs.magic != MAGIC {
            return Err(PmiError::BadBootstrapRecord { rank: place }.into());
        }
        if (theirs.rank, theirs.size) != (place, size) {
            let misuse = Misuse::Mismatch {
                rank: place,
                ours: format!("rank {place} of {size}"),
                theirs: format!("rank {} of {}", theirs.rank, theirs.size),
            };
            return Err(Error::new(OPERATION, misuse));
        }
        Ok(theirs)
    };
    (0..).zip(&all).map(host).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use rdma_sys_shim::Surroundings;
    use transom_launch::AllgatherError;

    use super::*;
    use crate::comm::{Communicator, world_block_bytes};
    use crate::devices::REGISTRY;
    use crate::error::{ErrorClass, ErrorKind, PeerError};
    use crate::raw::{Assert, Window};
    use crate::window::Info;

    /// A rank that is a thread: all write to the table, and all read it.
    struct Table<'a> {
        rank: u32,
        /// What it says of itself.
        claims: (u32, u32),
        blocks: &'a Mutex<Vec<Vec<u8>>>,
        met: &'a Barrier,
    }

    // SAFETY: each rank's block is in its own place, and nobody writes the next one before all have read. Claims that
    // differ end the start.
    unsafe impl Allgather for Table<'_> {
        fn rank(&self) -> u32 {
            self.claims.0
        }

        fn size(&self) -> u32 {
            self.claims.1
        }

        fn allgather(&self, mine: &[u8]) -> std::result::Result<Vec<Vec<u8>>, AllgatherError> {
            self.blocks.lock().unwrap()[self.rank as usize] = mine.to_vec();
            self.met.wait();
            let all = self.blocks.lock().unwrap().clone();
            self.met.wait();
            Ok(all)
        }
    }

    /// What comes of it where each rank makes these claims and has this device.
    fn started<T: Send>(
        claims: &[(u32, u32)],
        device: impl Fn(u32) -> Result<Option<Arc<dyn Device>>> + Sync,
        then: impl Fn(Arc<Context>) -> T + Sync,
    ) -> Vec<Result<T>> {
        let blocks = Mutex::new(vec![Vec::new(); claims.len()]);
        let met = Barrier::new(claims.len());
        let start = |rank: u32| {
            let table = Table {
                rank,
                claims: claims[rank as usize],
                blocks: &blocks,
                met: &met,
            };
            let level = ThreadLevel::Multiple;
            let context =
                Context::over(&table, table.claims, level, device(rank), world_block_bytes)?;
            Ok(then(context))
        };
        thread::scope(|scope| {
            let start = &start;
            let ranks = (0..claims.len() as u32).map(|rank| scope.spawn(move || start(rank)));
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    fn soft(_: u32) -> Result<Option<Arc<dyn Device>>> {
        Ok(Some(REGISTRY.open("soft", &Surroundings::default())?))
    }

    #[test]
    fn ranks_that_an_allgather_joined_make_windows() {
        let all = started(&[(0, 3), (1, 3), (2, 3)], soft, |context| {
            let world = Communicator::world(&context);
            let window = Window::allocate(&world, 8, 8, &Info::new()).unwrap();
            window.fence(Assert::NONE).unwrap();
            window.fence(Assert::NO_SUCCEED).unwrap();
            window.free().unwrap();
            drop(world);
            context.leave().unwrap();
            context.rank().0
        });
        let ranks: Vec<u32> = all.into_iter().map(Result::unwrap).collect();
        assert_eq!(ranks, [0, 1, 2]);
    }

    #[test]
    fn ranks_that_disagree_about_who_they_are_find_out() {
        let all = started(&[(0, 2), (0, 2)], soft, |_| ());
        for error in all.into_iter().map(Result::unwrap_err) {
            // Rank 1 finds what it passed in another's place, or the other's claim in its own.
            assert_eq!(error.class(), ErrorClass::Arg, "{error}");
        }
    }

    #[test]
    fn all_hear_of_one_that_cannot_start() {
        let device = |rank| match rank {
            1 => Ok(Some(REGISTRY.open("nonsense", &Surroundings::default())?)),
            _ => soft(rank),
        };
        let all = started(&[(0, 3), (1, 3), (2, 3)], device, |_| ());
        for (rank, error) in all.into_iter().map(Result::unwrap_err).enumerate() {
            assert!(error.to_string().contains("nonsense"), "{error}");
            let told = matches!(
                error.kind(),
                ErrorKind::Peer(PeerError::Failed { rank: 1, .. })
            );
            assert_eq!(told, rank != 1, "{error}");
        }
    }

    #[test]
    fn a_rank_beyond_the_size_is_refused_before_others_hear() {
        for claims in [(2, 2), (0, 0)] {
            let (blocks, met) = (Mutex::default(), Barrier::new(1));
            let table = Table {
                rank: 0,
                claims,
                blocks: &blocks,
                met: &met,
            };
            let error = check_rank(&table).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Rank);
        }
    }
}
