//! Allgathers that the caller lends, whose answers are checked.

use transom_launch::start::StartError;
use transom_launch::{Allgather, AllgatherError};

use crate::error::{Error, Misuse, Result, SystemError};

/// More than any rank of this library passes.
const LONGEST_BLOCK: usize = 1 << 20;

/// Collective. The bytes that each rank passed: equal lengths on all ranks, and at least one byte. `rank` and `size`
/// are those that the allgather first named.
pub(crate) fn gather_by(
    operation: &'static str,
    by: &dyn Allgather,
    (rank, size): (u32, u32),
    mine: &[u8],
) -> Result<Vec<Vec<u8>>> {
    let wrong = |misuse| Err(Error::new(operation, misuse));
    let all =
        (by.allgather(mine)).map_err(|source| Error::new(operation, bootstrap_error(source)))?;
    if all.len() != size as usize {
        let found = all.len();
        return wrong(Misuse::BlockCount { found, size });
    }
    let of_another_length = (0..).zip(&all).find(|(_, block)| block.len() != mine.len());
    if let Some((rank, block)) = of_another_length {
        return wrong(Misuse::BlockLength {
            rank,
            found: block.len(),
            wanted: mine.len(),
        });
    }
    match all.get(rank as usize) {
        Some(own) if own == mine => Ok(all),
        _ => wrong(Misuse::BlockChanged { rank }),
    }
}

/// Errors of this library's own bootstraps are passed on unchanged.
pub(crate) fn bootstrap_error(source: AllgatherError) -> SystemError {
    match StartError::of(source) {
        Ok(error) => SystemError::Start(error),
        Err(source) => SystemError::Allgather { source },
    }
}

/// Collective. As [`gather_by`], for any lengths.
pub(crate) fn gather_any_by(
    operation: &'static str,
    by: &dyn Allgather,
    ranks: (u32, u32),
    mine: &[u8],
) -> Result<Vec<Vec<u8>>> {
    let lens = gather_by(operation, by, ranks, &(mine.len() as u64).to_ne_bytes())?;
    let lens = lens.iter().map(|len| {
        let len = len.as_slice().try_into().map_or(0, u64::from_ne_bytes);
        len as usize
    });
    let lens: Vec<usize> = lens.collect();
    if let Some((rank, &found)) = (0..).zip(&lens).find(|&(_, &len)| len > LONGEST_BLOCK) {
        let wanted = mine.len();
        return Err(Error::new(
            operation,
            Misuse::BlockLength {
                rank,
                found,
                wanted,
            },
        ));
    }
    gather_parts_by(operation, by, ranks, mine, &lens)
}

/// Collective. As [`gather_by`], for lengths that all ranks know.
pub(crate) fn gather_parts_by(
    operation: &'static str,
    by: &dyn Allgather,
    ranks: (u32, u32),
    mine: &[u8],
    lens: &[usize],
) -> Result<Vec<Vec<u8>>> {
    let longest = lens.iter().copied().max().unwrap_or(0);
    if longest == 0 {
        return Ok(vec![Vec::new(); lens.len()]);
    }
    let mut padded = mine.to_vec();
    padded.resize(longest, 0);
    let mut all = gather_by(operation, by, ranks, &padded)?;
    for (block, &len) in all.iter_mut().zip(lens) {
        block.truncate(len);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    type Answer = std::result::Result<Vec<Vec<u8>>, AllgatherError>;

    /// Rank 1 of 3, which answers as it is told.
    struct Scripted(fn(&[u8]) -> Answer);

    // SAFETY: nothing but the checks of this module sees the answers.
    unsafe impl Allgather for Scripted {
        fn rank(&self) -> u32 {
            1
        }

        fn size(&self) -> u32 {
            3
        }

        fn allgather(&self, mine: &[u8]) -> Answer {
            (self.0)(mine)
        }
    }

    #[test]
    fn wrong_answers_are_errors() {
        let error = |by| gather_by("test", &Scripted(by), (1, 3), b"mine").unwrap_err();
        let failed = error(|_| Err("the network is down".into()));
        assert!(
            failed.to_string().contains("the network is down"),
            "{failed}"
        );
        assert_eq!(failed.class(), ErrorClass::Other);
        let short = |mine: &[u8]| Ok(vec![mine.to_vec(); 2]);
        let long = |mine: &[u8]| Ok(vec![mine.to_vec(), mine.to_vec(), vec![0; 8]]);
        let wrong = [
            (error(short), "of 2 ranks, where there are 3"),
            (error(|_| Ok(Vec::new())), "of 0 ranks"),
            (error(long), "8 bytes of rank 2, where all passed 4"),
            (
                error(|_| Ok(vec![b"ours".to_vec(); 3])),
                "what it did not pass",
            ),
        ];
        for (error, words) in wrong {
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.class(), ErrorClass::Arg);
        }
        let all = gather_by(
            "test",
            &Scripted(|mine| Ok(vec![mine.to_vec(); 3])),
            (1, 3),
            b"mine",
        );
        assert_eq!(all.unwrap(), [b"mine"; 3]);
    }

    #[test]
    fn any_lengths_are_gathered() {
        let longer = |mine: &[u8]| {
            let lens = [7_u64, 4, 0].map(|len| len.to_ne_bytes().to_vec());
            let texts = [b"another", b"mine\0\0\0", b"\0\0\0\0\0\0\0"].map(|text| text.to_vec());
            Ok(if mine == lens[1] { lens } else { texts }.to_vec())
        };
        let all = gather_any_by("test", &Scripted(longer), (1, 3), b"mine").unwrap();
        assert_eq!(all, [&b"another"[..], b"mine", b""]);
    }

    #[test]
    fn a_length_that_no_rank_passes_is_refused() {
        let vast = |mine: &[u8]| Ok(vec![mine.to_vec(), mine.to_vec(), vec![0xff; 8]]);
        let error = gather_any_by("test", &Scripted(vast), (1, 3), b"mine").unwrap_err();
        assert!(error.to_string().contains("of rank 2"), "{error}");
    }
}
