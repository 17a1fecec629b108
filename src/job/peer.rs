//! Another rank of the job, as this one reaches it.

use std::sync::Arc;

use rdma_sys_shim::{Device, Endpoint, RemoteRegion};

use super::PmiError;
use crate::error::{Error, Result, SystemError};
use crate::memory::remote::{RemoteMemory, RemoteWord};
use crate::wait::Patience;

/// Of a longer name, so many bytes are published: a card has to fit into one line of PMI.
const LONGEST_NAME: usize = 32;

/// What every rank publishes at start: how to connect, and where its control region is.
pub(crate) struct Card {
    /// The device's name, for errors.
    pub(crate) device: String,
    pub(crate) address: Vec<u8>,
    pub(crate) control: RemoteRegion,
}

impl Card {
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        let RemoteRegion { address, len, rkey } = self.control;
        for number in [address, len, rkey] {
            text.push_str(&format!("{number:016x}"));
        }
        let name = self.device.as_bytes();
        let name = &name[..name.len().min(LONGEST_NAME)];
        for byte in [name.len() as u8].iter().chain(name).chain(&self.address) {
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let number = |at: usize| u64::from_str_radix(text.get(at..at + 16)?, 16).ok();
        let control = RemoteRegion {
            address: number(0)?,
            len: number(16)?,
            rkey: number(32)?,
        };
        let digits = text.get(48..)?;
        if digits.len() % 2 != 0 {
            return None;
        }
        let bytes: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
            .collect::<Option<_>>()?;
        let (&len, rest) = bytes.split_first()?;
        let (name, address) = rest.split_at_checked(len.into())?;
        Some(Self {
            device: String::from_utf8_lossy(name).into_owned(),
            address: address.to_owned(),
            control,
        })
    }
}

/// A rank that this one is connected to.
pub(crate) struct Peer {
    control: Arc<RemoteMemory>,
    pub(super) abort: RemoteWord,
    pub(super) state: RemoteWord,
}

impl Peer {
    pub(super) fn connect(
        device: &dyn Device,
        rank: u32,
        card: &str,
        patience: Patience,
    ) -> Result<Self> {
        let card = Card::decode(card).ok_or_else(|| Error::from(PmiError::BadCard { rank }))?;
        let endpoint = device.connect(&card.address).map_err(|source| {
            if source.absence().is_some() {
                return source.into();
            }
            Error::from(SystemError::Connect {
                rank,
                ours: device.name().to_owned(),
                theirs: card.device.clone(),
                source,
            })
            .during("connect")
        })?;
        let control = Arc::new(RemoteMemory::new(endpoint, card.control, patience)?);
        Ok(Self {
            abort: control.word(super::context::ABORT),
            state: control.word(super::context::STATE),
            control,
        })
    }

    pub(crate) fn endpoint(&self) -> &Arc<dyn Endpoint> {
        self.control.endpoint()
    }

    /// The peer's control region.
    pub(crate) fn control(&self) -> &Arc<RemoteMemory> {
        &self.control
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_survives_the_journey_and_a_torn_one_is_refused() {
        let card = Card {
            device: "rxe0".to_owned(),
            address: vec![0, 255, 7],
            control: RemoteRegion {
                address: u64::MAX,
                len: 1,
                rkey: 0xdead_beef,
            },
        };
        let text = card.encode();
        let back = Card::decode(&text).unwrap();
        assert_eq!((back.address, back.control), (card.address, card.control));
        assert_eq!(back.device, card.device);
        for cut in [0, 15, 47, 48, 51, text.len() - 1] {
            assert!(Card::decode(&text[..cut]).is_none(), "{cut}");
        }
        assert!(Card::decode(&text.replace('f', "é")).is_none());
    }
}
