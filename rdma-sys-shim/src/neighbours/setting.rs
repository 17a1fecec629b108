//! Which ranks of a host map each other's memory.

use std::fmt;

use crate::{Error, Result, variable};

pub(crate) const VARIABLE: &str = "TRANSOM_NEIGHBOURS";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Setting {
    /// All pairs that can be mapped.
    #[default]
    On = 1,
    /// No pair.
    Off,
    /// About half of the pairs, for tests: so mapped and unmapped access use the same words.
    Some,
}

impl Setting {
    /// In the order of their numbers, with their names.
    const ALL: [(Self, &str); 3] = [(Self::On, "on"), (Self::Off, "off"), (Self::Some, "some")];

    pub(crate) fn from_env() -> Result<Self> {
        Self::parse(variable(VARIABLE))
    }

    fn parse(value: Option<String>) -> Result<Self> {
        let Some(value) = value else {
            return Ok(Self::On);
        };
        let has_some = cfg!(feature = "testkit");
        let known = Self::ALL
            .into_iter()
            .find(|&(setting, name)| name == value && (has_some || setting != Self::Some));
        known.map(|(setting, _)| setting).ok_or(Error::BadWord {
            name: VARIABLE,
            value,
            known: match has_some {
                true => "on, off, some",
                false => "on, off",
            },
        })
    }

    pub(super) fn of_byte(byte: u8) -> Option<Self> {
        let mut all = Self::ALL.into_iter().map(|(setting, _)| setting);
        all.find(|&setting| setting as u8 == byte)
    }

    /// Whether these two processes are neighbours, if they can be. Both sides get the same answer.
    pub(super) fn takes(self, pids: [u32; 2]) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::Some => {
                // Neighbouring process numbers, such as those of ranks, must give both answers.
                let mixed = |pid: u32| pid.wrapping_mul(0x9e37_79b9).rotate_left(11);
                (mixed(pids[0]) ^ mixed(pids[1]))
                    .count_ones()
                    .is_multiple_of(2)
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize - 1].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_can_be_is_said_where_it_is_something_else() {
        let parse = |text: &str| Setting::parse(Some(text.to_owned()));
        assert_eq!(Setting::parse(None).unwrap(), Setting::On);
        assert_eq!(parse("on").unwrap(), Setting::On);
        assert_eq!(parse("off").unwrap(), Setting::Off);
        assert_eq!(parse("some").is_ok(), cfg!(feature = "testkit"));
        let message = parse("of").unwrap_err().to_string();
        assert!(
            message.starts_with("TRANSOM_NEIGHBOURS=\"of\" is none of: on, off"),
            "{message}"
        );
    }

    #[test]
    fn some_pairs_are_neighbours_and_both_sides_think_so() {
        let mut counts = [0, 0];
        for first in 100..140 {
            for second in first..140 {
                let takes = Setting::Some.takes([first, second]);
                assert_eq!(takes, Setting::Some.takes([second, first]));
                counts[usize::from(takes)] += 1;
            }
        }
        assert!(counts.iter().all(|&count| count > 200), "{counts:?}");
    }
}
