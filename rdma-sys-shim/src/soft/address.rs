//! What a process of the soft provider publishes about itself.

use super::memory_file::FileId;
use super::peer::Nonce;
use super::process::ProcessId;
use super::segment::Published;
use super::{DEVICE, Options};
use crate::fields::Fields;
use crate::system::HostIdentity;
use crate::{Error, Result};

const VERSION: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) segment: Published,
    options: Options,
    boot: [u8; 16],
    pid_namespace: u64,
}

impl Address {
    pub(crate) fn of(segment: Published, options: Options, host: &HostIdentity) -> Self {
        Self {
            segment,
            options,
            boot: host.boot,
            pid_namespace: host.pid_namespace,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Options {
            cross_memory,
            map,
            assist,
        } = self.options;
        let options = u8::from(cross_memory) | u8::from(map) << 1 | u8::from(assist) << 2;
        let mut bytes = vec![VERSION, options];
        let Published {
            process,
            nonce,
            fd,
            file,
        } = self.segment;
        bytes.extend(process.pid.to_le_bytes());
        bytes.extend(fd.to_le_bytes());
        bytes.extend(process.start_time.to_le_bytes());
        bytes.extend(nonce.value.to_le_bytes());
        bytes.extend(nonce.address.to_le_bytes());
        bytes.extend(file.device.to_le_bytes());
        bytes.extend(file.inode.to_le_bytes());
        bytes.extend(self.pid_namespace.to_le_bytes());
        bytes.extend(self.boot);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(Fields(bytes)).ok_or(Error::BadAddress {
            device: DEVICE,
            reason: "it was published by another device or another version of transom",
        })
    }

    fn read(mut fields: Fields<'_>) -> Option<Self> {
        let [version, options] = fields.array()?;
        if version != VERSION {
            return None;
        }
        let pid = fields.u32()?;
        let fd = fields.u32()?.cast_signed();
        let start_time = fields.u64()?;
        let address = Self {
            segment: Published {
                process: ProcessId { pid, start_time },
                nonce: Nonce {
                    value: fields.u64()?,
                    address: fields.u64()?,
                },
                fd,
                file: FileId {
                    device: fields.u64()?,
                    inode: fields.u64()?,
                },
            },
            options: Options {
                cross_memory: options & 1 != 0,
                map: options & 2 != 0,
                assist: options & 4 != 0,
            },
            pid_namespace: fields.u64()?,
            boot: fields.array()?,
        };
        fields.0.is_empty().then_some(address)
    }

    /// Whether `peer` runs under the same kernel.
    pub(crate) fn is_of_host(&self, peer: &Self) -> bool {
        self.boot == peer.boot
    }

    /// The soft provider works through one kernel's /proc. Gives an error with the reason if `peer` is not visible
    /// there.
    pub(crate) fn must_share_host_with(&self, peer: &Self) -> Result<()> {
        let reason = if !self.is_of_host(peer) {
            "it runs on another host; the soft device joins the ranks of one host".to_owned()
        } else if self.pid_namespace != peer.pid_namespace {
            "it runs in another PID namespace; start containers with a shared one (docker run \
             --pid=host, or all ranks in one container)"
                .to_owned()
        } else if self.options != peer.options {
            format!(
                "it opened the device with other options ({:?} there, {:?} here); give all ranks \
                 the same TRANSOM_DEVICE",
                peer.options, self.options
            )
        } else {
            return Ok(());
        };
        Err(Error::Unreachable {
            device: DEVICE,
            pid: peer.segment.process.pid,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soft::segment::Segment;

    fn address() -> Address {
        let id = ProcessId::own().unwrap();
        let segment = Segment::create(id.pid, 7).unwrap().published(id);
        let host = HostIdentity::this().unwrap();
        Address::of(segment, Options::parse("map=off").unwrap(), &host)
    }

    #[test]
    fn an_address_survives_the_journey_and_stays_small() {
        let address = address();
        let bytes = address.encode();
        assert!(bytes.len() <= 384);
        assert_eq!(Address::decode(&bytes).unwrap(), address);
        for cut in 0..bytes.len() {
            assert!(Address::decode(&bytes[..cut]).is_err());
        }
        assert!(Address::decode(&[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn what_keeps_two_processes_apart_is_named() {
        let ours = address();
        let mut other = ours.clone();
        assert!(ours.must_share_host_with(&other).is_ok());
        other.options.map = true;
        let error = ours.must_share_host_with(&other).unwrap_err().to_string();
        assert!(error.contains("TRANSOM_DEVICE"), "{error}");
        other.pid_namespace += 1;
        let error = ours.must_share_host_with(&other).unwrap_err().to_string();
        assert!(error.contains("--pid=host"), "{error}");
        other.boot[0] ^= 1;
        let error = ours.must_share_host_with(&other).unwrap_err().to_string();
        assert!(error.contains("another host"), "{error}");
    }
}
