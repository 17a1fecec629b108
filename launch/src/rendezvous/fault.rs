//! Why a start over TCP failed. Rank 0 sends this to all ranks that have proved that they know the secret.

use rdma_sys_shim::beginning;

/// Why ranks that met at a rendezvous cannot become a job, and which of them is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct Fault {
    /// The fault, and the ranks at fault.
    pub why: String,
}

/// The most bytes of a fault: enough unless it lists very many ranks.
pub(super) const LONGEST: usize = 1 << 14;

impl Fault {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }

    pub(super) fn left(rank: u32) -> Self {
        Self::new(format!(
            "rank {rank} ended while the job started, or gave up"
        ))
    }

    /// A message in a rank's name was changed on the way, or is meaningless.
    pub(super) fn garbled(rank: u32) -> Self {
        Self::new(format!(
            "what came from rank {rank} was changed on the way, or is of another version of transom"
        ))
    }

    pub(super) fn encode(&self) -> &[u8] {
        beginning(&self.why, LONGEST).as_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let why = std::str::from_utf8(bytes).ok()?;
        (why.len() <= LONGEST).then(|| Self::new(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_the_same_at_the_other_end_or_its_beginning_is() {
        let fault = Fault::left(7);
        assert_eq!(Fault::decode(fault.encode()), Some(fault));
        let long = Fault::new("é".repeat(LONGEST));
        let told = Fault::decode(long.encode()).unwrap();
        assert_eq!(told.why, "é".repeat(LONGEST / 2));
        assert_eq!(Fault::decode(b"\xff"), None);
        assert_eq!(Fault::decode(&[b'x'; LONGEST + 1]), None);
    }
}
