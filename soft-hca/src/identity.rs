//! The addresses of an adapter.

use crate::abi::ibv_gid;
use crate::fabric::PER_HOST;
use crate::personality::{Gids, Link, Personality};

/// One adapter of the fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Its number among those of all hosts.
    pub(crate) number: usize,
    link: Link,
    gids: Gids,
}

impl Identity {
    pub(crate) fn new(number: usize, personality: &Personality) -> Self {
        Self {
            number,
            link: personality.link,
            gids: personality.gids[usize::from(number >= PER_HOST)],
        }
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

    /// The port's table of GIDs. On Ethernet, they are addresses of networks for benchmarks (RFC 2544, RFC 5180).
    pub(crate) fn gids(self) -> Vec<ibv_gid> {
        let host = 1 + self.number as u8;
        let (mut local, mut ipv4, mut ipv6) = ([0; 16], [0; 16], [0; 16]);
        local[..2].copy_from_slice(&[0xfe, 0x80]);
        local[8..].copy_from_slice(&self.guid().to_be_bytes());
        ipv4[10..].copy_from_slice(&[0xff, 0xff, 198, 18, 0, host]);
        ipv6[..4].copy_from_slice(&[0x20, 0x01, 0, 2]);
        ipv6[15] = host;
        let gids = match (self.link, self.gids) {
            (Link::InfiniBand, _) => vec![local],
            (Link::Ethernet, Gids::Ipv4) => vec![ipv4],
            (Link::Ethernet, Gids::Ipv6) => vec![ipv6],
            (Link::Ethernet, Gids::Both) => vec![ipv6, ipv4],
        };
        gids.into_iter().map(ibv_gid).collect()
    }
}
