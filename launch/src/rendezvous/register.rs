//! Which ranks have come, and whether they belong together.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::fault::Fault;
use super::handshake::Claim;

/// The most processes with a wrong secret that are reported. If there are more, it is probably an attack.
const MOST_SUSPECTS: usize = 8;

/// Kept by rank 0.
pub(super) struct Register {
    /// The address of each rank that has come. Rank 0 has none.
    places: Vec<Option<SocketAddr>>,
    missing: usize,
    /// For each rank, a process that claimed to be it but had another secret.
    suspects: BTreeMap<u32, SocketAddr>,
}

impl Register {
    pub(super) fn new(size: u32) -> Self {
        Self {
            places: vec![None; size as usize],
            missing: size as usize - 1,
            suspects: BTreeMap::new(),
        }
    }

    fn size(&self) -> u32 {
        self.places.len() as u32
    }

    /// Admits a process that knows the secret. So a wrong claim is a fault of the job, and not of a stranger.
    pub(super) fn admit(&mut self, claim: Claim, place: SocketAddr) -> Result<(), Fault> {
        let (Claim { rank, size }, ours) = (claim, self.size());
        if size != ours {
            return Err(Fault::new(format!(
                "rank {rank} says that there are {size} ranks, rank 0 that there are {ours}"
            )));
        }
        let twice = |places: String| {
            Err(Fault::new(format!(
                "two processes say that they are rank {rank}: {places}; give each its own TRANSOM_RANK"
            )))
        };
        if rank == 0 {
            return twice(format!(
                "the one that the others look for, and one at {place}"
            ));
        }
        let Some(seat) = self.places.get_mut(rank as usize) else {
            return Err(Fault::new(format!(
                "a process at {place} says that it is rank {rank}, of {size} ranks (the first is 0)"
            )));
        };
        if let Some(first) = seat {
            return twice(format!("at {first} and {place}"));
        }
        *seat = Some(place);
        self.missing -= 1;
        Ok(())
    }

    /// Records a process with another secret: a rank with a wrong secret, or a stranger. Returns whether to report it.
    pub(super) fn suspect(&mut self, claim: Claim, place: SocketAddr) -> bool {
        let is_full = self.suspects.len() >= MOST_SUSPECTS;
        let may_be = self.places.get(claim.rank as usize) == Some(&None);
        if !may_be || is_full || self.suspects.contains_key(&claim.rank) {
            return false;
        }
        self.suspects.insert(claim.rank, place);
        true
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    pub(super) fn missing(&self) -> Vec<u32> {
        let ranks = (1..).zip(&self.places[1..]);
        let missing = ranks.filter(|(_, place)| place.is_none());
        missing.map(|(rank, _)| rank).collect()
    }

    /// The processes with another secret, for an error about missing ranks.
    pub(super) fn seen(&self) -> String {
        let mut text = String::new();
        for (rank, place) in &self.suspects {
            let _ = write!(
                text,
                "; a process at {place} says that it is rank {rank}, and has another \
                 TRANSOM_JOB_SECRET"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn claim(rank: u32) -> Claim {
        Claim { rank, size: 4 }
    }

    #[test]
    fn a_job_is_complete_when_each_rank_has_come() {
        let mut register = Register::new(4);
        assert_eq!(register.missing(), [1, 2, 3]);
        for (rank, missing) in [(2, &[1, 3][..]), (1, &[3]), (3, &[])] {
            assert!(!register.is_complete());
            register.admit(claim(rank), place(80)).unwrap();
            assert_eq!(register.missing(), missing);
        }
        assert!(register.is_complete());
        assert!(Register::new(1).is_complete());
    }

    #[test]
    fn wrong_claims_name_who_makes_them() {
        let mut register = Register::new(4);
        register.admit(claim(2), place(80)).unwrap();
        let mut fault = |claim| register.admit(claim, place(90)).unwrap_err().to_string();
        let twice = fault(claim(2));
        assert!(
            twice.contains("rank 2: at 10.0.0.1:80 and 10.0.0.1:90"),
            "{twice}"
        );
        let twice = fault(claim(0));
        assert!(twice.contains("rank 0"), "{twice}");
        let beyond = fault(claim(4));
        assert!(
            beyond.contains("10.0.0.1:90 says that it is rank 4, of 4 ranks"),
            "{beyond}"
        );
        let size = fault(Claim { rank: 1, size: 5 });
        assert!(
            size.contains("rank 1 says that there are 5 ranks, rank 0 that there are 4"),
            "{size}"
        );
    }

    #[test]
    fn suspects_are_named_once_and_are_few() {
        let mut register = Register::new(64);
        let claim = |rank| Claim { rank, size: 64 };
        register.admit(claim(1), place(80)).unwrap();
        assert!(!register.suspect(claim(1), place(90)), "that one has come");
        assert!(
            !register.suspect(claim(64), place(90)),
            "there is no such rank"
        );
        assert!(register.suspect(claim(3), place(90)));
        assert!(!register.suspect(claim(3), place(91)));
        assert!(
            register
                .seen()
                .contains("10.0.0.1:90 says that it is rank 3")
        );
        let news = (4..64).filter(|&rank| register.suspect(claim(rank), place(92)));
        assert_eq!(news.count(), MOST_SUSPECTS - 1);
    }
}
