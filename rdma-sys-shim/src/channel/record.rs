//! What a process publishes, so that its peers find it.

use super::place::NetworkPlace;
use crate::fields::Fields;
use crate::proof::{Magic, Secret};
use crate::provider::JobSecret;
use crate::{Error, Result};

/// The limit of the host's name, so that the record fits into what a bootstrap carries.
pub(crate) const LONGEST_HOST: usize = 48;

/// What a process that connects begins with. Then it says whom it means and who it is, each by its instance.
pub(crate) const MAGIC: Magic = *b"transom channel\x02";

/// Bytes of a key.
pub(crate) const KEY: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    pub(crate) host: String,
    /// Random, and so different for each device that was ever opened.
    pub(crate) instance: u64,
    pub(crate) key: Secret,
    /// The secret of this process's job. The record does not contain it; zeros in a peer's.
    pub(crate) secret: JobSecret,
    pub(crate) port: u16,
    pub(crate) place: NetworkPlace,
}

impl Record {
    /// `mark` identifies the provider: addresses of other devices begin differently.
    pub(crate) fn encode(&self, mark: [u8; 4]) -> Vec<u8> {
        let mut bytes = mark.to_vec();
        bytes.extend(self.pid.to_le_bytes());
        bytes.extend(self.instance.to_le_bytes());
        bytes.extend(&self.key.0);
        bytes.extend(self.port.to_le_bytes());
        bytes.push(self.host.len() as u8);
        bytes.extend(self.host.as_bytes());
        bytes.extend(self.place.encode());
        bytes
    }

    /// Decodes the record, and by `more` all of the bytes behind it.
    pub(crate) fn decode<T>(
        mark: [u8; 4],
        device: &'static str,
        bytes: &[u8],
        more: impl FnOnce(&mut Fields<'_>) -> Option<T>,
    ) -> Result<(Self, T)> {
        let read = |mut fields: Fields<'_>| {
            let is_marked = fields.array()? == mark;
            let record = is_marked.then(|| Self::read(&mut fields))??;
            let more = more(&mut fields)?;
            fields.0.is_empty().then_some((record, more))
        };
        read(Fields(bytes)).ok_or(Error::BadAddress {
            device,
            reason: "it was published by another device or another version of transom; give all ranks the same \
                     TRANSOM_DEVICE, and the same TRANSOM_RDMA_ATOMICS",
        })
    }

    /// What processes of the job of this secret, which connect to the process of this record, prove to know. An
    /// eavesdropper may learn the record.
    pub(super) fn proven(&self, secret: JobSecret) -> Secret {
        Secret::new(Secret::new(secret.0).tag("connection", &[&self.key.0]))
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let pid = fields.u32()?;
        let instance = fields.u64()?;
        let key = Secret::new(fields.array::<KEY>()?);
        let port = u16::from_le_bytes(fields.array()?);
        let host = fields.text()?.to_owned();
        let place = NetworkPlace::read(fields)?;
        Some(Self {
            pid,
            host,
            instance,
            key,
            secret: JobSecret::default(),
            port,
            place,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::interfaces::Network;
    use super::super::place::Namespace;
    use super::*;

    pub(crate) fn record() -> Record {
        let network = |address: &str, prefix| Network {
            address: address.parse().unwrap(),
            prefix,
        };
        Record {
            pid: 7,
            host: "n".repeat(LONGEST_HOST),
            instance: 11,
            key: Secret::new([3; KEY]),
            secret: JobSecret::default(),
            port: 4711,
            place: NetworkPlace {
                namespace: Namespace {
                    boot: [5; 16],
                    inode: 13,
                },
                networks: vec![
                    network("192.0.2.1", 24),
                    network("2001:db8::1", 64),
                    network("10.0.0.1", 8),
                    network("10.1.0.1", 32),
                    network("2001:db8:1::1", 128),
                    network("2001:db8:2::1", 0),
                ],
            },
        }
    }

    #[test]
    fn a_record_survives_the_journey_and_nothing_else_is_one() {
        const MARK: [u8; 4] = *b"test";
        let decode = |bytes: &[u8]| Record::decode(MARK, "test", bytes, |_| Some(()));
        let record = record();
        let bytes = record.encode(MARK);
        assert_eq!(decode(&bytes).unwrap().0, record);
        // Neighbours put theirs before it.
        assert!(bytes.len() <= 384 - 100, "{}", bytes.len());
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        let mut wrong = bytes.clone();
        *wrong.last_mut().unwrap() = 129;
        assert!(decode(&wrong).is_err());
        let mut wrong = bytes;
        wrong[3] ^= 1;
        let message = decode(&wrong).unwrap_err().to_string();
        assert!(message.contains("TRANSOM_DEVICE"), "{message}");
    }
}
