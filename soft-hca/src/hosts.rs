//! Network namespaces as two hosts, each with a boot ID of its own, so that programs take them for machines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The most hosts: they are joined by one cable.
pub(crate) const MOST: usize = 2;

const LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Hosts {
    /// The processes that keep the namespaces. They end when their input does, which is when this process ends.
    keepers: Vec<Child>,
    boots: Vec<PathBuf>,
}

impl Hosts {
    /// Makes hosts. Their files are in `folder`.
    pub(crate) fn new(count: usize, folder: &Path) -> io::Result<Self> {
        let mut hosts = Self {
            keepers: Vec::new(),
            boots: Vec::new(),
        };
        let outside = fs::read_link("/proc/self/ns/net")?;
        for host in 0..count {
            let mut keeper = Command::new("unshare");
            keeper.args(["--net", "--", "cat"]).stdin(Stdio::piped());
            hosts.keepers.push(named("unshare", keeper.spawn())?);
            let end = Instant::now() + LIMIT;
            while fs::read_link(hosts.namespace(host))
                .ok()
                .is_none_or(|inside| inside == outside)
            {
                if Instant::now() > end || hosts.keepers[host].try_wait()?.is_some() {
                    return Err(io::Error::other("no network namespace could be made"));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let boot = folder.join(format!("boot{host}"));
            fs::write(
                &boot,
                format!("0000000{host}-0000-4000-8000-{:012}\n", std::process::id()),
            )?;
            hosts.boots.push(boot);
            hosts.run_in(host, &["ip", "link", "set", "lo", "up"])?;
            if count == 1 {
                let address = format!("{}/32", address(host));
                hosts.run_in(host, &["ip", "address", "add", &address, "dev", "lo"])?;
            }
        }
        if let [one, two] = &hosts.keepers[..] {
            let (one, two) = (one.id().to_string(), two.id().to_string());
            run(&[
                "ip", "link", "add", "cable", "netns", &one, "type", "veth", "peer", "name",
                "cable", "netns", &two,
            ])?;
            for host in 0..2 {
                let address = format!("{}/24", address(host));
                hosts.run_in(host, &["ip", "address", "add", &address, "dev", "cable"])?;
                hosts.run_in(host, &["ip", "link", "set", "cable", "up"])?;
            }
            for host in 0..2 {
                hosts.wait_for_cable(host)?;
            }
        }
        Ok(hosts)
    }

    fn namespace(&self, host: usize) -> PathBuf {
        format!("/proc/{}/ns/net", self.keepers[host].id()).into()
    }

    /// A command on a host; its program and arguments are to be added.
    pub(crate) fn command(&self, host: usize) -> Command {
        let mut command = Command::new("nsenter");
        let namespace = format!("--net={}", self.namespace(host).display());
        let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        command
            .args([
                &namespace, "--", "unshare", "--mount", "--", "sh", "-c", script,
            ])
            .arg(&self.boots[host]);
        command
    }

    /// The kernel takes a moment to find that both ends are up.
    fn wait_for_cable(&self, host: usize) -> io::Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let namespace = format!("--net={}", self.namespace(host).display());
            let mut show = Command::new("nsenter");
            show.args([
                &namespace, "--", "ip", "-brief", "link", "show", "up", "cable",
            ]);
            let shown = named("nsenter", show.output())?;
            if String::from_utf8_lossy(&shown.stdout).contains(" UP ") {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(io::Error::other("the cable between the hosts stays down"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn run_in(&self, host: usize, words: &[&str]) -> io::Result<()> {
        let namespace = format!("--net={}", self.namespace(host).display());
        run(&[&["nsenter", &namespace, "--"], words].concat())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for keeper in &mut self.keepers {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// The IP address of a host.
pub(crate) fn address(host: usize) -> String {
    format!("198.18.1.{}", host + 1)
}

fn run(words: &[&str]) -> io::Result<()> {
    let status = named(words[0], Command::new(words[0]).args(&words[1..]).status())?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{}: {status}", words.join(" ")))),
    }
}

pub(crate) fn named<T>(program: &str, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))
}
