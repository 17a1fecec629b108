//! What a process publishes that may have neighbours.

use super::setting::{Setting, VARIABLE};
use crate::fields::Fields;
use crate::{Error, Result};

/// Addresses of other devices begin differently.
const MAGIC: [u8; 3] = *b"tNA";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NeighbourAddress {
    pub(super) setting: Setting,
    /// Where neighbours find its memory; empty if they cannot.
    pub(super) memory: Vec<u8>,
    /// Its address on the device.
    pub(super) device: Vec<u8>,
}

impl NeighbourAddress {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(self.setting as u8);
        bytes.push(u8::try_from(self.memory.len()).expect("addresses of soft are short"));
        bytes.extend(&self.memory);
        bytes.extend(&self.device);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(Fields(bytes)).ok_or(Error::BadAddress {
            device: "tcp or verbs",
            reason: "it was published by another device; give all ranks the same TRANSOM_DEVICE",
        })
    }

    fn read(mut fields: Fields<'_>) -> Option<Self> {
        if fields.array()? != MAGIC {
            return None;
        }
        let [setting, len] = fields.array()?;
        let (memory, device) = fields.0.split_at_checked(len.into())?;
        Some(Self {
            setting: Setting::of_byte(setting)?,
            memory: memory.to_vec(),
            device: device.to_vec(),
        })
    }

    pub(super) fn must_agree_with(&self, ours: Setting) -> Result<()> {
        match self.setting == ours {
            true => Ok(()),
            false => Err(Error::Disagreement {
                name: VARIABLE,
                theirs: self.setting.to_string(),
                ours: ours.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> NeighbourAddress {
        NeighbourAddress {
            setting: Setting::On,
            memory: vec![1, 2, 3],
            device: vec![4, 5],
        }
    }

    #[test]
    fn an_address_survives_the_journey() {
        let without = NeighbourAddress {
            setting: Setting::Off,
            memory: Vec::new(),
            ..address()
        };
        for address in [address(), without] {
            assert_eq!(
                NeighbourAddress::decode(&address.encode()).unwrap(),
                address
            );
        }
        let bytes = address().encode();
        for cut in 0..bytes.len() - 2 {
            assert!(NeighbourAddress::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut bad = bytes.clone();
        bad[3] = 0;
        assert!(NeighbourAddress::decode(&bad).is_err());
        let message = NeighbourAddress::decode(b"soft").unwrap_err().to_string();
        assert!(message.contains("TRANSOM_DEVICE"), "{message}");
    }

    #[test]
    fn ranks_that_were_told_different_things_are_told_both() {
        assert!(address().must_agree_with(Setting::On).is_ok());
        let message = address()
            .must_agree_with(Setting::Off)
            .unwrap_err()
            .to_string();
        assert!(message.contains("TRANSOM_NEIGHBOURS"), "{message}");
        assert!(
            message.contains("off here") && message.contains("on there"),
            "{message}"
        );
    }
}
