//! What is known of a rank after the job was aborted.

use std::time::{Duration, Instant};

use transom_launch::survivors::Fate;

use crate::error::{AbortCause, Error, ErrorKind, PeerError};
use crate::peers::Context;
use crate::terms::WorldRank;

/// A rank that was told of a death otherwise than by this library may ask before this rank's abort word was written.
const NEWS_LIMIT: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

impl Context {
    /// Whether a rank has ended or does not answer. `thoroughly`: connects to it if need be, which may take seconds.
    pub(crate) fn fate(&self, rank: WorldRank, thoroughly: bool) -> Fate {
        let told = self.cause_of_abort().filter(|told| told.rank() == rank.0);
        let told = told.map_or(Fate::Lives, |told| fate_by(told.cause()));
        if told == Fate::Left {
            return told;
        }
        let found = match self.known(rank.0) {
            Some(peer) => peer.endpoint().liveness().map_err(Error::from),
            // That another rank cannot see it any more is a reason to look, and no more.
            None if thoroughly || told == Fate::Ended => self.connect_to(rank.0).map(drop),
            None => Ok(()),
        };
        match found.map_err(|error| self.name_absent(rank.0, error)) {
            Ok(()) => Fate::Lives,
            Err(error) => match error.kind() {
                ErrorKind::Peer(cause) => fate_by(cause.cause()),
                // This rank's own trouble, or a wait that the abort has ended.
                _ => Fate::Lives,
            },
        }
    }

    /// Waits briefly until this rank knows of the abort. Returns its cause, or `None` if there was none.
    pub(crate) fn await_abort(&self) -> Option<PeerError> {
        let begun = Instant::now();
        loop {
            match self.cause_of_abort() {
                None if begun.elapsed() < NEWS_LIMIT => std::thread::sleep(LOOK_INTERVAL),
                found => return found,
            }
        }
    }
}

fn fate_by(cause: AbortCause) -> Fate {
    match cause {
        AbortCause::Died | AbortCause::Replaced | AbortCause::Gone => Fate::Ended,
        AbortCause::Left => Fate::Left,
        AbortCause::Silent => Fate::Silent,
        _ => Fate::Lives,
    }
}
