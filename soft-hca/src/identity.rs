//! The addresses of an adapter.

use crate::abi::ibv_gid;
use crate::personality::Link;

/// One adapter of the fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Its number among those of all hosts.
    pub(crate) number: usize,
    link: Link,
}

impl Identity {
    pub(crate) fn new(number: usize, link: Link) -> Self {
        Self { number, link }
    }

    pub(crate) fn guid(self) -> u64 {
        0x0200_00ff_fe00_0001 + self.number as u64
    }

    /// Zero on Ethernet.
    pub(crate) fn lid(self) -> u16 {
        match self.link {
            Link::InfiniBand => 16 + self.number as u16,
            Link::Ethernet => 0,
        }
    }

    pub(crate) fn subnet_manager(self) -> u16 {
        u16::from(self.link == Link::InfiniBand)
    }

    /// On Ethernet, an IPv4 address of a network for benchmarks (RFC 2544).
    pub(crate) fn gid(self) -> ibv_gid {
        let mut gid = [0; 16];
        match self.link {
            Link::InfiniBand => {
                gid[..2].copy_from_slice(&[0xfe, 0x80]);
                gid[8..].copy_from_slice(&self.guid().to_be_bytes());
            }
            Link::Ethernet => {
                gid[10..].copy_from_slice(&[0xff, 0xff, 198, 18, 0, 1 + self.number as u8]);
            }
        }
        ibv_gid(gid)
    }
}
