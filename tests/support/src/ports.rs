//! Ports for tests that listen.

use std::fs;
use std::net::{Ipv6Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the system assigns by itself, so that no connection has one of these by chance.
const FIRST: u16 = 10_000;
const OF_A_PROCESS: u16 = 100;
const PROCESSES: u32 = 200;

/// A port at which no process listens. No other test of this process gets it, and another process's test is unlikely
/// to.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = (std::process::id() % PROCESSES) as u16;
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + process * OF_A_PROCESS + next % OF_A_PROCESS;
        if !is_taken(port) {
            return port;
        }
        assert!(next < 10 * OF_A_PROCESS, "all ports are taken");
    }
}

/// Whether a process listens at the port, at any address. This must not bind the port: a process that another test
/// starts at that moment would hold the bound socket until it runs its program, and the port would be in use for the
/// test.
fn is_taken(port: u16) -> bool {
    const LISTENS: &str = "0A";
    let taken = format!(":{port:04X}");
    let is_it = |line: &str| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1), fields.nth(1));
        state == Some(LISTENS) && local.is_some_and(|local| local.ends_with(&taken))
    };
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .any(|table| table.lines().any(is_it))
}

/// Whether IPv6 works on this machine's loopback.
pub fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_at_which_somebody_listens_is_taken() {
        let port = free_port();
        let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert!(is_taken(port));
        assert!(!is_taken(free_port()));
    }
}
