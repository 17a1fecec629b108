//! A rank's side of PMIx.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::PmixError;
use super::error::{Status, found};
use super::library::{Library, Process, Published, c_string};
use crate::bootstrap::{Allgather, AllgatherError, Bootstrap};
use crate::environment::start_limit;
use crate::sys::say;

/// The most bytes of a block: more than any rank passes.
const LONGEST: usize = 1 << 20;
/// How long to look for missing ranks, and how long to ask for the end of a job.
const SHORT: Duration = Duration::from_secs(5);

const INIT: &str = "PMIx_Init";
const SIZE: &str = "PMIx_Get of pmix.job.size";
const FENCE: &str = "PMIx_Fence";
const GET: &str = "PMIx_Get";

/// The connection to a launcher that offers PMIx.
///
/// A call of the library may never return. So each call is made in a thread of its own, and has a time limit.
pub struct Pmix {
    library: &'static Library,
    own: Process,
    size: u32,
    /// How long to wait for a call. `None`: forever.
    timeout: Option<Duration>,
    /// The number of allgathers so far, the same on all ranks, so that each has a key of its own: there are
    /// a few while the job starts.
    calls: AtomicU32,
}

impl Pmix {
    /// Joins the launcher's job.
    ///
    /// # Errors
    /// The library is missing or of an unknown version; or the launcher's server is gone, or does not answer in time.
    pub(crate) fn join(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, PmixError> {
        let timeout = start_limit(variable)?;
        let library = Library::load()?;
        let own = (limited(INIT, timeout, || library.init())?).map_err(|status| {
            let found = found();
            PmixError::NotTaken { found, status }
        })?;
        let size = succeeded(SIZE, timeout, move || library.job_size(&own))?;
        let size = check_size(own.rank, &size)?;
        Ok(Self {
            library,
            own,
            size,
            timeout,
            calls: AtomicU32::new(0),
        })
    }

    /// The ranks that have published nothing, if that can be found out in a short time.
    fn who_is_missing(&self, key: &str) -> Vec<u32> {
        let (library, own, size) = (self.library, self.own, self.size);
        let key = c_string(key);
        let missing = limited(GET, Some(SHORT), move || {
            let came = |&rank: &u32| library.get(&own.with_rank(rank), &key).is_ok();
            let others = (0..size).filter(|&rank| rank != own.rank);
            others.filter(|rank| !came(rank)).collect()
        });
        missing.unwrap_or_default()
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, PmixError> {
        check_length(self.own.rank, mine.len())?;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let key = format!("transom-{number}");
        let (library, own, size) = (self.library, self.own, self.size);
        let (name, block) = (c_string(&key), mine.to_vec());
        let put = move || library.put(&name, &block);
        succeeded("PMIx_Put or PMIx_Commit", self.timeout, put)?;

        let fenced = limited(FENCE, self.timeout, move || library.fence(&own));
        let fenced = fenced.map_err(|error| error.awaiting(|| self.who_is_missing(&key)))?;
        // The end of a fence does not mean that all ranks have entered it, whatever it returned.
        let (name, block) = (c_string(&key), mine.to_vec());
        let asked = Arc::new(AtomicU32::new(own.rank));
        let asks = asked.clone();
        let all = limited(GET, self.timeout, move || {
            let get = |rank| match rank == own.rank {
                true => Ok(Published::Bytes(block.clone())),
                false => {
                    asks.store(rank, Ordering::Relaxed);
                    library.get(&own.with_rank(rank), &name)
                }
            };
            (0..size).map(get).collect::<Vec<_>>()
        });
        let all = all.map_err(|error| error.awaiting(|| vec![asked.load(Ordering::Relaxed)]))?;
        judge(fenced, all, || library.success())
    }
}

// SAFETY: each call puts its block under a key of its own, and gets that key of each rank by the rank's name, which the
// server gives to one process only. If the key of a rank cannot be got, the call fails.
unsafe impl Allgather for Pmix {
    fn rank(&self) -> u32 {
        self.own.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
        Ok(self.gather(mine)?)
    }
}

impl Bootstrap for Pmix {
    fn name(&self) -> &'static str {
        "PMIx"
    }

    fn has_launcher(&self) -> bool {
        true
    }

    fn is_gone(&self) -> bool {
        self.library.is_lost()
    }

    /// Prints the message, too: neither Open MPI's mpirun 4.1 nor Slurm does.
    fn abort(&self, code: i32, message: &str) -> Result<(), AllgatherError> {
        let rank = self.own.rank;
        say(&format_args!(
            "rank {rank} called abort with code {code}: {message}"
        ));
        let library = self.library;
        let message = c_string(message);
        let abort = move || library.abort(code, &message);
        Ok(succeeded("PMIx_Abort", Some(SHORT), abort)?)
    }

    fn finalize(&self) -> Result<(), AllgatherError> {
        let library = self.library;
        Ok(succeeded("PMIx_Finalize", self.timeout, || {
            library.finalize()
        })?)
    }
}

/// Like [`limited`], but also returns an error of the call as an error.
fn succeeded<T: Send + 'static>(
    call: &'static str,
    limit: Option<Duration>,
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, PmixError> {
    limited(call, limit, work)?.map_err(|status| PmixError::Refused { call, status })
}

/// Makes a call in a thread of its own. If the call does not return within the limit, this is an error, and the thread
/// stays in the call.
fn limited<T: Send + 'static>(
    call: &'static str,
    limit: Option<Duration>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PmixError> {
    let (done, ended) = channel();
    let thread = thread::Builder::new().name("transom-pmix".to_owned());
    let running = thread.spawn(move || {
        // The receiver may have given up.
        let _ = done.send(work());
    });
    let running = running.map_err(|source| PmixError::Thread { call, source })?;
    match ended.recv_timeout(limit.unwrap_or(Duration::MAX)) {
        Ok(answer) => Ok(answer),
        Err(RecvTimeoutError::Timeout) => Err(PmixError::NoReply {
            call,
            timeout: limit.unwrap_or_default(),
            awaited: Vec::new(),
        }),
        Err(RecvTimeoutError::Disconnected) => match running.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the call returned, and was not heard"),
        },
    }
}

/// The result of an allgather, from the result of its fence and what each rank has published.
fn judge(
    fenced: Result<(), Status>,
    all: Vec<Result<Published, Status>>,
    success: impl Fn() -> Status,
) -> Result<Vec<Vec<u8>>, PmixError> {
    let missing = (0..).zip(&all).filter(|(_, got)| got.is_err());
    let ranks: Vec<u32> = missing.map(|(rank, _)| rank).collect();
    if !ranks.is_empty() {
        let status = fenced.err().unwrap_or_else(success);
        return Err(PmixError::Missing { ranks, status });
    }
    fenced.map_err(|status| PmixError::Refused {
        call: FENCE,
        status,
    })?;
    let block = |(rank, got): (u32, Result<Published, Status>)| match got {
        Ok(Published::Bytes(bytes)) => check_length(rank, bytes.len()).map(|()| bytes),
        other => Err(PmixError::Malformed {
            call: GET,
            answer: format!("{other:?} of rank {rank}, where bytes were put"),
        }),
    };
    (0..).zip(all).map(block).collect()
}

fn check_size(rank: u32, found: &Published) -> Result<u32, PmixError> {
    match found {
        &Published::Number(size) if rank < size => Ok(size),
        other => Err(PmixError::Malformed {
            call: SIZE,
            answer: format!("{other:?}, where this is rank {rank}"),
        }),
    }
}

fn check_length(rank: u32, len: usize) -> Result<(), PmixError> {
    match (1..=LONGEST).contains(&len) {
        true => Ok(()),
        false => Err(PmixError::Length {
            rank,
            len,
            max: LONGEST,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: i32, text: &str) -> Status {
        Status {
            code,
            text: text.to_owned(),
        }
    }

    fn success() -> Status {
        status(0, "SUCCESS")
    }

    fn bytes(text: &str) -> Result<Published, Status> {
        Ok(Published::Bytes(text.as_bytes().to_vec()))
    }

    fn absent() -> Result<Published, Status> {
        Err(status(-46, "NOT-FOUND"))
    }

    #[test]
    fn all_that_came_is_what_is_gathered() {
        let all = judge(Ok(()), vec![bytes("a"), bytes("b")], success);
        assert_eq!(all.unwrap(), [b"a", b"b"]);
    }

    #[test]
    fn a_fence_that_a_rank_is_missing_from_names_it_whatever_it_returned() {
        let partial = || Err(status(-52, "PARTIAL SUCCESS"));
        let blocks = || vec![bytes("a"), absent(), bytes("c"), absent()];
        let ended = [
            (Ok(()), "SUCCESS (0)"),
            (partial(), "PARTIAL SUCCESS (-52)"),
        ];
        for (fenced, said) in ended {
            let error = judge(fenced, blocks(), success).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(matches!(error, PmixError::Missing { ranks, .. } if ranks == [1, 3]));
        }
        let error = judge(partial(), vec![bytes("a"), bytes("b")], success).unwrap_err();
        assert!(matches!(error, PmixError::Refused { .. }), "{error}");
    }

    #[test]
    fn what_nobody_puts_is_refused() {
        let error = |got| judge(Ok(()), vec![bytes("a"), got], success).unwrap_err();
        for odd in [Published::Number(7), Published::Other(3)] {
            let error = error(Ok(odd));
            assert!(matches!(error, PmixError::Malformed { .. }), "{error}");
            assert!(error.to_string().contains("rank 1"), "{error}");
        }
        for len in [0, LONGEST + 1] {
            let error = error(Ok(Published::Bytes(vec![0; len])));
            assert!(
                matches!(error, PmixError::Length { rank: 1, .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn a_size_is_a_number_beyond_the_rank() {
        assert_eq!(check_size(3, &Published::Number(4)).unwrap(), 4);
        for found in [
            Published::Number(3),
            Published::Number(0),
            Published::Other(5),
        ] {
            let error = check_size(3, &found).unwrap_err().to_string();
            assert!(error.contains("rank 3"), "{error}");
        }
    }

    #[test]
    fn a_call_that_does_not_return_is_given_up_and_named() {
        assert_eq!(limited(FENCE, None, || 7).unwrap(), 7);
        let (hold, held) = channel::<()>();
        let limit = Some(Duration::from_millis(1));
        let error = limited(FENCE, limit, move || held.recv()).unwrap_err();
        assert!(
            matches!(error, PmixError::NoReply { call: FENCE, .. }),
            "{error}"
        );
        drop(hold);
    }
}
