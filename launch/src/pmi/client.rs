//! A rank's side of PMI-1.1.
//!
//! The protocol has keys and values that all ranks see after a barrier. In an allgather each rank puts its block. Rank
//! 0 gets all blocks and puts them as one text, in which a block that equals the one before it takes only a few
//! characters. Bootstrap records differ and are not gathered: a rank gets only those that it needs. So the launcher
//! does not have to answer size × size requests.
//!
//! Slurm does not end a barrier if a rank died before it, so a reply is awaited for a limited time. Hydra does not if a
//! rank exited with 0 before it: see `siblings`.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdma_sys_shim::BootstrapSegment;

use super::environment::{Launcher, not_a_socket};
use super::mapping::is_one_node;
use super::siblings::Siblings;
use super::wire::{
    self, Builder, LONG_VALUE_MAX, Line, LineBuffer, MAX_REQUEST, Message, escape, unescape,
};
use super::{NOTICE_KEY, OUR_SPACE, PmiError, left_key};
use crate::bootstrap::{Allgather, AllgatherError, Bootstrap};
use crate::environment::start_limit;
use crate::sys::{self, check, interest};

const BARRIER: &str = "barrier";
/// How often a rank that waits in a barrier counts the ranks of its node.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The longest key that this client uses.
const KEY: usize = 40;
/// The length of a put request without the name of the space, the key and the value.
const PUT: usize = "cmd=put kvsname= key= value=\n".len();

/// The first character of each piece of a text says whether more pieces follow or this is the last.
const MORE: char = '+';
const LAST: char = '.';

/// The connection to the launcher.
///
/// Requests block until the reply has arrived, and one thread at a time makes them. Only an abort does not wait.
pub struct Client {
    socket: UnixStream,
    rank: u32,
    size: u32,
    /// The launcher's name for the job's keys and values.
    space: String,
    /// How many bytes of a text one value holds.
    piece: usize,
    /// How long to wait for a reply. `None`: forever.
    timeout: Option<Duration>,
    /// The ranks of this node, if the launcher is one that may wait in vain for one of them.
    siblings: Option<Siblings>,
    /// The number of allgathers so far, the same on all ranks, so that each has keys of its own: there are
    /// a few while the job starts.
    calls: AtomicU32,
    /// Held from a request to its reply.
    replies: Mutex<Replies>,
}

#[derive(Default)]
struct Replies {
    buffer: LineBuffer,
    ready: std::collections::VecDeque<Line>,
}

impl Client {
    /// Joins the launcher's job.
    ///
    /// # Errors
    /// The launcher cannot be reached, or does not speak PMI-1.1.
    pub(crate) fn join(
        launcher: &Launcher,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PmiError> {
        let timeout = start_limit(&variable)?;
        let socket = adopt(launcher.fd)?;
        let mut client = Self::connect(socket, launcher.rank, launcher.size, timeout)?;
        client.siblings = Siblings::of_this(variable);
        Ok(client)
    }

    /// Initialises PMI over a connected socket.
    pub(super) fn connect(
        socket: UnixStream,
        rank: u32,
        size: u32,
        timeout: Option<Duration>,
    ) -> Result<Self, PmiError> {
        let mut client = Self {
            socket,
            rank,
            size,
            space: String::new(),
            piece: 0,
            timeout,
            siblings: None,
            calls: AtomicU32::new(0),
            replies: Mutex::default(),
        };
        // Exactly 1.1: Slurm refuses 1.2.
        let hello = Builder::new("init")
            .with("pmi_version", 1)
            .with("pmi_subversion", 1);
        let reply = client.ask("init", hello, "response_to_init")?;
        let version = |key| Message::parse(&reply).and_then(|m| m.number::<u32>(key));
        // MPICH 5's Hydra answers with the newer version 1.2, which it also speaks.
        let spoken = (version("pmi_version"), version("pmi_subversion"));
        if !matches!(spoken, (Some(1), Some(1..))) {
            return Err(malformed("init", reply));
        }

        let request = "get_my_kvsname";
        let reply = client.ask(request, Builder::new(request), "my_kvsname")?;
        client.space = match Message::parse(&reply).and_then(|m| m.get("kvsname")) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => return Err(malformed(request, reply)),
        };

        let request = "get_maxes";
        let reply = client.ask(request, Builder::new(request), "maxes")?;
        let most = |key| Message::parse(&reply).and_then(|m| m.number::<usize>(key));
        let value = most(LONG_VALUE_MAX).or_else(|| {
            let room = MAX_REQUEST.saturating_sub(PUT + client.space.len() + KEY);
            Some(room.min(most("vallen_max")?.saturating_sub(1)))
        });
        // The maxima count the terminating zero of a C string.
        client.piece = match (most("keylen_max"), value) {
            (Some(key), Some(value @ 2..)) if key > KEY => value - MORE.len_utf8(),
            _ => return Err(malformed(request, reply)),
        };
        Ok(client)
    }

    /// Whether the launcher is `transom run`. Only it has Transom's own keys.
    fn is_ours(&self) -> bool {
        self.space.starts_with(OUR_SPACE)
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, PmiError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let (of_rank, of_all) = (
            |rank| format!("transom-{call}-{rank}"),
            format!("transom-{call}-all"),
        );
        self.put_text(&of_rank(self.rank), &escape(mine))?;
        self.barrier()?;
        let told = match self.rank {
            0 => {
                let blocks = (0..self.size).map(|rank| self.get_text(&of_rank(rank)));
                let blocks = blocks.map(|block| Ok(unescape(&block?)));
                let blocks: Result<Vec<_>, _> = blocks.collect();
                blocks.and_then(|blocks| self.put_text(&of_all, &wire::join(&blocks)))
            }
            _ => Ok(()),
        };
        // Enter the barrier even after an error, because the other ranks do.
        self.barrier()?;
        told?;
        Ok(wire::split(&self.get_text(&of_all)?))
    }

    /// Puts a text of any length. Each value holds a piece of it.
    fn put_text(&self, key: &str, text: &str) -> Result<(), PmiError> {
        let (mut rest, mut number) = (text, 0);
        loop {
            let (now, later) = rest.split_at(rest.len().min(self.piece));
            let mark = if later.is_empty() { LAST } else { MORE };
            self.put(&format!("{key}-{number}"), &format!("{mark}{now}"))?;
            if later.is_empty() {
                return Ok(());
            }
            (rest, number) = (later, number + 1);
        }
    }

    fn get_text(&self, key: &str) -> Result<String, PmiError> {
        let mut text = String::new();
        for number in 0.. {
            let value = self.get(&format!("{key}-{number}"))?;
            match (value.strip_prefix(MORE), value.strip_prefix(LAST)) {
                (Some(piece), _) => text.push_str(piece),
                (_, Some(piece)) => {
                    text.push_str(piece);
                    break;
                }
                _ => return Err(malformed("get", value)),
            }
        }
        Ok(text)
    }

    /// Publishes a value, visible to all ranks after the next barrier.
    pub(super) fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        let request = Builder::new("put")
            .with("kvsname", &self.space)
            .with("key", key)
            .with("value", value);
        self.ask("put", request, "put_result")?;
        Ok(())
    }

    /// The value that some rank put before the last barrier.
    pub(super) fn get(&self, key: &str) -> Result<String, PmiError> {
        let request = Builder::new("get")
            .with("kvsname", &self.space)
            .with("key", key);
        let reply = match self.ask("get", request, "get_result") {
            Err(PmiError::Refused { reason, .. }) => {
                let key = key.to_owned();
                return Err(PmiError::NoKey { key, reason });
            }
            other => other?,
        };
        match Message::parse(&reply).and_then(|m| m.get("value")) {
            Some(value) => Ok(value.to_owned()),
            None => Err(malformed("get", reply)),
        }
    }

    /// Collective. Waits until every rank of the job has entered, or until the timeout: Slurm reports to no rank that
    /// another has ended before it entered.
    pub(super) fn barrier(&self) -> Result<(), PmiError> {
        self.ask(BARRIER, Builder::new("barrier_in"), "barrier_out")?;
        Ok(())
    }

    /// Sends a request and returns its reply, which has the command `expected` and no bad `rc`.
    fn ask(
        &self,
        request: &'static str,
        line: Builder,
        expected: &str,
    ) -> Result<String, PmiError> {
        let replies = self.replies.lock();
        let mut replies = replies.unwrap_or_else(PoisonError::into_inner);
        self.send(request, line.finish().as_bytes())?;
        let reply = match self.read_line(request, &mut replies)? {
            Line::Text(text) => text,
            Line::Unreadable => return Err(malformed(request, "(unreadable)".to_owned())),
        };
        let Some(message) = Message::parse(&reply) else {
            return Err(malformed(request, reply));
        };
        // `rc` may be missing in replies to requests that cannot fail.
        if message.get("rc").is_some_and(|rc| rc != "0") {
            let reason = message.get("msg").unwrap_or("no reason given").to_owned();
            return Err(PmiError::Refused { request, reason });
        }
        if message.command() != expected {
            return Err(malformed(request, reply));
        }
        Ok(reply)
    }

    /// Sends the whole line in one system call, as Slurm requires.
    fn send(&self, request: &'static str, mut line: &[u8]) -> Result<(), PmiError> {
        while !line.is_empty() {
            // SAFETY: the pointer and the length are those of a live slice.
            let sent = unsafe {
                libc::send(
                    self.socket.as_raw_fd(),
                    line.as_ptr().cast(),
                    line.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => line = &line[sent..],
                Err(_) => {
                    if may_try_again(request, io::Error::last_os_error())? {
                        self.await_event(libc::POLLOUT, None);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_line(&self, request: &'static str, replies: &mut Replies) -> Result<Line, PmiError> {
        let end = self
            .timeout
            .map(|timeout| (Instant::now() + timeout, timeout));
        // Only this request waits for other ranks.
        let siblings = self.siblings.as_ref().filter(|_| request == BARRIER);
        loop {
            if let Some(line) = replies.ready.pop_front() {
                return Ok(line);
            }
            if let Some((end, timeout)) = end
                && Instant::now() >= end
            {
                return Err(PmiError::NoReply { request, timeout });
            }
            let count_at = siblings.map(|_| Instant::now() + COUNT_EVERY);
            let until = end.map(|(end, _)| end).into_iter().chain(count_at).min();
            if !self.await_event(libc::POLLIN, until) {
                // A rank that was released may have ended before this one read its own reply.
                if siblings.is_some_and(Siblings::are_fewer)
                    && !self.await_event(libc::POLLIN, Some(Instant::now()))
                {
                    return Err(PmiError::Missing { request });
                }
                continue;
            }
            let mut bytes = [0_u8; 4096];
            match (&self.socket).read(&mut bytes) {
                Ok(0) => return Err(PmiError::Closed { request }),
                Ok(received) => {
                    let lines = replies.buffer.push(&bytes[..received]);
                    replies.ready.extend(lines);
                }
                Err(error) => drop(may_try_again(request, error)?),
            }
        }
    }

    /// Sleeps until the socket is ready for `event`, at most until the deadline. Returns whether to try a call, which
    /// then reports an error of the socket, if there is one.
    fn await_event(&self, event: i16, deadline: Option<Instant>) -> bool {
        sys::poll(&mut [interest(self.socket.as_raw_fd(), event)], deadline).unwrap_or(true)
    }
}

// SAFETY: each call puts its block under a key of its own, made of the number of the call and the rank. Rank 0 gets
// them in the order of ranks, after a barrier that every rank entered with its block put.
unsafe impl Allgather for Client {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
        Ok(self.gather(mine)?)
    }
}

fn record_key(rank: u32) -> String {
    format!("transom-record-{rank}")
}

impl Bootstrap for Client {
    fn name(&self) -> &'static str {
        "PMI"
    }

    fn has_launcher(&self) -> bool {
        true
    }

    fn is_one_host(&self) -> Result<bool, AllgatherError> {
        match self.get("PMI_process_mapping") {
            Ok(mapping) => Ok(is_one_node(&mapping)),
            Err(PmiError::NoKey { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn publish(&self, record: &str) -> Result<bool, AllgatherError> {
        self.put_text(&record_key(self.rank), &escape(record.as_bytes()))?;
        Ok(true)
    }

    fn published(&self, rank: u32) -> Result<String, AllgatherError> {
        let record = unescape(&self.get_text(&record_key(rank))?);
        Ok(String::from_utf8_lossy(&record).into_owned())
    }

    fn notices(&self) -> Option<BootstrapSegment> {
        if !self.is_ours() {
            return None;
        }
        let place = self.get(NOTICE_KEY).ok()?;
        let opened = BootstrapSegment::open(&place);
        let told = |error: &_| tracing::debug!(%error, "the launcher's notice is out of reach");
        opened.inspect_err(told).ok()
    }

    fn has_left(&self, rank: u32) -> Option<bool> {
        self.is_ours().then(|| self.get(&left_key(rank)).is_ok())
    }

    fn is_gone(&self) -> bool {
        let mut fds = [interest(self.socket.as_raw_fd(), 0)];
        sys::poll(&mut fds, Some(Instant::now())).unwrap_or(false)
            && fds[0].revents & libc::POLLHUP != 0
    }

    fn abort(&self, code: i32, message: &str) -> Result<(), AllgatherError> {
        // The text may fill a quarter of the line, because escaping may triple its length.
        let message = rdma_sys_shim::beginning(message, MAX_REQUEST / 4);
        let line = Builder::new("abort")
            .with("exitcode", code)
            .with("message", escape(message.as_bytes()))
            .finish();
        Ok(self.send("abort", line.as_bytes())?)
    }

    fn finalize(&self) -> Result<(), AllgatherError> {
        self.ask("finalize", Builder::new("finalize"), "finalize_ack")?;
        Ok(())
    }
}

fn malformed(request: &'static str, reply: String) -> PmiError {
    PmiError::Malformed { request, reply }
}

/// After a failed call: `true` if the socket was not ready (a launcher may pass a non-blocking one), `false` if the
/// call was only interrupted. Anything else is an error.
fn may_try_again(request: &'static str, source: io::Error) -> Result<bool, PmiError> {
    match source.kind() {
        io::ErrorKind::Interrupted => Ok(false),
        io::ErrorKind::WouldBlock => Ok(true),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            Err(PmiError::Closed { request })
        }
        _ => Err(PmiError::Io {
            what: request,
            source,
        }),
    }
}

/// Takes the inherited socket, and keeps it from this process's own children.
fn adopt(fd: RawFd) -> Result<UnixStream, PmiError> {
    // SAFETY: an all-zero stat is a valid value, and fstat only writes to it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above; a number that is not an open descriptor only makes the call fail.
    let failed = unsafe { libc::fstat(fd, &raw mut stat) } != 0;
    if failed || stat.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return Err(not_a_socket().into());
    }
    let failed = |source| PmiError::Io {
        what: "taking over PMI_FD",
        source,
    };
    // A duplicate, because the number came from outside and may have another owner.
    // SAFETY: fcntl takes no pointers here.
    let own = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) }).map_err(failed)?;
    // SAFETY: F_DUPFD_CLOEXEC has just made this descriptor, and nothing else owns it.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).map_err(failed)?;
    Ok(own.into())
}
