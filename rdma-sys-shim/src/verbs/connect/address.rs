//! What a process of the verbs provider publishes about itself: where it answers by TCP, and where its port is.

use super::DEVICE;
use crate::channel::Record;
use crate::fields::{Fields, beginning};
use crate::verbs::objects::AddressVector;
use crate::verbs::port::{OwnPort, PortAddress, Transport};
use crate::{Error, Result};

/// Addresses of other devices begin differently. The last byte is the version of the protocol.
const MARK: [u8; 4] = *b"tVA\x06";
/// The limit of the device's name, so that the address fits into what a bootstrap carries.
const LONGEST_NAME: usize = 18;

/// What [`crate::Device::address`] publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) record: Record,
    pub(crate) port: PortAddress,
    pub(crate) transport: Transport,
    /// The device's name on the peer's host, for messages.
    pub(crate) device: String,
}

impl Address {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.record.encode(MARK);
        self.port.put(&mut bytes);
        bytes.push(self.transport as u8);
        let name = beginning(&self.device, LONGEST_NAME);
        bytes.push(name.len() as u8);
        bytes.extend(name.as_bytes());
        bytes
    }

    /// # Errors
    /// Another provider or another version of this one published it, or it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let more = |fields: &mut Fields<'_>| {
            let port = PortAddress::take(fields)?;
            let [transport] = fields.array()?;
            let transport = *Transport::ALL.get(usize::from(transport))?;
            Some((port, transport, fields.text()?.to_owned()))
        };
        let (record, (port, transport, device)) = Record::decode(MARK, DEVICE, bytes, more)?;
        Ok(Self {
            record,
            port,
            transport,
            device,
        })
    }

    /// The reason why packets of this process's port cannot reach the port of `peer`, if one is known.
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
        self.port.obstacle_to(&peer.port, self.transport)
    }

    /// The way from this process's port to the port in this address.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn route_from(&self, own: &OwnPort) -> Result<AddressVector> {
        own.route_to(&self.port)
            .map_err(|reason| self.unreachable(&reason))
    }

    /// The destination of packets from this process's port, for messages.
    pub(crate) fn place_from(&self, own: &OwnPort) -> String {
        let gid = self.port.gid_for(&own.address());
        let gid = gid.map(|gid| format!(", GID {gid}")).unwrap_or_default();
        match self.port.lid {
            0 => format!("{}{gid}", self.device),
            lid => format!("{}{gid}, LID {lid}", self.device),
        }
    }

    pub(crate) fn unreachable(&self, reason: &str) -> Error {
        Error::Unreachable {
            device: DEVICE,
            pid: self.record.pid,
            reason: format!("on host {}: {reason}", self.record.host),
        }
    }

    pub(crate) fn no_answer(&self, why: String) -> Error {
        Error::NoAnswer {
            operation: super::OPERATION,
            pid: self.record.pid,
            host: self.record.host.as_str().into(),
            why: why.into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::channel::longest_record;
    use crate::rdma::Gid;

    const IPV4: Gid = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
    const IPV6: Gid = Gid::from_bits(u128::from_ne_bytes([0xfd; 16]));

    pub(crate) fn address() -> Address {
        Address {
            record: longest_record(),
            port: PortAddress::new([IPV4, IPV6], 0),
            transport: Transport::RoceV2,
            device: "rxe0".to_owned(),
        }
    }

    #[test]
    fn an_address_survives_the_journey_and_stays_small() {
        let mut address = address();
        assert_eq!(Address::decode(&address.encode()).unwrap(), address);
        address.device = "d".repeat(300);
        let bytes = address.encode();
        // Neighbours put theirs before it.
        assert!(bytes.len() <= 384 - 100, "{} bytes", bytes.len());
        let decoded = Address::decode(&bytes).unwrap();
        assert_eq!(decoded.device, "d".repeat(LONGEST_NAME));
        for cut in 0..bytes.len() {
            assert!(Address::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(Address::decode(&[bytes, vec![0]].concat()).is_err());
        let error = Address::decode(&[1, 7, 0, 0, 0]).unwrap_err().to_string();
        assert!(
            error.contains("another device") && error.contains("TRANSOM_DEVICE"),
            "{error}"
        );
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
