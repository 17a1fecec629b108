//! A rank's side of PMI-1.1.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::PmiError;
use super::environment::{Launcher, not_a_socket};
use super::mapping::NodeMap;
use super::siblings::Siblings;
use super::wire::{Builder, Line, LineBuffer, MAX_REQUEST, Message, escape, is_plain};
use crate::environment::start_limit;

const BARRIER: &str = "barrier";
/// How often a rank that waits there counts the others.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The connection to the launcher.
///
/// Requests block until the reply is there; threads take turns. Only [`Client::abort`] waits for
/// nobody.
pub struct Client {
    socket: OwnedFd,
    rank: u32,
    size: u32,
    limits: Limits,
    /// How long a reply is waited for. `None`: for ever.
    timeout: Option<Duration>,
    /// Those that a launcher may wait for in vain.
    siblings: Option<Siblings>,
    /// Held from a request to its reply.
    replies: Mutex<Replies>,
}

struct Limits {
    space: String,
    key: usize,
    value: usize,
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
    /// The launcher cannot be talked to, or does not speak PMI-1.1.
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

    /// Does the handshake over a connected socket.
    pub(super) fn connect(
        socket: OwnedFd,
        rank: u32,
        size: u32,
        timeout: Option<Duration>,
    ) -> Result<Self, PmiError> {
        let mut client = Self {
            socket,
            rank,
            size,
            limits: Limits {
                space: String::new(),
                key: 64,
                value: MAX_REQUEST,
            },
            timeout,
            siblings: None,
            replies: Mutex::default(),
        };
        // Exactly 1.1: Slurm refuses 1.2.
        let hello = Builder::new("init")
            .with("pmi_version", 1)
            .with("pmi_subversion", 1);
        let reply = client.ask("init", hello, "response_to_init")?;
        let version = |key| Message::parse(&reply).and_then(|m| m.number::<u32>(key));
        // MPICH 5's Hydra answers with the later 1.2, which it speaks as well.
        let spoken = (version("pmi_version"), version("pmi_subversion"));
        if !matches!(spoken, (Some(1), Some(1..))) {
            return Err(PmiError::Malformed {
                request: "init",
                reply,
            });
        }

        let request = "get_maxes";
        let reply = client.ask(request, Builder::new(request), "maxes")?;
        let limit = |key| Message::parse(&reply).and_then(|m| m.number::<usize>(key));
        // The maxima count the terminating zero of a C string.
        let (Some(key @ 2..), Some(value @ 2..)) = (limit("keylen_max"), limit("vallen_max"))
        else {
            return Err(PmiError::Malformed { request, reply });
        };

        let request = "get_my_kvsname";
        let reply = client.ask(request, Builder::new(request), "my_kvsname")?;
        let space = match Message::parse(&reply).and_then(|m| m.get("kvsname")) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => return Err(PmiError::Malformed { request, reply }),
        };
        client.limits = Limits {
            space,
            key: key - 1,
            value: value - 1,
        };
        Ok(client)
    }

    /// Local. Which of the job's ranks this is.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Local. How many ranks the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The launcher's name for the job's keys and values.
    pub(crate) fn space(&self) -> &str {
        &self.limits.space
    }

    /// Local. Whether the launcher has hung up.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: 0,
            revents: 0,
        };
        // SAFETY: the pointer is to one pollfd.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready > 0 && poll.revents & libc::POLLHUP != 0
    }

    /// Publishes a value, visible to all ranks after the next barrier.
    ///
    /// # Errors
    /// The key or the value is empty, longer than the launcher takes, or has a character that would end
    /// it; the launcher is gone, refuses, or does not answer in time.
    pub fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        self.check_key(key)?;
        check_plain("value", value)?;
        let request = Builder::new("put")
            .with("kvsname", &self.limits.space)
            .with("key", key)
            .with("value", value);
        let rest = request.len() - value.len();
        let max = self.limits.value.min(MAX_REQUEST.saturating_sub(rest + 1));
        check_length("value", value.len(), max)?;
        self.ask("put", request, "put_result")?;
        Ok(())
    }

    /// The value that some rank had put before the last barrier.
    ///
    /// # Errors
    /// Nobody had ([`PmiError::NoKey`]); else as for [`Client::put`].
    pub fn get(&self, key: &str) -> Result<String, PmiError> {
        self.check_key(key)?;
        let request = Builder::new("get")
            .with("kvsname", &self.limits.space)
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
            None => Err(PmiError::Malformed {
                request: "get",
                reply,
            }),
        }
    }

    /// Collective. Waits until every rank of the job has entered, or for the timeout: Slurm tells nobody
    /// that a rank has ended before.
    ///
    /// # Errors
    /// A rank has ended that had not entered; else as for [`Client::put`].
    pub fn barrier(&self) -> Result<(), PmiError> {
        self.ask(BARRIER, Builder::new("barrier_in"), "barrier_out")?;
        Ok(())
    }

    /// Which ranks share a node, if the launcher says so.
    ///
    /// # Errors
    /// What it says is no mapping; else as for [`Client::put`].
    pub fn process_mapping(&self) -> Result<Option<NodeMap>, PmiError> {
        match self.get("PMI_process_mapping") {
            Ok(text) => match NodeMap::parse(&text) {
                Some(map) => Ok(Some(map)),
                None => Err(PmiError::Malformed {
                    request: "get PMI_process_mapping",
                    reply: text,
                }),
            },
            Err(PmiError::NoKey { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Leaves the job. Ending without it counts as a failure of this rank.
    ///
    /// # Errors
    /// As for [`Client::put`].
    pub fn finalize(self) -> Result<(), PmiError> {
        self.ask("finalize", Builder::new("finalize"), "finalize_ack")?;
        Ok(())
    }

    /// Asks the launcher to end the job. Returns at once, also while another thread is in a
    /// request; the caller then exits with `code`, or waits to be killed.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn abort(&self, code: i32, message: &str) -> Result<(), PmiError> {
        // A quarter of the line for the text, which may triple when it is escaped.
        let starts = message
            .char_indices()
            .map(|(at, _)| at)
            .chain([message.len()]);
        let end = starts
            .take_while(|&at| at <= MAX_REQUEST / 4)
            .last()
            .unwrap_or(0);
        let line = Builder::new("abort")
            .with("exitcode", code)
            .with("message", escape(&message[..end]))
            .finish();
        self.send("abort", line.as_bytes())
    }

    fn check_key(&self, key: &str) -> Result<(), PmiError> {
        check_length("key", key.len(), self.limits.key)?;
        check_plain("key", key)
    }

    /// Sends a request and returns its reply, which has the command `expected` and no bad `rc`.
    fn ask(
        &self,
        request: &'static str,
        line: Builder,
        expected: &str,
    ) -> Result<String, PmiError> {
        let mut replies = self.lock_replies();
        self.send(request, line.finish().as_bytes())?;
        let reply = match self.read_line(request, &mut replies)? {
            Line::Text(text) => text,
            Line::Unreadable => {
                let reply = "(unreadable)".to_owned();
                return Err(PmiError::Malformed { request, reply });
            }
        };
        let Some(message) = Message::parse(&reply) else {
            return Err(PmiError::Malformed { request, reply });
        };
        // `rc` may be missing, where nothing can go wrong.
        let failed = message.get("rc").is_some_and(|rc| rc != "0");
        if failed {
            let reason = message.get("msg").unwrap_or("no reason given").to_owned();
            return Err(PmiError::Refused { request, reason });
        }
        if message.command() != expected {
            return Err(PmiError::Malformed { request, reply });
        }
        Ok(reply)
    }

    fn lock_replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One system call for the whole line, as Slurm needs it.
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
                    if self.may_try_again(request)? {
                        self.await_event(libc::POLLOUT, None);
                    }
                }
            }
        }
        Ok(())
    }

    fn read_line(&self, request: &'static str, replies: &mut Replies) -> Result<Line, PmiError> {
        let begun = Instant::now();
        loop {
            if let Some(line) = replies.ready.pop_front() {
                return Ok(line);
            }
            let left = match self.timeout {
                Some(timeout) => match timeout.checked_sub(begun.elapsed()) {
                    Some(left) => Some(left),
                    None => return Err(PmiError::NoReply { request, timeout }),
                },
                None => None,
            };
            // Of the requests, only this one waits for other ranks.
            let siblings = self.siblings.as_ref().filter(|_| request == BARRIER);
            let until = match siblings {
                Some(_) => Some(left.unwrap_or(COUNT_EVERY).min(COUNT_EVERY)),
                None => left,
            };
            if !self.await_event(libc::POLLIN, until) {
                // One that is released may end before another has looked here.
                if siblings.is_some_and(Siblings::are_fewer)
                    && !self.await_event(libc::POLLIN, Some(Duration::ZERO))
                {
                    return Err(PmiError::Missing { request });
                }
                continue;
            }
            let mut bytes = [0_u8; 4096];
            // SAFETY: the pointer and the length are those of a live array.
            let received = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    0,
                )
            };
            match usize::try_from(received) {
                Ok(0) => return Err(PmiError::Closed { request }),
                Ok(received) => replies
                    .ready
                    .extend(replies.buffer.push(&bytes[..received])),
                Err(_) => drop(self.may_try_again(request)?),
            }
        }
    }

    /// Sleeps until the socket is ready for `event`, for `limit` at most. Says whether a call is
    /// worth trying, which then finds out what is wrong with the socket, if anything.
    fn await_event(&self, event: i16, limit: Option<Duration>) -> bool {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: event,
            revents: 0,
        };
        // Rounded up, or the last millisecond would be a busy one.
        let millis = limit.map_or(-1, |limit| {
            i32::try_from(limit.as_millis() + 1).unwrap_or(i32::MAX)
        });
        // SAFETY: the pointer is to one pollfd.
        unsafe { libc::poll(&raw mut poll, 1, millis) > 0 }
    }

    /// After a failed call: whether the socket was not ready, as a launcher may pass a
    /// non-blocking one, or was only interrupted (`false`). Anything else is an error.
    fn may_try_again(&self, request: &'static str) -> Result<bool, PmiError> {
        let source = io::Error::last_os_error();
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
}

/// Takes the inherited socket, and keeps it from this process's own children.
fn adopt(fd: RawFd) -> Result<OwnedFd, PmiError> {
    // SAFETY: an all-zero stat is a valid value, and fstat only writes to it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above; a number that is no open descriptor is an error and nothing else.
    let failed = unsafe { libc::fstat(fd, &raw mut stat) } != 0;
    if failed || stat.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return Err(not_a_socket().into());
    }
    // A duplicate, because the number came from outside and may have another owner.
    // SAFETY: fcntl takes no pointers here.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: as above.
    if own < 0 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(PmiError::Io {
            what: "taking over PMI_FD",
            source: io::Error::last_os_error(),
        });
    }
    // SAFETY: F_DUPFD_CLOEXEC made this descriptor just now, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

fn check_length(what: &'static str, len: usize, max: usize) -> Result<(), PmiError> {
    match len {
        len if (1..=max).contains(&len) => Ok(()),
        len => Err(PmiError::Length { what, len, max }),
    }
}

fn check_plain(what: &'static str, text: &str) -> Result<(), PmiError> {
    match is_plain(text) {
        true => Ok(()),
        false => Err(PmiError::Characters {
            what,
            text: text.to_owned(),
        }),
    }
}
