//! The PCIe link of an adapter, beside the best that the adapter can have.

use std::fmt;
use std::fs;
use std::path::Path;

/// A speed and a width.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Link {
    width: u32,
    /// In 10^9 transfers per second.
    speed: f64,
}

impl Link {
    /// What it carries in one direction, in Mb/s: a bit with each transfer, less those of the encoding.
    fn rate(self) -> f64 {
        let share = if self.speed < 8.0 { 0.8 } else { 128.0 / 130.0 };
        f64::from(self.width) * self.speed * share * 1000.0
    }
}

impl fmt::Display for Link {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "x{} at {} GT/s", self.width, self.speed)
    }
}

/// The link that an adapter has, and the best that it could have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    now: Link,
    most: Link,
}

impl Slot {
    /// Reads it below `class`. `None` if the device is not on PCIe, or nobody knows, as of virtual functions.
    pub(super) fn read(class: &Path, device: &str) -> Option<Self> {
        let number = |file: &str| -> Option<f64> {
            let text = fs::read_to_string(class.join(device).join("device").join(file)).ok()?;
            let number = text.split_whitespace().next()?.parse().ok()?;
            (number > 0.0).then_some(number)
        };
        let link = |which: &str| {
            Some(Link {
                width: number(&format!("{which}_link_width"))? as u32,
                speed: number(&format!("{which}_link_speed"))?,
            })
        };
        Some(Self {
            now: link("current")?,
            most: link("max")?,
        })
    }

    /// Whether a port of this speed in Mb/s has to wait for it, though the adapter could have a faster one.
    pub(super) fn is_too_slow_for(&self, speed: u64) -> bool {
        let now = self.now.rate();
        now < self.most.rate() && now < speed as f64
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "PCIe {}", self.now)?;
        match self.now == self.most {
            true => to.write_str(", its most"),
            false => write!(to, ", of at most {}", self.most),
        }
    }
}
