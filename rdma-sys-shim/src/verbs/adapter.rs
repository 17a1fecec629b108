//! One port of an open device, with what all connections over it share.

use std::path::Path;
use std::sync::Arc;

use ibverbs_sys::ibv_access_flags as Access;

use super::events::{self, Fault, Trouble};
use super::memory::{Pinned, Regions};
use super::objects::{Context, PortAttributes, ProtectionDomain, Qos};
use super::port::{Families, OwnGid, OwnPort, Transport};
use super::rings::Rings;
use super::settings::Settings;
use crate::Result;
use crate::rdma::{self, Choice, Gid};

/// The length of the result of an atomic or a trailing read.
const WORD: usize = 8;

pub(super) struct Adapter {
    pub(super) context: Arc<Context>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) port: PortAttributes,
    pub(super) own: OwnPort,
    pub(super) regions: Arc<Regions>,
    pub(super) rings: Arc<Rings>,
    pub(super) settings: Settings,
    pub(super) trouble: Arc<Trouble>,
    /// Whether a fence orders a request after earlier reads. soft-RoCE of Linux 6.1 loses some fenced requests: those
    /// that it has to send again, which then wait for themselves, and those that begin to wait just as the read is
    /// answered.
    pub(super) has_fences: bool,
    /// The destination of results that nobody reads, and the source of peers' trailing reads.
    pub(super) nowhere: Pinned,
    /// Whether other ranks of this host may use another adapter.
    pub(super) is_one_of_several: bool,
    /// The longest data in bytes that is copied rather than registered in place.
    pub(super) copied: usize,
    /// The most bytes of data that the device carries inside a request; 0 until that has been tried.
    pub(super) inline: u32,
}

impl Adapter {
    pub(super) fn open(choice: &Choice, settings: Settings) -> Result<Self> {
        let context = Context::open(&choice.device)?;
        let settings = settings.within(context.attributes())?;
        let port = context.port(choice.port)?;
        let read = |index| -> Result<_> {
            let gid = context.gid(port.number, index)?;
            Ok(OwnGid {
                index,
                gid: Gid::from(gid),
            })
        };
        // On InfiniBand, the first GID always exists, whether shown or not.
        let first = read(choice.gid_index().unwrap_or(0))?;
        // It may have gone since it was chosen. The first GID is enough for most peers.
        let second = choice.second_gid.as_ref();
        let second = second.and_then(|entry| read(entry.index).ok());
        let second = second.filter(|second| !second.gid.is_unspecified());
        let mut gids = Families::NONE;
        for own in second.into_iter().chain([first]) {
            gids.insert(own.gid, own);
        }
        let transport = Transport::of(choice);
        let traffic_class = settings.traffic_class.unwrap_or_else(|| {
            let folder = Path::new(rdma::CONNECTION_MANAGER);
            transport.traffic_class(rdma::traffic_class(folder, &choice.device, port.number))
        });
        let own = OwnPort {
            number: port.number,
            transport,
            gids,
            lid: port.lid,
            needs_gid: port.needs_gid,
            partition: match settings.partition {
                Some(key) => context.partition(port.number, key)?,
                None => context.first_partition(port.number),
            },
            qos: Qos {
                traffic_class,
                ..settings.qos
            },
        };
        let domain = ProtectionDomain::new(&context)?;
        let access = Access::IBV_ACCESS_LOCAL_WRITE | Access::IBV_ACCESS_REMOTE_READ;
        Ok(Self {
            nowhere: Pinned::new(&domain, WORD, access)?,
            is_one_of_several: choice.is_one_of_several,
            regions: Regions::new(&domain, context.has_atomics()),
            domain,
            port,
            own,
            rings: Arc::default(),
            copied: settings.copied(choice.emulated),
            settings,
            trouble: Arc::default(),
            has_fences: !choice.emulated,
            inline: 0,
            context,
        })
    }

    /// What is wrong with this process's own queue pair or port, if anything. It checks the device's reports and the
    /// present state, since requests may fail before the report.
    #[cold]
    pub(super) fn find_trouble(&self, pair: u32) -> Option<Fault> {
        if let Some(reported) = self.trouble.of(pair) {
            return Some(reported);
        }
        let found = match self.context.port(self.port.number) {
            Ok(port) if port.active => return None,
            Ok(port) => events::port_is_down(port.number, self.context.name()),
            Err(_) => events::device_is_gone(self.context.name()),
        };
        Some(Fault::Port(found.into()))
    }

    /// The limits of reads and atomics under way on one connection: from here, and to here.
    pub(super) fn max_reads(&self) -> (u8, u8) {
        let limits = self.context.attributes();
        let byte = |limit: i32| limit.clamp(1, 128) as u8;
        (
            byte(limits.max_qp_init_rd_atom),
            byte(limits.max_qp_rd_atom),
        )
    }
}
