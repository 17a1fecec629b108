//! Memory that another device uses, and that processes of this host map.

use super::address::Address;
use super::endpoint::SoftEndpoint;
use super::{Options, SoftDevice};
use crate::{Device, Endpoint as _, Liveness, Mapping, Region, RemoteRegion, Result};

/// What this process lends to the device, and shows to its neighbours.
pub(crate) struct NeighbourMemory(SoftDevice);

impl NeighbourMemory {
    /// `launcher`: as for [`SoftDevice::open`].
    pub(crate) fn open(launcher: Option<u32>) -> Result<Self> {
        // What cannot be mapped is the other device's to reach.
        let options = Options {
            cross_memory: false,
            map: true,
            assist: false,
        };
        Ok(Self(SoftDevice::open(options, launcher)?))
    }

    /// What a neighbour needs to find it.
    pub(crate) fn address(&self) -> Vec<u8> {
        self.0.address()
    }

    /// As [`Device::allocate`].
    pub(crate) fn allocate(&self, len: usize, align: usize) -> Result<Region> {
        self.0.allocate(len, align)
    }

    /// As [`Device::close`].
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// The process that published `address`; none if it is on another host.
    ///
    /// # Errors
    /// It is on this one, and cannot be reached: in another container, or of another user.
    pub(crate) fn neighbour(&self, address: &[u8]) -> Result<Option<Neighbour>> {
        let own = &self.0.own.address;
        let peer = Address::decode(address)?;
        if !own.is_of_host(&peer) {
            return Ok(None);
        }
        Ok(Some(Neighbour {
            endpoint: self.0.endpoint_of(&peer)?,
            pids: [own, &peer].map(|address| address.segment.process.pid),
        }))
    }
}

/// A process of this host, or this one.
pub(crate) struct Neighbour {
    endpoint: SoftEndpoint,
    pids: [u32; 2],
}

impl Neighbour {
    /// This process, and that one.
    pub(crate) fn pids(&self) -> [u32; 2] {
        self.pids
    }

    /// As [`Endpoint::liveness`](crate::Endpoint::liveness).
    pub(crate) fn liveness(&self) -> Liveness {
        self.endpoint.liveness()
    }

    /// Maps a region that the process allocated for the other device, which has another key for it; none if it
    /// is not of such memory.
    pub(crate) fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        self.endpoint.map_by_place(region)
    }
}
