//! Jobs of processes that are told one by one where to meet.

use std::net::{SocketAddr, TcpStream};
use std::thread;

use transom_testing::environment::slowness;
use transom_testing::job::{Job, LIMIT, Launched, read_lines, until};
use transom_testing::ports::free_port;
use transom_testing::processes::told;

/// A job to be: where it meets, and what all its ranks are told.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) port: u16,
    variables: Vec<(String, String)>,
}

impl Plan {
    /// Of ranks that meet on a host by this name or address, over a device.
    pub(crate) fn new(host: &str, size: u32) -> Self {
        let port = free_port();
        let plan = Self {
            port,
            variables: Vec::new(),
        };
        plan.with("TRANSOM_RENDEZVOUS", &format!("{host}:{port}"))
            .with("TRANSOM_SIZE", &size.to_string())
            .with("TRANSOM_START_TIMEOUT", &(60 * slowness()).to_string())
    }

    /// In place of what was said before.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut plan = self.without(name);
        plan.variables.push((name.to_owned(), value.to_owned()));
        plan
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let mut plan = self.clone();
        plan.variables.retain(|(known, _)| known != name);
        plan
    }

    /// Where a wait has to be over within the test.
    pub(crate) fn briefly(&self) -> Self {
        self.with("TRANSOM_START_TIMEOUT", &(5 * slowness()).to_string())
    }

    /// A process that plays this role, told no rank.
    pub(crate) fn process(&self, role: &str) -> Job {
        Job::start(&mut told(role, &self.variables))
    }

    pub(crate) fn rank(&self, rank: u32, role: &str) -> Job {
        self.with("TRANSOM_RANK", &rank.to_string()).process(role)
    }

    /// The same, once it is about to look for the others.
    pub(crate) fn ready(&self, rank: u32, role: &str) -> Job {
        let mut job = self.rank(rank, role);
        let stdout = job.child.stdout.as_mut().expect("a pipe");
        read_lines(stdout, 1);
        job
    }

    /// A connection to rank 0, once it listens.
    pub(crate) fn stranger(&self) -> TcpStream {
        let place = SocketAddr::from(([127, 0, 0, 1], self.port));
        let mut stream = None;
        until("rank 0 listens", || {
            stream = TcpStream::connect(place).ok();
            // A connection to itself is one to nobody.
            let own = stream.as_ref().and_then(|stream| stream.local_addr().ok());
            own.is_some_and(|own| own != place)
        });
        stream.expect("a connection")
    }
}

/// How these ended, in the order of their start.
pub(crate) fn ended(jobs: Vec<Job>) -> Vec<Launched> {
    // At once, since each may wait for room in the pipe that it writes to.
    let waits: Vec<_> = jobs
        .into_iter()
        .map(|job| thread::spawn(|| job.finish_within(2 * LIMIT)))
        .collect();
    let ended = waits.into_iter().map(|wait| wait.join().expect("a wait"));
    ended.collect()
}

/// Fails unless all have succeeded, and each rank of so many was there.
#[track_caller]
pub(crate) fn succeeded(jobs: Vec<Job>) {
    let ended = ended(jobs);
    let size = ended.len();
    for (rank, Launched { status, output, .. }) in ended.iter().enumerate() {
        let is_well = status.is_some_and(|status| status.success());
        assert!(is_well, "rank {rank}: {status:?}: {output}");
        let line = format!("rank {rank} of {size}\n");
        assert!(output.contains(&line), "rank {rank}: {output}");
    }
}

/// Fails unless each has failed, and said these parts.
#[track_caller]
pub(crate) fn failed(jobs: Vec<(Job, &[&str])>) {
    let (jobs, expected): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
    for (Launched { status, output, .. }, parts) in ended(jobs).into_iter().zip(expected) {
        let status = status.unwrap_or_else(|| panic!("killed at its time limit: {output}"));
        assert_eq!(status.code(), Some(1), "{output}");
        for part in parts {
            assert!(output.contains(part), "{part:?} is not in {output:?}");
        }
    }
}
