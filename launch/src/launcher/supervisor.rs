//! The launcher's loop: handles the events of the ranks.
//!
//! If a rank's connection closes while others need the rank, and its process still runs two seconds later, it counts as
//! ended: it has started another program. If a child that the rank forked keeps the connection open, only the peers
//! notice. The word of `notice` may name another rank than the one that failed first; if that rank's process has not
//! ended, the launcher waits up to three seconds for it, and reports its end first.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::epoll::EventFlags;

use super::binding;
use super::limits::OpenFiles;
use super::link::Link;
use super::output::Output;
use super::signals::{self, Signals};
use super::spawn::Template;
use super::terminal::Relay;
use super::warden::Warden;
use super::{Cause, Failure, Launch, LaunchError, Outcome};
use crate::notice::{ABORTED, DIED, LEFT, Notice, REPLACED};
use crate::pmi::{Action, OUR_SPACE, Server};
use crate::processors::Processors;
use crate::sys::{self, Epoll, interest, pidfd_open};

/// How long children of ranks may continue to write after the last rank has ended by itself.
const LINGER: Duration = Duration::from_millis(200);
/// If the writers were killed and a pipe is silent for this long, it counts as drained.
const SILENCE: Duration = Duration::from_millis(100);
/// After a user has asked for the end: how long to wait for a reader that does not read the output.
const READER_LIMIT: Duration = Duration::from_secs(1);
/// How long a rank may take to end after its connection was closed. An ending process closes its descriptors shortly
/// before it ends.
const ENDING: Duration = Duration::from_secs(2);
/// How long a rank that has given up may take to end, before failures of others are reported without its own. It may
/// still be telling its peers.
const GIVING_UP: Duration = Duration::from_secs(3);
/// How many reads of 4 KiB are made from a rank that has ended. The socket holds less than that.
const LAST_WORDS: u32 = 64;

pub(super) fn run(launch: &Launch) -> Result<Outcome, LaunchError> {
    let open_files = OpenFiles::raise(launch.ranks)?;
    let cores = binding::plan(launch.bind_to, launch.ranks)?;
    let mut job = Supervisor::new(launch)?;
    job.start(&cores, open_files.original())?;
    while job.running > 0 {
        job.turn(job.deadline())?;
    }
    job.drain()?;
    job.outcome()
}

struct Supervisor<'a> {
    launch: &'a Launch,
    // Dropped in this order: the ranks are reaped before the group is given up.
    ranks: Vec<Rank>,
    warden: Warden,
    signals: Signals,
    events: Epoll,
    output: Output,
    input: Option<Relay>,
    name: String,
    server: Server,
    notice: Notice,
    running: u32,
    phase: Phase,
    failure: Option<Failure>,
    /// Failures after that of a rank that has given up and has not ended yet, each with its time.
    later: Vec<(u32, Cause, Instant)>,
    signal: Option<i32>,
    refused: Option<LaunchError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// This signal has asked the job to end. The job is killed after the grace period.
    Ending {
        signal: i32,
        kill_at: Instant,
    },
    Killed,
}

struct Rank {
    child: Child,
    ended: Option<ExitStatus>,
    /// Readable once the process has ended.
    watch: OwnedFd,
    link: Link,
    /// Whether other ranks needed it when its connection was closed, or needed it later.
    needed_after_close: bool,
}

impl Drop for Rank {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Neither fails for a child that has not been reaped.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The kind of an event, in the high half of its token. The low half is the rank.
const ENDED: u64 = 0;
const PMI: u64 = 1 << 32;

impl<'a> Supervisor<'a> {
    fn new(launch: &'a Launch) -> Result<Self, LaunchError> {
        let signals =
            Signals::take().map_err(LaunchError::call("taking the signals", "signalfd4"))?;
        let warden = Warden::start().map_err(LaunchError::system("starting the warden"))?;
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("{OUR_SPACE}{}-{:x}", std::process::id(), since.as_nanos());
        let mut server = Server::new(launch.ranks, &name);
        // The caller's earlier output comes before that of the ranks. A failure shows later.
        let _ = io::stdout().flush();
        Ok(Self {
            launch,
            ranks: Vec::new(),
            warden,
            signals,
            events: Epoll::new().map_err(LaunchError::call(
                "creating the event queue",
                "epoll_create1",
            ))?,
            output: Output::new(launch.label, launch.direct_output)
                .map_err(LaunchError::system("opening the output"))?,
            input: None,
            notice: Notice::publish(&mut server),
            server,
            name,
            running: 0,
            phase: Phase::Running,
            failure: None,
            later: Vec::new(),
            signal: None,
            refused: None,
        })
    }

    fn start(&mut self, cores: &[Processors], open_files: libc::rlimit) -> Result<(), LaunchError> {
        let slot = File::open("/dev/null").map_err(LaunchError::system("opening /dev/null"))?;
        let job = self.name.clone();
        let template = Template {
            launch: self.launch,
            group: self.warden.group(),
            job: &job,
            cores,
            open_files,
            signal_mask: self.signals.mask_before(),
            slot: slot.as_raw_fd(),
        };
        let relay = Relay::new().map_err(LaunchError::system("preparing rank 0's input"))?;
        let (relay, mut pipe) = relay.unzip();
        self.input = relay;
        for rank in 0..self.launch.ranks {
            let pair = UnixStream::pair();
            let (pmi, theirs) =
                pair.map_err(LaunchError::call("creating a PMI socket", "socketpair"))?;
            let child = template.spawn(rank, [&pmi, &theirs], pipe.take())?;
            self.admit(child, pmi)
                .map_err(LaunchError::call("watching a rank", "pidfd_open"))?;
            // Starting many ranks takes a while.
            self.obey_signals()?;
            if self.phase != Phase::Running {
                break;
            }
        }
        Ok(())
    }

    fn admit(&mut self, mut child: Child, pmi: UnixStream) -> io::Result<()> {
        let token = self.ranks.len() as u64;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let watched = pidfd_open(&child)
            .and_then(|watch| Ok((watch, Link::new(pmi, &self.events, PMI | token)?)));
        let (watch, link) = match watched {
            Ok(watched) => watched,
            Err(error) => {
                // Neither fails for a child that has not been reaped.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        self.ranks.push(Rank {
            child,
            ended: None,
            watch,
            link,
            needed_after_close: false,
        });
        self.running += 1;
        let watch = &self.ranks[token as usize].watch;
        self.events
            .add(watch.as_fd(), EventFlags::IN, ENDED | token)?;
        if let Some((stdout, stderr)) = pipes {
            self.output.add(stdout.into(), stderr.into())?;
        }
        Ok(())
    }

    /// Sleeps until something happens, and handles it. Returns whether something happened.
    fn turn(&mut self, deadline: Option<Instant>) -> Result<bool, LaunchError> {
        let mut fds = vec![
            interest(self.events.as_raw_fd(), libc::POLLIN),
            interest(self.signals.as_raw_fd(), libc::POLLIN),
        ];
        self.output.interest(&mut fds);
        if let Some(input) = &self.input {
            input.interest(&mut fds);
        }
        let woken =
            sys::poll(&mut fds, deadline).map_err(LaunchError::system("waiting for the ranks"))?;

        self.obey_signals()?;
        let events = self
            .events
            .ready()
            .map_err(LaunchError::system("waiting for the ranks"))?;
        for event in events {
            let rank = event as u32;
            match event & PMI {
                PMI => self.converse(rank),
                _ => self.bury(rank)?,
            }
        }
        if self.input.as_mut().is_some_and(|input| !input.turn()) {
            self.input = None;
        }
        if let Err(error) = self.output.turn() {
            self.refused.get_or_insert(error);
            self.end(libc::SIGTERM);
        }
        self.give_up_replaced();
        self.report_later();
        if let Phase::Ending { signal, kill_at } = self.phase
            && self.running > 0
            && Instant::now() >= kill_at
        {
            let (running, ranks) = (self.running, self.launch.ranks);
            let (grace, name) = (self.launch.grace, signals::name(signal));
            self.say(format_args!(
                "{running} of {ranks} ranks did not end within {grace:?} of {name} and are killed"
            ));
            self.kill();
        }
        Ok(woken)
    }

    fn deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Running => self
                .needed_after_close()
                .map(|(_, since)| since + ENDING)
                .chain(self.later.first().map(|&(_, _, since)| since + GIVING_UP))
                .min(),
            Phase::Ending { kill_at, .. } => Some(kill_at),
            Phase::Killed => None,
        };
        let input = self.input.as_ref().and_then(Relay::deadline);
        phase.into_iter().chain(input).min()
    }

    /// Ranks that continue after their connections were closed although other ranks need them, with the time of the
    /// closing.
    fn needed_after_close(&self) -> impl Iterator<Item = (u32, Instant)> {
        let ranks = (0..).zip(&self.ranks);
        let needed = ranks.filter(|(_, rank)| rank.needed_after_close && rank.ended.is_none());
        needed.filter_map(|(number, rank)| Some((number, rank.link.closed()?)))
    }

    /// Gives up ranks that have started another program: they no longer take part in the job.
    fn give_up_replaced(&mut self) {
        for (number, rank) in (0..).zip(&mut self.ranks) {
            rank.needed_after_close |=
                rank.link.closed().is_some() && self.server.is_needed(number);
        }
        let late = |&(_, since): &(u32, Instant)| since.elapsed() >= ENDING;
        let replaced: Vec<_> = self.needed_after_close().filter(late).collect();
        for (number, _) in replaced {
            self.fail(number, Cause::Replaced);
            // Other ranks do not need it any more, so it may continue.
            let action = self.server.leave(number);
            self.ranks[number as usize].needed_after_close = false;
            if let Some(action) = action {
                self.act(action);
            }
        }
    }

    fn obey_signals(&mut self) -> Result<(), LaunchError> {
        loop {
            match self.signals.next() {
                Ok(Some(libc::SIGTSTP)) => {
                    self.signal_all(libc::SIGTSTP);
                    self.signals
                        .stop_here()
                        .map_err(LaunchError::system("stopping"))?;
                    self.signal_all(libc::SIGCONT);
                }
                Ok(Some(signal)) => {
                    self.signal.get_or_insert(signal);
                    match self.phase {
                        Phase::Running => self.end(signal),
                        _ => self.kill(),
                    }
                }
                Ok(None) => return Ok(()),
                Err(error) => return Err(LaunchError::system("reading the signals")(error)),
            }
        }
    }

    /// Asks the job to end.
    fn end(&mut self, signal: i32) {
        if self.phase == Phase::Running {
            let kill_at = Instant::now() + self.launch.grace;
            self.phase = Phase::Ending { signal, kill_at };
            self.signal_all(signal);
        }
    }

    fn kill(&mut self) {
        self.phase = Phase::Killed;
        self.signal_all(libc::SIGKILL);
    }

    fn signal_all(&self, signal: i32) {
        let group = self.warden.group();
        self.warden.signal(signal);
        // A rank may have moved to another process group or session.
        for rank in self.ranks.iter().filter(|rank| rank.ended.is_none()) {
            let pid = rank.child.id().cast_signed();
            // SAFETY: both take integers; the pid is our unreaped child's.
            unsafe {
                if libc::getpgid(pid) != group {
                    libc::kill(pid, signal);
                }
            }
        }
    }

    /// Serves the requests of a rank.
    fn converse(&mut self, rank: u32) {
        let mut buffer = [0_u8; 4096];
        let link = &mut self.ranks[rank as usize].link;
        let bytes = link.receive(&self.events, &mut buffer);
        for action in self.server.receive(rank, bytes) {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Reply { rank, line } => self.send(rank, &line),
            Action::Release { line } => {
                for rank in 0..self.launch.ranks {
                    self.send(rank, &line);
                }
            }
            Action::Abort {
                rank,
                code,
                message,
            } => {
                self.fail(rank, Cause::Aborted { code, message });
            }
            Action::Stuck {
                missing,
                waiting,
                line,
            } => {
                self.fail(missing, Cause::Left);
                if self.phase == Phase::Running {
                    for rank in waiting {
                        self.send(rank, &line);
                    }
                }
            }
        }
    }

    fn send(&mut self, rank: u32, line: &str) {
        // If the start was interrupted, some ranks do not exist.
        if let Some(rank) = self.ranks.get_mut(rank as usize) {
            rank.link.send(&self.events, line);
        }
    }

    /// Handles the end of a rank, after all its requests.
    fn bury(&mut self, number: u32) -> Result<(), LaunchError> {
        let rank = &mut self.ranks[number as usize];
        let status = (rank.child.try_wait()).map_err(LaunchError::system("reaping a rank"))?;
        let Some(status) = status else {
            return Ok(());
        };
        rank.ended = Some(status);
        self.events.remove(rank.watch.as_fd());
        self.running -= 1;
        if number == 0 {
            self.input = None;
        }
        // Limited, because a child of the rank may continue to send.
        for _ in 0..LAST_WORDS {
            if self.ranks[number as usize].link.is_ready() {
                self.converse(number);
            }
        }
        self.ranks[number as usize].link.hang_up(&self.events);

        let needed = self.server.is_needed(number);
        match (status.code(), status.signal()) {
            (Some(0), _) if needed => self.fail(number, Cause::Left),
            (Some(0), _) => {}
            (Some(code), _) => self.fail(number, Cause::Exited(code as u8)),
            (None, signal) => self.fail(number, Cause::Killed(signal.unwrap_or(0))),
        }
        if let Some(action) = self.server.leave(number) {
            self.act(action);
        }
        Ok(())
    }

    /// Records and reports a failure, unless it is a consequence of the job's end or of an earlier failure of the same
    /// rank.
    fn fail(&mut self, rank: u32, cause: Cause) {
        if self.phase != Phase::Running {
            return;
        }
        if self.follows(rank) {
            self.later.push((rank, cause, Instant::now()));
            return;
        }
        self.report(rank, cause);
    }

    /// Whether another rank has failed before this one, and its end will say how.
    fn follows(&self, rank: u32) -> bool {
        let first = self.notice.first().filter(|&first| first != rank);
        let first = first.and_then(|first| self.ranks.get(first as usize));
        first.is_some_and(|first| first.ended.is_none())
    }

    fn report_later(&mut self) {
        let Some(&(rank, _, since)) = self.later.first() else {
            return;
        };
        if self.follows(rank) && since.elapsed() < GIVING_UP {
            return;
        }
        for (rank, cause, _) in std::mem::take(&mut self.later) {
            self.report(rank, cause);
        }
    }

    fn report(&mut self, rank: u32, cause: Cause) {
        if self.phase != Phase::Running {
            return;
        }
        let aborts = matches!(cause, Cause::Aborted { .. });
        let pid = self.ranks[rank as usize].child.id();
        let failure = Failure { rank, pid, cause };
        self.output.catch_up(rank);
        self.say(format_args!("{failure}"));
        let cause = match failure.cause {
            Cause::Exited(_) | Cause::Killed(_) => DIED,
            Cause::Aborted { .. } => ABORTED,
            Cause::Left => LEFT,
            Cause::Replaced => REPLACED,
        };
        self.failure.get_or_insert(failure);
        if aborts || !self.launch.keep_going {
            self.end(libc::SIGTERM);
        }
        if self.server.is_needed(rank) {
            self.notice.tell(rank, cause);
        }
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        let line = format!("{}: {text}", self.launch.name);
        self.output.say(&line);
    }

    /// Call it after the last rank has ended. Reads what is left in the pipes, and ends what is left in the group.
    fn drain(&mut self) -> Result<(), LaunchError> {
        self.input = None;
        if self.phase == Phase::Running {
            let deadline = Instant::now() + LINGER;
            while self.output.has_pipes() && Instant::now() < deadline {
                self.turn(Some(deadline))?;
            }
        }
        self.warden.signal(libc::SIGKILL);
        self.output.last_call();
        let started = Instant::now();
        let abandoned = |job: &Self| job.signal.is_some() && started.elapsed() > READER_LIMIT;
        while self.output.has_pipes() && !abandoned(self) {
            let busy = self.turn(Some(Instant::now() + SILENCE))?;
            if !busy && !self.output.is_full() {
                break;
            }
        }
        self.output.close();
        if self.phase != Phase::Running {
            self.output.clear_line();
        }
        while !self.output.is_flushed() && !abandoned(self) {
            // Without a deadline a reader may take as long as it likes.
            let deadline = self.signal.map(|_| Instant::now() + SILENCE);
            self.turn(deadline)?;
        }
        Ok(())
    }

    fn outcome(self) -> Result<Outcome, LaunchError> {
        let reader_gone = match self.refused {
            Some(LaunchError::Output { source, .. })
                if source.kind() == io::ErrorKind::BrokenPipe =>
            {
                true
            }
            Some(error) if self.failure.is_none() && self.signal.is_none() => return Err(error),
            _ => false,
        };
        Ok(Outcome {
            failure: self.failure,
            signal: self.signal,
            reader_gone,
        })
    }
}
