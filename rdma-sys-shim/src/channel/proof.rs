//! How origin and target prove to each other that they know the target's key, without sending it.
//!
//! ```text
//! origin: MAGIC, instance of the target, instance of the origin, nonce
//! target: nonce, tag
//! origin: tag
//! target: WELCOME
//! ```
//!
//! The key is derived from the key in the target's record, which only ranks of the job get, and from the job's secret,
//! if there is one, because an eavesdropper may learn the record. Every message has a fixed length. A target reads no
//! request before the origin's tag, and answers nothing to a process that does not name its instance.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::fields::Fields;
use crate::provider::JobSecret;

pub(crate) const KEY: usize = 32;
const NONCE: usize = 32;
const TAG: usize = 32;

const MAGIC: [u8; 8] = *b"transom\x01";
pub(crate) const HELLO: usize = 24 + NONCE;
pub(crate) const CHALLENGE: usize = NONCE + TAG;
pub(crate) const PROOF: usize = TAG;

/// What a target sends in place of its message when no descriptor is free for the connection. It proves nothing, and
/// affects only the origin's error.
pub(super) const FULL: [u8; CHALLENGE] = [0xff; CHALLENGE];

const TARGET: &[u8] = b"target";
const ORIGIN: &[u8] = b"origin";

/// The target's last message: it has checked that the origin knows the key.
pub(crate) const WELCOME: [u8; 8] = *b"welcome\x01";

pub(crate) type Nonce = [u8; NONCE];
pub(crate) type Hello = [u8; HELLO];

/// Proves that a process belongs to the job.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u8; KEY]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Derives the key that processes with this secret prove to each other.
    pub(super) fn with(&self, secret: JobSecret) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
        Self(mac.chain_update(self.0).finalize().into_bytes().into())
    }

    fn mac(&self, who: &[u8], hello: &Hello, nonce: &Nonce) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(who);
        mac.update(hello);
        mac.update(nonce);
        mac
    }

    fn tag(&self, who: &[u8], hello: &Hello, nonce: &Nonce) -> [u8; TAG] {
        self.mac(who, hello, nonce).finalize().into_bytes().into()
    }

    /// Compares in constant time, whether or not the tag is right.
    fn is_tag(&self, tag: &[u8], who: &[u8], hello: &Hello, nonce: &Nonce) -> bool {
        self.mac(who, hello, nonce).verify_slice(tag).is_ok()
    }
}

/// The origin's first message. `nonce` is random.
pub(crate) fn hello(target: u64, origin: u64, nonce: &Nonce) -> Hello {
    let mut hello = [0; HELLO];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..16].copy_from_slice(&target.to_le_bytes());
    hello[16..24].copy_from_slice(&origin.to_le_bytes());
    hello[24..].copy_from_slice(nonce);
    hello
}

/// The target's state after it has answered the origin.
pub(crate) struct Challenge {
    hello: Hello,
    nonce: Nonce,
    /// The instance that the origin claims.
    pub(crate) origin: u64,
}

impl Challenge {
    /// Answers the origin's first message. `nonce` is random. `None` if the message is not for this target.
    pub(crate) fn new(
        hello: &Hello,
        key: &Key,
        target: u64,
        nonce: Nonce,
    ) -> Option<(Self, [u8; CHALLENGE])> {
        let mut fields = Fields(hello);
        if fields.array() != Some(MAGIC) || fields.u64() != Some(target) {
            return None;
        }
        let challenge = Self {
            hello: *hello,
            nonce,
            origin: fields.u64()?,
        };
        let mut answer = [0; CHALLENGE];
        answer[..NONCE].copy_from_slice(&nonce);
        answer[NONCE..].copy_from_slice(&key.tag(TARGET, hello, &nonce));
        Some((challenge, answer))
    }

    /// Whether the proof shows that the origin knows the key.
    pub(crate) fn is_met(&self, key: &Key, proof: &[u8; PROOF]) -> bool {
        key.is_tag(proof, ORIGIN, &self.hello, &self.nonce)
    }
}

/// The origin's second message; `None` if the answer does not show that the target knows the key.
pub(crate) fn prove(key: &Key, hello: &Hello, answer: &[u8; CHALLENGE]) -> Option<[u8; PROOF]> {
    let (nonce, tag) = answer.split_first_chunk::<NONCE>()?;
    let is_right = key.is_tag(tag, TARGET, hello, nonce);
    is_right.then(|| key.tag(ORIGIN, hello, nonce))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Key = Key([1; KEY]);
    const OTHER: Key = Key([2; KEY]);

    #[test]
    fn who_knows_the_key_is_believed_and_nobody_else() {
        let hello = hello(7, 8, &[3; NONCE]);
        let (challenge, answer) = Challenge::new(&hello, &OURS, 7, [4; NONCE]).unwrap();
        assert_eq!(challenge.origin, 8);
        let proof = prove(&OURS, &hello, &answer).unwrap();
        assert!(challenge.is_met(&OURS, &proof));
        assert!(!challenge.is_met(&OTHER, &proof));
        assert_eq!(
            prove(&OTHER, &hello, &answer),
            None,
            "the target is another's"
        );
        // What the target sent proves nothing for the origin, and a proof is for one nonce.
        let echoed = answer.last_chunk::<PROOF>().unwrap();
        assert!(!challenge.is_met(&OURS, echoed));
        let (again, _) = Challenge::new(&hello, &OURS, 7, [5; NONCE]).unwrap();
        assert!(!again.is_met(&OURS, &proof));
    }

    #[test]
    fn a_key_without_the_secret_of_the_job_proves_nothing() {
        let [ours, others] = [1, 2].map(|secret| OURS.with(JobSecret([secret; 32])));
        let hello = hello(7, 8, &[3; NONCE]);
        let (challenge, answer) = Challenge::new(&hello, &ours, 7, [4; NONCE]).unwrap();
        assert_eq!(prove(&OURS, &hello, &answer), None);
        for stranger in [&OURS, &others] {
            // Whatever it makes of the target's answer.
            let nonce = answer.first_chunk().unwrap();
            assert!(!challenge.is_met(&ours, &stranger.tag(ORIGIN, &hello, nonce)));
        }
        let proof = prove(&ours, &hello, &answer).unwrap();
        assert!(challenge.is_met(&ours, &proof));
    }

    #[test]
    fn nothing_is_answered_to_who_means_another_target() {
        for place in [0, 7, 8, 15] {
            let mut hello = hello(7, 8, &[3; NONCE]);
            hello[place] ^= 1;
            assert!(
                Challenge::new(&hello, &OURS, 7, [4; NONCE]).is_none(),
                "{place}"
            );
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{OURS:?}"), "Key");
    }
}
