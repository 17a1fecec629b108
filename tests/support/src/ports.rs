//! Ports for tests that listen.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Of those that the system gives to nobody by itself, so that no connection has it by chance.
const FIRST: u16 = 10_000;
const OF_A_PROCESS: u16 = 100;
const PROCESSES: u32 = 200;

/// A port at which nobody listens, and which no other test of this process, and hardly one of another,
/// is given.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = (std::process::id() % PROCESSES) as u16;
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + process * OF_A_PROCESS + next % OF_A_PROCESS;
        let is_free = |host| TcpListener::bind(SocketAddr::new(host, port)).is_ok();
        if is_free(Ipv4Addr::UNSPECIFIED.into())
            && (!has_ipv6() || is_free(Ipv6Addr::LOCALHOST.into()))
        {
            return port;
        }
        assert!(next < 10 * OF_A_PROCESS, "all ports are taken");
    }
}

/// Whether this machine can speak IPv6 with itself.
pub fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}
