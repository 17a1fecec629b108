//! The options of `soft:adversarial`.

use std::time::Duration;

use rdma_sys_shim::{AtomicDomain, Error, Result};

/// The name of the device for `--device`.
pub(crate) const DEVICE: &str = "soft:adversarial";

/// Which order is kept beyond the explicit promises of [`rdma_sys_shim::Endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The order of an RC queue pair: a read does not overtake an atomic.
    Rc,
    /// None: a read may overtake an atomic.
    Loose,
}

/// A failure to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An operation fails, whether or not it took effect.
    Completion,
    /// The connection breaks, and all operations in progress fail.
    Connection,
    /// The process stops, as by SIGSTOP from another process.
    Process,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdversarialOptions {
    /// `None` if the seed is drawn.
    pub(crate) seed: Option<u64>,
    /// The longest ordinary delay.
    pub(crate) delay: Duration,
    pub(crate) order: Order,
    pub(crate) cross_memory: bool,
    /// The atomic domain that it reports. In fact, the processor carries out its atomics.
    pub(crate) atomics: AtomicDomain,
    /// It only writes and reads: a thread of the target carries out atomics and stores, over TCP.
    pub(crate) agent_atomics: bool,
    /// One in this many operations fails.
    pub(crate) fail_rate: Option<u64>,
    /// The fault of the operation with this number, counted over the endpoints of the process.
    pub(crate) fault: Option<(Fault, u64)>,
}

const KNOWN: &str = "seed=N, delay=MICROSECONDS, order=rc|loose, cma=on|off, \
                     atomics=device|global|agent, fail=ONE_IN_N, \
                     fail_after=N, break_after=N, stop_after=N";

impl AdversarialOptions {
    /// Parses `seed=7,delay=50`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut options = Self {
            seed: None,
            delay: Duration::from_micros(200),
            order: Order::Rc,
            cross_memory: true,
            atomics: AtomicDomain::Device,
            agent_atomics: false,
            fail_rate: None,
            fault: None,
        };
        for option in text.split(',').filter(|option| !option.is_empty()) {
            options.set(option).ok_or_else(|| Error::BadOption {
                device: DEVICE,
                option: option.to_owned(),
                known: KNOWN,
            })?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> Option<()> {
        let (key, value) = option.split_once('=')?;
        let number = || value.parse::<u64>().ok();
        let count = || number().filter(|&n| n > 0);
        match key {
            "seed" => self.seed = Some(number()?),
            // No test waits longer than a second.
            "delay" => {
                self.delay = Duration::from_micros(number().filter(|&delay| delay <= 1_000_000)?);
            }
            "order" => {
                self.order = match value {
                    "rc" => Order::Rc,
                    "loose" => Order::Loose,
                    _ => return None,
                }
            }
            "cma" => {
                self.cross_memory = match value {
                    "on" => true,
                    "off" => false,
                    _ => return None,
                }
            }
            "atomics" => {
                (self.atomics, self.agent_atomics) = match value {
                    "device" => (AtomicDomain::Device, false),
                    "global" => (AtomicDomain::Global, false),
                    "agent" => (AtomicDomain::Device, true),
                    _ => return None,
                }
            }
            "fail" => self.fail_rate = Some(count()?),
            "fail_after" => self.fault = Some((Fault::Completion, count()?)),
            "break_after" => self.fault = Some((Fault::Connection, count()?)),
            "stop_after" => self.fault = Some((Fault::Process, count()?)),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_understood() {
        let options = AdversarialOptions::parse(
            "seed=7,delay=50,order=loose,cma=off,atomics=global,fail=9,break_after=3",
        );
        let wanted = AdversarialOptions {
            seed: Some(7),
            delay: Duration::from_micros(50),
            order: Order::Loose,
            cross_memory: false,
            atomics: AtomicDomain::Global,
            agent_atomics: false,
            fail_rate: Some(9),
            fault: Some((Fault::Connection, 3)),
        };
        assert_eq!(options.unwrap(), wanted);
        assert_eq!(AdversarialOptions::parse("").unwrap().seed, None);
        let agent = |text| AdversarialOptions::parse(text).unwrap().agent_atomics;
        assert!(agent("atomics=agent") && !agent("atomics=device"));
    }

    #[test]
    fn what_is_not_an_option_is_named() {
        for bad in [
            "seed",
            "seed=x",
            "delay=1000001",
            "fail=0",
            "order=any",
            "map=on",
        ] {
            let message = AdversarialOptions::parse(&format!("seed=1,{bad}"))
                .unwrap_err()
                .to_string();
            assert!(message.contains(&format!("{bad:?}")), "{message}");
            assert!(message.contains("seed=N"), "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "([a-z_]{0,12}=?[a-z0-9]{0,9},?){0,4}") {
            let _ = AdversarialOptions::parse(&text);
        }
    }
}
