//! What the environment can change about connections.

use std::time::Duration;

use ibverbs_sys::ibv_device_attr;

use super::objects::Qos;
use crate::rdma::SEND_QUEUE;
use crate::{Error, Result, variable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Time to wait for a peer device's answer: 4.096 µs · 2^n.
    pub(super) timeout: u8,
    /// The number of retries.
    pub(super) retries: u8,
    /// The longest data in bytes that is copied rather than registered in place; `None`: by the device.
    copied: Option<usize>,
    /// The size of a connection's send queue, in requests.
    pub(super) send_queue: u32,
    /// The key of the partition; `None`: the first in the port's table with full membership.
    pub(super) partition: Option<u16>,
    /// `None`: that of the port.
    pub(super) traffic_class: Option<u8>,
    /// Without the traffic class.
    pub(super) qos: Qos,
    /// How long a peer may take to answer a request for a connection.
    pub(super) connect_timeout: Duration,
}

/// 1.07 s seven times, as in UCX, so that the network has time to find another path. Adapters may take up to four times
/// as long. TCP detects a dead process sooner.
const TIMEOUT: u8 = 18;
const RETRIES: u8 = 6;
const LEAST_SEND_QUEUE: u32 = 32;
/// To register a megabyte and deregister it takes about as long as to copy it. If the kernel is the device, it copies
/// all data anyway, and registers cheaply.
const COPIED: usize = 1 << 20;
const COPIED_IF_EMULATED: usize = 16 << 10;
const COPY: &str = "TRANSOM_RDMA_COPY";
const TRAFFIC_CLASS: &str = "TRANSOM_RDMA_TRAFFIC_CLASS";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Settings {
    /// How long a peer's device must be silent to count as gone.
    pub(super) fn silence(&self) -> Duration {
        let once = Duration::from_nanos(4096) * (1 << self.timeout);
        once * (u32::from(self.retries) + 1)
    }

    /// Adapts these settings to the device: a default is reduced.
    ///
    /// # Errors
    /// A requested number exceeds the device's limit.
    pub(super) fn within(self, limits: &ibv_device_attr) -> Result<Self> {
        // Each request also takes an entry of the completion queue, and one is for receiving.
        let most = limits
            .max_qp_wr
            .min(limits.max_cqe.saturating_sub(1))
            .max(1) as u32;
        if self.send_queue > most.max(SEND_QUEUE) {
            return Err(Error::BadSetting {
                name: "TRANSOM_RDMA_SEND_QUEUE",
                value: self.send_queue.to_string(),
                least: LEAST_SEND_QUEUE.min(most).into(),
                most: most.into(),
            });
        }
        Ok(Self {
            send_queue: self.send_queue.min(most),
            ..self
        })
    }

    /// The longest data in bytes that is copied rather than registered in place. `emulated`: the kernel is the device.
    pub(super) fn copied(&self, emulated: bool) -> usize {
        self.copied.unwrap_or(match emulated {
            true => COPIED_IF_EMULATED,
            false => COPIED,
        })
    }

    /// Adds the settings that make queues long to a refusal that they may have caused.
    pub(super) fn blame(&self, refusal: Error) -> Error {
        match self.send_queue > SEND_QUEUE {
            true => refusal.with_remedy("set TRANSOM_RDMA_SEND_QUEUE to less"),
            false => refusal,
        }
    }

    pub(super) fn from_env() -> Result<Self> {
        Self::read(variable)
    }

    /// The values 0 for the time and 7 for the retries mean "for ever" on some devices, so neither is legal.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |name: &'static str, default: u32, least: u32, most: u32| {
            let Some(text) = variable(name) else {
                return Ok(default);
            };
            match parse(text.trim()) {
                Some(number) if (least..=most).contains(&number) => Ok(number),
                _ => Err(Error::BadSetting {
                    name,
                    value: text,
                    least: least.into(),
                    most: most.into(),
                }),
            }
        };
        let qos = Qos::default();
        let small = |name, default: u8, least, most| {
            number(name, default.into(), least, most).map(|number| number as u8)
        };
        let partition = number("TRANSOM_RDMA_PKEY", 0, 1, 0xffff)?;
        let traffic_class = match variable(TRAFFIC_CLASS) {
            None => None,
            Some(_) => Some(small(TRAFFIC_CLASS, 0, 0, 255)?),
        };
        let copied = match variable(COPY) {
            None => None,
            Some(_) => Some(number(COPY, 0, 0, 1 << 30)? as usize),
        };
        Ok(Self {
            traffic_class,
            partition: (partition != 0).then_some(partition as u16),
            qos: Qos {
                level: small("TRANSOM_RDMA_SERVICE_LEVEL", qos.level, 0, 15)?,
                hop_limit: small("TRANSOM_RDMA_HOP_LIMIT", qos.hop_limit, 1, 255)?,
                ..qos
            },
            timeout: number("TRANSOM_RDMA_TIMEOUT", TIMEOUT.into(), 1, 22)? as u8,
            retries: number("TRANSOM_RDMA_RETRIES", RETRIES.into(), 0, 6)? as u8,
            copied,
            send_queue: number(
                "TRANSOM_RDMA_SEND_QUEUE",
                SEND_QUEUE,
                LEAST_SEND_QUEUE,
                1 << 15,
            )?,
            connect_timeout: connect_timeout(variable("TRANSOM_CONNECT_TIMEOUT"))?,
        })
    }
}

/// Parses the variable's text: seconds, with a fraction.
fn connect_timeout(text: Option<String>) -> Result<Duration> {
    let Some(text) = text else {
        return Ok(CONNECT_TIMEOUT);
    };
    let (least, most) = (0.001, 86_400.0);
    match text.trim().parse() {
        Ok(seconds) if (least..=most).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Error::BadSetting {
            name: "TRANSOM_CONNECT_TIMEOUT",
            value: text,
            least,
            most,
        }),
    }
}

/// Accepts a hexadecimal prefix, too, as in partition keys.
fn parse(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_limits_the_send_queue() {
        let device = |max_qp_wr, max_cqe| ibv_device_attr {
            max_qp_wr,
            max_cqe,
            ..ibv_device_attr::default()
        };
        let set = |value: u32| {
            let text = value.to_string();
            let named = |name: &str| (name == "TRANSOM_RDMA_SEND_QUEUE").then(|| text.clone());
            Settings::read(named).unwrap()
        };
        let given = |value, limits| set(value).within(&limits).map(|kept| kept.send_queue);
        assert_eq!(given(16384, device(16384, 32767)).unwrap(), 16384);
        assert_eq!(given(85, device(60, 32767)).unwrap(), 60);
        for (limits, most) in [(device(16384, 32767), "16384"), (device(16384, 500), "499")] {
            let text = given(32768, limits).unwrap_err().to_string();
            assert!(text.contains("TRANSOM_RDMA_SEND_QUEUE=32768"), "{text}");
            assert!(text.ends_with(&format!("to {most}")), "{text}");
        }
    }

    #[test]
    fn settings_have_defaults_and_limits() {
        let defaults = Settings::read(|_| None).unwrap();
        assert_eq!((defaults.timeout, defaults.retries), (TIMEOUT, RETRIES));
        assert_eq!(defaults.send_queue, SEND_QUEUE);
        assert_eq!(
            [false, true].map(|emulated| defaults.copied(emulated)),
            [1 << 20, 16 << 10]
        );
        type Setting = fn(Settings) -> i64;
        assert_eq!((defaults.partition, defaults.qos), (None, Qos::default()));
        assert_eq!(defaults.traffic_class, None);
        let limits: [(_, Setting, [_; 2]); 8] = [
            ("TIMEOUT", |kept| kept.timeout.into(), [1, 22]),
            ("RETRIES", |kept| kept.retries.into(), [0, 6]),
            ("COPY", |kept| kept.copied(false) as i64, [0, 1 << 30]),
            ("SEND_QUEUE", |kept| kept.send_queue.into(), [32, 1 << 15]),
            (
                "PKEY",
                |kept| kept.partition.unwrap_or(0).into(),
                [1, 0xffff],
            ),
            ("SERVICE_LEVEL", |kept| kept.qos.level.into(), [0, 15]),
            (
                "TRAFFIC_CLASS",
                |kept| kept.traffic_class.unwrap_or(1).into(),
                [0, 255],
            ),
            ("HOP_LIMIT", |kept| kept.qos.hop_limit.into(), [1, 255]),
        ];
        for (name, field, [least, most]) in limits {
            let name = format!("TRANSOM_RDMA_{name}");
            let set = |value: &str| Settings::read(|asked| (asked == name).then(|| value.into()));
            for value in [least, most] {
                let kept = set(&format!(" {value} ")).unwrap();
                assert_eq!(field(kept), value, "{name}");
            }
            assert_eq!(field(set(&format!("{least:#x}")).unwrap()), least);
            let beside = [least - 1, most + 1].map(|value: i64| value.to_string());
            for bad in beside.iter().map(String::as_str).chain(["many", "1.5", ""]) {
                let text = set(bad).unwrap_err().to_string();
                let [set, legal] = [format!("{name}={bad}"), format!("{least} to {most}")];
                assert!(text.contains(&set) && text.contains(&legal), "{text}");
            }
        }
    }

    #[test]
    fn seconds_to_wait_for_a_peer_have_parts_and_limits() {
        let set = |value: &str| {
            let named = |name: &str| (name == "TRANSOM_CONNECT_TIMEOUT").then(|| value.into());
            Settings::read(named).map(|kept| kept.connect_timeout)
        };
        assert_eq!(set("2.5").unwrap(), Duration::from_millis(2500));
        assert_eq!(set(" 30 ").unwrap(), Duration::from_secs(30));
        for bad in ["", "soon", "0", "-1", "NaN", "inf", "1e9"] {
            let text = set(bad).unwrap_err().to_string();
            let expected =
                format!("TRANSOM_CONNECT_TIMEOUT={bad} is not a number from 0.001 to 86400");
            assert_eq!(text, expected);
        }
    }
}
