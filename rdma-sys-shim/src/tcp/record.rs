//! What a process of the tcp provider publishes about itself.

use std::net::{IpAddr, Ipv6Addr};

use super::DEVICE;
use super::proof::{KEY, Key};
use crate::fields::Fields;
use crate::{Error, Result};

/// No address of another device begins like this. The last byte counts versions of the protocol.
const MAGIC: [u8; 4] = *b"tTC\x01";
/// So much of the host's name is kept, and so many addresses, that the record stays within what a bootstrap carries.
pub(super) const LONGEST_HOST: usize = 48;
pub(super) const MOST_NETWORKS: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) pid: u32,
    pub(super) host: String,
    /// Random, and so another for each device that was ever opened.
    pub(super) instance: u64,
    pub(super) key: Key,
    /// The network namespace. Processes of one have the same addresses, and reach each other by any of them.
    pub(super) namespace: Namespace,
    pub(super) port: u16,
    pub(super) networks: Vec<Network>,
}

/// An address, and how many of its bits name the network that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

impl Network {
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        let differing = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        let first = differing.checked_shr(128 - u32::from(self.prefix));
        first.unwrap_or(0) == 0
    }
}

/// A network namespace of a boot of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Namespace {
    pub(super) boot: [u8; 16],
    pub(super) inode: u64,
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.pid.to_le_bytes());
        bytes.extend(self.instance.to_le_bytes());
        bytes.extend(self.key.0);
        bytes.extend(self.namespace.boot);
        bytes.extend(self.namespace.inode.to_le_bytes());
        bytes.extend(self.port.to_le_bytes());
        bytes.push(self.host.len() as u8);
        bytes.extend(self.host.as_bytes());
        bytes.push(self.networks.len() as u8);
        for network in &self.networks {
            let address = match network.address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            bytes.extend(address.octets());
            bytes.push(network.prefix);
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(Fields(bytes)).ok_or(Error::BadAddress {
            device: DEVICE,
            reason: "it was published by another device or another version of transom; give all ranks the same \
                     TRANSOM_DEVICE",
        })
    }

    fn read(mut fields: Fields<'_>) -> Option<Self> {
        if fields.array()? != MAGIC {
            return None;
        }
        let pid = fields.u32()?;
        let instance = fields.u64()?;
        let key = Key(fields.array::<KEY>()?);
        let boot = fields.array()?;
        let inode = fields.u64()?;
        let port = u16::from_le_bytes(fields.array()?);
        let [len] = fields.array()?;
        let (host, rest) = fields.0.split_at_checked(len.into())?;
        let host = str::from_utf8(host).ok()?.to_owned();
        fields = Fields(rest);
        let [count] = fields.array()?;
        let networks = (0..count).map(|_| {
            let address = Ipv6Addr::from(fields.array::<16>()?).to_canonical();
            let [prefix] = fields.array()?;
            let longest = if address.is_ipv4() { 32 } else { 128 };
            (prefix <= longest).then_some(Network { address, prefix })
        });
        let networks = networks.collect::<Option<Vec<_>>>()?;
        fields.0.is_empty().then_some(Self {
            pid,
            host,
            instance,
            key,
            namespace: Namespace { boot, inode },
            port,
            networks,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn record() -> Record {
        let network = |address: &str, prefix| Network {
            address: address.parse().unwrap(),
            prefix,
        };
        Record {
            pid: 7,
            host: "n".repeat(LONGEST_HOST),
            instance: 11,
            key: Key([3; KEY]),
            namespace: Namespace {
                boot: [5; 16],
                inode: 13,
            },
            port: 4711,
            networks: vec![
                network("192.0.2.1", 24),
                network("2001:db8::1", 64),
                network("10.0.0.1", 8),
                network("10.1.0.1", 32),
                network("2001:db8:1::1", 128),
                network("2001:db8:2::1", 0),
            ],
        }
    }

    #[test]
    fn a_record_survives_the_journey_and_nothing_else_is_one() {
        let record = record();
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes).unwrap(), record);
        // Neighbours put theirs before it.
        assert!(bytes.len() <= 384 - 100, "{}", bytes.len());
        for cut in 0..bytes.len() {
            assert!(Record::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(Record::decode(&[&bytes[..], &[0]].concat()).is_err());
        let mut wrong = bytes.clone();
        *wrong.last_mut().unwrap() = 129;
        assert!(Record::decode(&wrong).is_err());
        let mut wrong = bytes;
        wrong[3] ^= 1;
        let message = Record::decode(&wrong).unwrap_err().to_string();
        assert!(message.contains("TRANSOM_DEVICE"), "{message}");
    }
}
