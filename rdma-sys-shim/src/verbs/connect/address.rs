//! What a process of the verbs provider publishes about itself: where connection requests reach
//! it, and what they have to say to be heard.

use std::fmt;

use super::DEVICE;
use super::wire::{put_text, seal, unseal};
use crate::fields::Fields;
use crate::system::{host_name, random};
use crate::verbs::objects::AddressVector;
use crate::verbs::port::{OwnPort, PortAddress, Transport};
use crate::{Error, Result};

/// No address of the soft provider begins like this.
const MAGIC: [u8; 3] = *b"tVA";
const VERSION: u8 = 2;
const NAME_BYTES: u8 = 63;

/// Queue keys with this bit set are the kernel's own.
const PRIVILEGED_QKEY: u32 = 1 << 31;

/// A process that has opened the device: drawn at random, so that whoever is given its queue pair
/// number and its GID later is not taken for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PeerId(pub(crate) u64);

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a datagram has to carry to be answered by the process that published it. It keeps out
/// those who cannot read the job's key-value space, not those who can read the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) [u8; 16]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What [`crate::Device::address`] publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) instance: PeerId,
    pub(crate) secret: Secret,
    pub(crate) port: PortAddress,
    pub(crate) transport: Transport,
    /// The unreliable-datagram queue pair that connection requests go to.
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
    pub(crate) pid: u32,
    pub(crate) host: String,
    /// The device's name on that host, for messages.
    pub(crate) device: String,
}

impl Address {
    /// The address of this process, with an instance and keys that were never used before. The
    /// queue pair's number is not known before there is one: it is zero.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn fresh(port: PortAddress, transport: Transport, device: &str) -> Result<Self> {
        Ok(Self {
            instance: PeerId(u64::from_le_bytes(random()?)),
            secret: Secret(random()?),
            port,
            transport,
            qpn: 0,
            qkey: u32::from_le_bytes(random()?) & !PRIVILEGED_QKEY,
            pid: std::process::id(),
            host: host_name(),
            device: device.to_owned(),
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(192);
        self.put(&mut bytes);
        seal(&mut bytes);
        bytes
    }

    /// Appends the fields alone, for messages, which have a seal of their own.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(MAGIC);
        bytes.push(VERSION);
        bytes.extend(self.instance.0.to_le_bytes());
        bytes.extend(self.secret.0);
        self.port.put(bytes);
        bytes.push(self.transport as u8);
        bytes.extend(self.qpn.to_le_bytes());
        bytes.extend(self.qkey.to_le_bytes());
        bytes.extend(self.pid.to_le_bytes());
        put_text(bytes, &self.host, NAME_BYTES);
        put_text(bytes, &self.device, NAME_BYTES);
    }

    /// # Errors
    /// Another provider or another version of this one published it, or it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |reason| Error::BadAddress {
            device: DEVICE,
            reason,
        };
        match bytes.split_first_chunk() {
            Some((magic, rest)) if *magic == MAGIC => {
                if rest.first().is_some_and(|&version| version != VERSION) {
                    return Err(bad("it was published by another version of transom"));
                }
            }
            _ => {
                return Err(bad(
                    "it was published by another device; give all ranks the same TRANSOM_DEVICE",
                ));
            }
        }
        let content = unseal(bytes).ok_or(bad("it is cut off or damaged"))?;
        let mut fields = Fields(content);
        Self::take(&mut fields)
            .filter(|_| fields.0.is_empty())
            .ok_or(bad("it is damaged"))
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        if fields.array()? != MAGIC || fields.u8()? != VERSION {
            return None;
        }
        Some(Self {
            instance: PeerId(fields.u64()?),
            secret: Secret(fields.array()?),
            port: PortAddress::take(fields)?,
            transport: *Transport::ALL.get(usize::from(fields.u8()?))?,
            qpn: fields.u32()?,
            qkey: fields.u32()?,
            pid: fields.u32()?,
            host: fields.text()?.to_owned(),
            device: fields.text()?.to_owned(),
        })
    }

    /// What keeps packets of this process's port from reaching the one of `peer`, if anything can
    /// be seen to.
    pub(crate) fn obstacle_to(&self, peer: &Self) -> Option<String> {
        if self.transport != peer.transport {
            return Some(format!(
                "{} is a port of {} there, {} one of {} here; choose ports of one kind with \
                 TRANSOM_DEVICE=NAME:PORT:GID",
                peer.device,
                peer.transport.name(),
                self.device,
                self.transport.name(),
            ));
        }
        self.port.obstacle_to(&peer.port)
    }

    /// The way from this process's port to the one of whoever published this.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn route_from(&self, own: &OwnPort) -> Result<AddressVector> {
        own.route_to(&self.port)
            .map_err(|reason| Error::Unreachable {
                device: DEVICE,
                pid: self.pid,
                reason,
            })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::rdma::Gid;

    const IPV4: Gid = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
    const IPV6: Gid = Gid::from_bits(u128::from_ne_bytes([0xfd; 16]));

    fn address() -> Address {
        let port = PortAddress::new([IPV4, IPV6], 0);
        Address {
            qpn: 17,
            ..Address::fresh(port, Transport::RoceV2, "rxe0").unwrap()
        }
    }

    #[test]
    fn an_address_survives_the_journey_and_stays_small() {
        let mut address = address();
        assert_eq!(Address::decode(&address.encode()).unwrap(), address);
        address.host = "h".repeat(300);
        address.device = "d".repeat(300);
        let bytes = address.encode();
        assert!(bytes.len() <= 384, "{} bytes", bytes.len());
        let decoded = Address::decode(&bytes).unwrap();
        assert_eq!(decoded.host, "h".repeat(63));
        assert_eq!(decoded.instance, address.instance);
    }

    #[test]
    fn foreign_and_torn_addresses_are_told_apart() {
        let bytes = address().encode();
        let error = |bytes: &[u8]| Address::decode(bytes).unwrap_err().to_string();
        assert!(error(&[]).contains("another device"));
        assert!(error(&[1, 7, 0, 0, 0]).contains("TRANSOM_DEVICE"));
        for cut in 3..bytes.len() {
            assert!(error(&bytes[..cut]).contains("damaged"), "{cut}");
        }
        assert!(error(&[bytes.clone(), vec![0]].concat()).contains("damaged"));
        let mut newer = bytes;
        newer[3] += 1;
        assert!(error(&newer).contains("another version"));
    }

    #[test]
    fn no_two_addresses_share_their_keys() {
        let (a, b) = (address(), address());
        assert_ne!(a.instance, b.instance);
        assert_ne!(a.secret, b.secret);
        assert_eq!((a.qkey | b.qkey) & PRIVILEGED_QKEY, 0);
    }

    #[test]
    fn what_keeps_two_ports_apart_is_named() {
        let mut ours = address();
        let mut other = address();
        assert_eq!(ours.obstacle_to(&other), None);
        other.port = PortAddress::new([IPV6], 0);
        assert_eq!(ours.obstacle_to(&other), None, "both have IPv6");
        ours.port = PortAddress::new([IPV4], 0);
        let obstacle = ours.obstacle_to(&other).unwrap();
        assert!(obstacle.contains("ours ::ffff:10.0.0.1"), "{obstacle}");
        other.transport = Transport::InfiniBand;
        let obstacle = ours.obstacle_to(&other).unwrap();
        assert!(obstacle.contains("InfiniBand there"), "{obstacle}");
    }
}
