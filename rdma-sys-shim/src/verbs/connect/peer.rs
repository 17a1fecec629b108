//! What one side knows of a peer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Queues;
use super::address::{Address, PeerId};
use super::failure::ConnectFailure;
use super::message::Numbers;
use super::retry::Retry;

pub(super) struct PeerState {
    pub(super) address: Arc<Address>,
    pub(super) ours: Option<Numbers>,
    /// Known, and ours listens to it.
    pub(super) theirs: Option<Numbers>,
    /// Theirs listens to ours.
    pub(super) heard: bool,
    pub(super) broken: Option<ConnectFailure>,
    /// It has said goodbye.
    pub(super) left: bool,
    /// It is not to be waited for.
    pub(super) abandoned: bool,
    /// What it asked with, while it waits for its turn: its numbers, and the queue pair that listens to
    /// ours, if one does.
    pub(super) asked: Option<(Numbers, Option<u32>)>,
    pub(super) request: Option<Retry>,
    pub(super) goodbye: Option<Retry>,
    /// Why the last datagram could not be sent.
    pub(super) trouble: Option<String>,
}

impl PeerState {
    pub(super) fn of<'a>(
        peers: &'a mut HashMap<PeerId, Self>,
        address: &Arc<Address>,
    ) -> &'a mut Self {
        peers.entry(address.instance).or_insert_with(|| Self {
            address: address.clone(),
            ours: None,
            theirs: None,
            heard: false,
            broken: None,
            left: false,
            abandoned: false,
            asked: None,
            request: None,
            goodbye: None,
            trouble: None,
        })
    }

    /// The numbers of our queue pair, which is made if need be.
    pub(super) fn numbers(&mut self, queues: &mut impl Queues) -> Result<Numbers, ConnectFailure> {
        if let Some(numbers) = self.ours {
            return Ok(numbers);
        }
        let made = queues.create(&self.address);
        let numbers = made.map_err(|error| ConnectFailure::Here(error.to_string()))?;
        self.ours = Some(numbers);
        Ok(numbers)
    }

    /// Lets our queue pair listen to the one that the numbers name; true if it did not before.
    pub(super) fn listen(
        &mut self,
        queues: &mut impl Queues,
        theirs: &Numbers,
    ) -> Result<bool, ConnectFailure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        match self.theirs {
            Some(known) if known == *theirs => Ok(false),
            Some(known) => Err(ConnectFailure::Here(format!(
                "its queue pair is {:#x} now and was {:#x} before",
                theirs.qpn, known.qpn
            ))),
            None => match queues.bring_up(&self.address, theirs) {
                Ok(()) => {
                    self.theirs = Some(*theirs);
                    Ok(true)
                }
                Err(error) => {
                    let failure = ConnectFailure::Here(error.to_string());
                    self.broken = Some(failure.clone());
                    Err(failure)
                }
            },
        }
    }

    /// That it did not answer `own`.
    pub(super) fn silence(&self, own: &Address) -> ConnectFailure {
        let retry = self.request.as_ref();
        ConnectFailure::Silence {
            limit: retry.map_or(Duration::ZERO, |retry| retry.limit),
            sent: retry.map_or(0, |retry| retry.sent),
            put_off: retry.is_some_and(|retry| retry.put_off),
            from: own.device.clone(),
            qpn: self.address.qpn,
            device: self.address.device.clone(),
            gid: self.address.port.gid_for(&own.port),
            lid: self.address.port.lid,
            trouble: self.trouble.clone(),
        }
    }
}
