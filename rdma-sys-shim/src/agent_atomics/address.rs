//! What a process publishes whose atomics are an agent's.

use crate::fields::Fields;
use crate::{Error, RemoteAddress, Result};

/// Addresses of other devices begin differently. The last byte is the version of the protocol.
const MARK: [u8; 4] = *b"tAA\x01";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentAtomicsAddress {
    /// The memory that peers' trailing reads read.
    pub(super) trailing: RemoteAddress,
    /// The address on the device that writes and reads, and the one on tcp.
    pub(super) data: Vec<u8>,
    pub(super) atomics: Vec<u8>,
}

impl AgentAtomicsAddress {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.extend(self.trailing.address.to_le_bytes());
        bytes.extend(self.trailing.rkey.to_le_bytes());
        bytes.extend((self.data.len() as u16).to_le_bytes());
        bytes.extend(&self.data);
        bytes.extend(&self.atomics);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(Fields(bytes)).ok_or(Error::BadAddress {
            device: "verbs",
            reason: "it was published by a device whose atomics are its own, or by another version of transom; give all ranks \
                     the same TRANSOM_DEVICE and TRANSOM_RDMA_ATOMICS",
        })
    }

    fn read(mut fields: Fields<'_>) -> Option<Self> {
        if fields.array()? != MARK {
            return None;
        }
        let trailing = RemoteAddress {
            address: fields.u64()?,
            rkey: fields.u64()?,
        };
        let len = u16::from_le_bytes(fields.array()?);
        let (data, atomics) = fields.0.split_at_checked(len.into())?;
        Some(Self {
            trailing,
            data: data.to_vec(),
            atomics: atomics.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_journey_and_another_is_refused() {
        let address = AgentAtomicsAddress {
            trailing: RemoteAddress {
                address: 1 << 40,
                rkey: u64::MAX,
            },
            data: vec![7; 300],
            atomics: vec![8, 9],
        };
        let bytes = address.encode();
        assert_eq!(AgentAtomicsAddress::decode(&bytes).unwrap(), address);
        for cut in 0..bytes.len() - 2 {
            assert!(AgentAtomicsAddress::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        let message = AgentAtomicsAddress::decode(b"tVA\x03")
            .unwrap_err()
            .to_string();
        assert!(message.contains("TRANSOM_RDMA_ATOMICS"), "{message}");
    }
}
