//! The launcher's side of PMI-1.1, as a state machine: it takes bytes from a rank and returns actions. It owns no
//! socket and starts no process.

use std::collections::HashMap;

use super::left_key;
use super::wire::{Builder, LONG_VALUE_MAX, Line, LineBuffer, Message, unescape};

const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 1024;
const LONG_VALUE: usize = 1 << 15;
const NAME_MAX: usize = 256;

/// An action of the launcher for its ranks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send this line to one rank.
    Reply { rank: u32, line: String },
    /// Every rank has entered the barrier: send this line to all.
    Release { line: String },
    /// A rank wants the job to end.
    Abort {
        rank: u32,
        code: i32,
        message: Option<String>,
    },
    /// Ranks wait in a barrier that `missing`, which has left, can never enter. Unless the job is ended, send
    /// them `line`.
    Stuck {
        missing: u32,
        waiting: Vec<u32>,
        line: String,
    },
}

/// The key-value service of one job.
pub(crate) struct Server {
    name: String,
    visible: HashMap<String, String>,
    /// The values put since the last barrier.
    staged: Vec<(String, String)>,
    ranks: Vec<Connection>,
    waiting: usize,
    /// The first rank that left. After that no barrier can complete.
    departed: Option<u32>,
}

#[derive(Default)]
struct Connection {
    input: LineBuffer,
    /// True from its `init` until it finalizes or ends. A second program of the same rank may start over.
    has_joined: bool,
    in_barrier: bool,
}

impl Server {
    /// The service of a job of `size` ranks, all on one node.
    pub(crate) fn new(size: u32, name: &str) -> Self {
        let mapping = format!("(vector,(0,1,{size}))");
        Self {
            name: name.to_owned(),
            visible: HashMap::from([("PMI_process_mapping".to_owned(), mapping)]),
            staged: Vec::new(),
            ranks: (0..size).map(|_| Connection::default()).collect(),
            waiting: 0,
            departed: None,
        }
    }

    /// Makes a value visible at once.
    pub(crate) fn publish(&mut self, key: &str, value: String) {
        self.visible.insert(key.to_owned(), value);
    }

    /// Takes bytes from the socket of `rank`, in whatever pieces they arrive.
    pub(crate) fn receive(&mut self, rank: u32, bytes: &[u8]) -> Vec<Action> {
        let lines = self.ranks[rank as usize].input.push(bytes);
        let mut actions = Vec::new();
        for line in lines {
            let action = match &line {
                Line::Text(text) => match Message::parse(text) {
                    Some(message) => self.serve(rank, &message),
                    None => Some(refuse(rank, "error", "malformed_request")),
                },
                Line::Unreadable => Some(refuse(rank, "error", "unreadable_request")),
            };
            actions.extend(action);
        }
        actions
    }

    /// Notes that the process of `rank` has ended.
    pub(crate) fn leave(&mut self, rank: u32) -> Option<Action> {
        let entry = &mut self.ranks[rank as usize];
        entry.has_joined = false;
        if std::mem::take(&mut entry.in_barrier) {
            self.waiting -= 1;
        }
        self.departed.get_or_insert(rank);
        self.stuck()
    }

    /// Whether `rank` is in the job together with other ranks.
    pub(crate) fn is_needed(&self, rank: u32) -> bool {
        self.ranks[rank as usize].has_joined
            && self.ranks.iter().filter(|rank| rank.has_joined).count() > 1
    }

    fn serve(&mut self, rank: u32, message: &Message<'_>) -> Option<Action> {
        let command = message.command();
        let answer = match command {
            "init" => self.init(rank, message),
            "abort" => {
                let text = message.get("message").map(unescape);
                return Some(Action::Abort {
                    rank,
                    code: message.number("exitcode").unwrap_or(1),
                    message: text.map(|text| String::from_utf8_lossy(&text).into_owned()),
                });
            }
            _ if !self.ranks[rank as usize].has_joined => Err("not_initialized"),
            "get_maxes" => Ok(succeeded("maxes")
                .with("kvsname_max", NAME_MAX)
                .with("keylen_max", KEY_MAX)
                .with("vallen_max", VALUE_MAX)
                .with(LONG_VALUE_MAX, LONG_VALUE)),
            "get_appnum" => Ok(succeeded("appnum").with("appnum", 0)),
            "get_universe_size" => Ok(succeeded("universe_size").with("size", self.ranks.len())),
            "get_my_kvsname" => Ok(succeeded("my_kvsname").with("kvsname", &self.name)),
            "put" => self.put(message),
            "get" => self.get(message),
            "barrier_in" => return self.enter_barrier(rank),
            "finalize" => {
                self.ranks[rank as usize].has_joined = false;
                self.publish(&left_key(rank), "1".to_owned());
                Ok(succeeded("finalize_ack"))
            }
            _ => Err("unknown_command"),
        };
        Some(match answer {
            Ok(line) => Action::Reply {
                rank,
                line: line.finish(),
            },
            Err(reason) => refuse(rank, &result_of(command), reason),
        })
    }

    fn init(&mut self, rank: u32, message: &Message<'_>) -> Result<Builder, &'static str> {
        if message.get("pmi_version") != Some("1") {
            return Err("only_PMI_1.1_is_served");
        }
        self.ranks[rank as usize].has_joined = true;
        self.visible.remove(&left_key(rank));
        Ok(Builder::new("response_to_init")
            .with("pmi_version", 1)
            .with("pmi_subversion", 1)
            .with("rc", 0))
    }

    fn put(&mut self, message: &Message<'_>) -> Result<Builder, &'static str> {
        let (Some(key), Some(value)) = (message.get("key"), message.get("value")) else {
            return Err("key_or_value_missing");
        };
        self.check_space(message)?;
        if key.is_empty() || key.len() > KEY_MAX || value.len() > LONG_VALUE {
            return Err("key_or_value_too_long");
        }
        self.staged.push((key.to_owned(), value.to_owned()));
        Ok(succeeded("put_result"))
    }

    fn get(&self, message: &Message<'_>) -> Result<Builder, &'static str> {
        let key = message.get("key").ok_or("key_missing")?;
        self.check_space(message)?;
        let value = self.visible.get(key).ok_or("key_not_found")?;
        Ok(succeeded("get_result").with("value", value))
    }

    fn check_space(&self, message: &Message<'_>) -> Result<(), &'static str> {
        match message.get("kvsname").is_none_or(|name| name == self.name) {
            true => Ok(()),
            false => Err("unknown_kvsname"),
        }
    }

    fn enter_barrier(&mut self, rank: u32) -> Option<Action> {
        if !std::mem::replace(&mut self.ranks[rank as usize].in_barrier, true) {
            self.waiting += 1;
        }
        if self.waiting < self.ranks.len() {
            return self.stuck();
        }
        self.waiting = 0;
        self.ranks
            .iter_mut()
            .for_each(|rank| rank.in_barrier = false);
        self.visible.extend(self.staged.drain(..));
        let line = succeeded("barrier_out").finish();
        Some(Action::Release { line })
    }

    fn stuck(&mut self) -> Option<Action> {
        let missing = self.departed.filter(|_| self.waiting > 0)?;
        let mut waiting = Vec::with_capacity(self.waiting);
        for (number, rank) in (0..).zip(&mut self.ranks) {
            if std::mem::take(&mut rank.in_barrier) {
                waiting.push(number);
            }
        }
        self.waiting = 0;
        let line = Builder::new("barrier_out")
            .with("rc", -1)
            .with("msg", format!("rank_{missing}_has_left_the_job"))
            .finish();
        Some(Action::Stuck {
            missing,
            waiting,
            line,
        })
    }
}

fn succeeded(reply: &str) -> Builder {
    Builder::new(reply).with("rc", 0)
}

fn refuse(rank: u32, reply: &str, reason: &str) -> Action {
    let line = Builder::new(reply)
        .with("rc", -1)
        .with("msg", reason)
        .finish();
    Action::Reply { rank, line }
}

fn result_of(command: &str) -> String {
    match command {
        "init" => "response_to_init".to_owned(),
        "barrier_in" => "barrier_out".to_owned(),
        "finalize" => "finalize_ack".to_owned(),
        other => format!("{}_result", other.strip_prefix("get_").unwrap_or(other)),
    }
}
