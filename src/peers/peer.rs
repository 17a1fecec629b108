//! Another rank of the job, as this one reaches it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rdma_sys_shim::{AtomicDomain, Device, Endpoint, RemoteRegion};
use transom_launch::pmi::PmiError;

use super::control_header::SLAB_LIST;
use crate::error::{Error, ErrorClass, PeerError, Result, SystemError};
use crate::memory::control::{BlockPlace, listed_slab};
use crate::memory::remote::{RemoteMemory, RemoteWord};
use crate::wait::{Patience, lock};
use rdma_sys_shim::beginning;

/// Of a longer name, only this many bytes are published: a record has to fit into one line of PMI.
const LONGEST_NAME: usize = 32;

/// The first character of the text that a rank publishes if it could not start. It is not a digit, with which records
/// begin.
const REFUSAL: char = 'x';
/// Of the reason, only this many bytes are published.
const LONGEST_REASON: usize = 400;

/// The data that every rank publishes at start: how to connect, and where its control region is.
pub(crate) struct BootstrapRecord {
    /// The device's name, for errors.
    pub(crate) device: String,
    pub(crate) address: Vec<u8>,
    pub(crate) control: RemoteRegion,
}

impl BootstrapRecord {
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        let RemoteRegion { address, len, rkey } = self.control;
        for number in [address, len, rkey] {
            text.push_str(&format!("{number:016x}"));
        }
        let name = beginning(&self.device, LONGEST_NAME);
        push_hex(&mut text, &[name.len() as u8]);
        push_hex(&mut text, name.as_bytes());
        push_hex(&mut text, &self.address);
        text
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let number = |at: usize| u64::from_str_radix(text.get(at..at + 16)?, 16).ok();
        let control = RemoteRegion {
            address: number(0)?,
            len: number(16)?,
            rkey: number(32)?,
        };
        let bytes = from_hex(text.get(48..)?)?;
        let (&len, rest) = bytes.split_first()?;
        let (name, address) = rest.split_at_checked(len.into())?;
        Some(Self {
            device: str::from_utf8(name).ok()?.to_owned(),
            address: address.to_owned(),
            control,
        })
    }
}

/// The text that a rank publishes instead of its bootstrap record if it could not start.
pub(crate) fn refusal(error: &Error) -> String {
    let words = error.to_string();
    let words = beginning(&words, LONGEST_REASON);
    let mut text = REFUSAL.to_string();
    push_hex(&mut text, &[error.class() as u8]);
    push_hex(&mut text, words.as_bytes());
    text
}

/// Why `rank` could not start, if `text` says so.
pub(super) fn refused(rank: u32, text: &str) -> Option<PeerError> {
    let bytes = from_hex(text.strip_prefix(REFUSAL)?)?;
    let (&class, words) = bytes.split_first()?;
    Some(PeerError::Failed {
        rank,
        message: String::from_utf8_lossy(words).into_owned(),
        class: ErrorClass::from_code(class),
    })
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// A rank to which this one is connected.
pub(crate) struct Peer {
    /// The first slab of its control region.
    first: Slab,
    /// Other slabs by their numbers, once they were needed.
    slabs: Mutex<BTreeMap<u64, Slab>>,
    /// Its rank in the world.
    rank: u32,
    patience: Patience,
    pub(crate) abort: RemoteWord,
    pub(crate) state: RemoteWord,
}

/// A slab of a peer's control region.
#[derive(Clone)]
struct Slab {
    memory: Arc<RemoteMemory>,
    /// The same, for blocks of windows that use the processor's atomics on a device with its own.
    shared: Arc<RemoteMemory>,
}

impl Slab {
    fn new(memory: RemoteMemory) -> Self {
        let memory = Arc::new(memory);
        let shared = Arc::new(memory.with_atomics());
        Self { memory, shared }
    }

    /// The memory for blocks of a window with this atomic domain.
    fn memory_in(self, domain: AtomicDomain) -> Arc<RemoteMemory> {
        match domain {
            AtomicDomain::Cpu => self.shared,
            // All ranks access locks in the same way, and some of them only through the device.
            AtomicDomain::Device | AtomicDomain::Global => self.memory,
        }
    }
}

impl Peer {
    pub(super) fn connect(
        device: &dyn Device,
        rank: u32,
        record: &str,
        patience: Patience,
    ) -> Result<Self> {
        if let Some(failed) = refused(rank, record) {
            return Err(Error::new("connect", failed));
        }
        let record = BootstrapRecord::decode(record)
            .ok_or_else(|| Error::from(PmiError::BadBootstrapRecord { rank }))?;
        let endpoint = device.connect(&record.address).map_err(|source| {
            if source.absence().is_some() {
                return source.into();
            }
            Error::from(SystemError::Connect {
                rank,
                ours: device.name().to_owned(),
                theirs: record.device.clone(),
                source,
            })
            .during("connect")
        })?;
        let first = Slab::new(RemoteMemory::new(endpoint, record.control, patience)?);
        Ok(Self {
            // Other ranks may write it through the device: any cause of the end is good enough. Telling a neighbour
            // must not need a connection of the device, which may not exist yet.
            abort: first.shared.word(super::control_header::ABORT),
            state: first.memory.word(super::control_header::STATE),
            first,
            slabs: Mutex::default(),
            rank,
            patience,
        })
    }

    /// The first slab of the peer's control region.
    pub(crate) fn control(&self) -> &Arc<RemoteMemory> {
        &self.first.memory
    }

    pub(crate) fn endpoint(&self) -> &Arc<dyn Endpoint> {
        self.control().endpoint()
    }

    /// The memory that holds a block of the peer, which it named by `place`, and the block's offset. `domain`: that of
    /// the block's window.
    pub(crate) fn block_in(
        &self,
        domain: AtomicDomain,
        place: u64,
    ) -> Result<(Arc<RemoteMemory>, u64)> {
        let place = BlockPlace::from_word(place);
        let slab = match place.slab {
            0 => self.first.clone(),
            _ => self.find_slab(place)?,
        };
        Ok((slab.memory_in(domain), place.offset))
    }

    /// As [`Peer::block_in`], for a communicator.
    pub(crate) fn block(&self, place: u64) -> Result<(Arc<RemoteMemory>, u64)> {
        self.block_in(AtomicDomain::Device, place)
    }

    #[cold]
    fn find_slab(&self, place: BlockPlace) -> Result<Slab> {
        let mut slabs = lock(&self.slabs);
        if let Some(known) = slabs.get(&place.slab) {
            return Ok(known.clone());
        }
        // The peer wrote the entry before it named the block.
        let mut entry = [0_u64; 3];
        let at = SLAB_LIST + place.entry();
        (self.control()).read(at, bytemuck::bytes_of_mut(&mut entry))?;
        let region = listed_slab(entry);
        let (rank, what) = (self.rank, "the place of a block");
        let garbled = || Error::new("connect", PeerError::Garbled { rank, what });
        if place.offset >= region.len {
            return Err(garbled());
        }
        let (endpoint, patience) = (self.endpoint().clone(), self.patience);
        // The ranks have agreed, by their first slabs, whether the processor changes a window's words.
        let memory = match self.control().is_mapped() {
            true => {
                RemoteMemory::mapped_or_fail(endpoint, region, patience)?.ok_or_else(garbled)?
            }
            false => RemoteMemory::new(endpoint, region, patience)?,
        };
        let slab = Slab::new(memory);
        slabs.insert(place.slab, slab.clone());
        Ok(slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bootstrap_record_survives_the_journey_and_a_torn_one_is_refused() {
        let record = BootstrapRecord {
            device: "rxe0".to_owned(),
            address: vec![0, 255, 7],
            control: RemoteRegion {
                address: u64::MAX,
                len: 1,
                rkey: 0xdead_beef,
            },
        };
        let text = record.encode();
        let back = BootstrapRecord::decode(&text).unwrap();
        assert_eq!(
            (back.address, back.control),
            (record.address, record.control)
        );
        assert_eq!(back.device, record.device);
        for cut in [0, 15, 47, 48, 51, text.len() - 1] {
            assert!(BootstrapRecord::decode(&text[..cut]).is_none(), "{cut}");
        }
        assert!(BootstrapRecord::decode(&text.replace('f', "é")).is_none());
        assert!(refused(1, &text).is_none());
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let record = |device: &str| BootstrapRecord {
            device: device.to_owned(),
            address: Vec::new(),
            control: RemoteRegion {
                address: 0,
                len: 0,
                rkey: 0,
            },
        };
        let long = format!("a{}", "é".repeat(LONGEST_NAME));
        let back = BootstrapRecord::decode(&record(&long).encode()).unwrap();
        assert_eq!(
            back.device,
            format!("a{}", "é".repeat(LONGEST_NAME / 2 - 1))
        );
        assert_eq!(
            BootstrapRecord::decode(&back.encode()).unwrap().device,
            back.device
        );
        // A name that is no text.
        let text = record("é").encode();
        assert!(BootstrapRecord::decode(&text.replace("c3a9", "c3c3")).is_none());
    }

    #[test]
    fn a_rank_that_could_not_start_says_why_in_few_words() {
        let name = "é".repeat(LONGEST_REASON);
        let error = Error::from(rdma_sys_shim::Error::UnknownDevice {
            name,
            known: String::new(),
        });
        let text = refusal(&error);
        assert!(BootstrapRecord::decode(&text).is_none());
        assert!(text.len() < 1000, "{} bytes", text.len());
        let failed = refused(7, &text).unwrap();
        assert_eq!(failed.rank(), 7);
        assert!(failed.to_string().contains("no device"), "{failed}");
        assert!(refused(7, "x").is_none() && refused(7, "x0").is_none());
    }
}
