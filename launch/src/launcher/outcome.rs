//! How a job ended.

use std::fmt::{self, Write as _};

use super::signals;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    pub(super) failure: Option<Failure>,
    pub(super) signal: Option<i32>,
    pub(super) reader_gone: bool,
}

impl Outcome {
    /// The exit code for the launcher: 0 if all went well, otherwise that of the rank that failed first. It is 128 + N
    /// if signal N killed that rank or told the launcher to end the job. It is that of signal 13 if nobody reads the
    /// output.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (&self.failure, self.signal) {
            (Some(failure), _) => failure.exit_code(),
            (None, Some(signal)) => of_signal(signal),
            (None, None) if self.reader_gone => of_signal(libc::SIGPIPE),
            (None, None) => 0,
        }
    }

    /// The rank that failed first, if one did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The signal by which the launcher was told to end the job.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.signal
    }
}

/// The failure of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rank.
    pub rank: u32,
    /// The PID of its process.
    pub pid: u32,
    /// How it failed.
    pub cause: Cause,
}

/// How a rank failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// It exited with a code other than 0.
    Exited(u8),
    /// It was killed by a signal.
    Killed(i32),
    /// It asked for the end of the job.
    Aborted {
        /// The exit code that it asked for.
        code: i32,
        /// Its reason.
        message: Option<String>,
    },
    /// It exited with code 0 without finalizing, while other ranks still needed it.
    Left,
    /// It closed its connection to the launcher and continues, while other ranks need it: it started another program
    /// (exec).
    Replaced,
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self.cause {
            Cause::Exited(code) => code,
            Cause::Killed(signal) => of_signal(signal),
            // Reduced like the argument of exit(3), but never 0.
            Cause::Aborted { code, .. } => match code & 0xff {
                0 => 1,
                low => low as u8,
            },
            Cause::Left | Cause::Replaced => 1,
        }
    }
}

fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} (pid {}) ", self.rank, self.pid)?;
        match &self.cause {
            Cause::Exited(code) => write!(f, "exited with code {code}"),
            Cause::Killed(signal) => {
                write!(
                    f,
                    "was killed by signal {signal} ({})",
                    signals::name(*signal)
                )
            }
            Cause::Aborted { code, message } => {
                write!(f, "called abort with code {code}")?;
                match message {
                    Some(message) => {
                        f.write_str(": ")?;
                        message.chars().try_for_each(|c| match c.is_control() {
                            true => write!(f, "{}", c.escape_debug()),
                            false => f.write_char(c),
                        })
                    }
                    None => Ok(()),
                }
            }
            Cause::Left => f.write_str("exited with code 0, but other ranks still needed it"),
            Cause::Replaced => f.write_str(
                "started another program (exec), or closed its connection to the launcher, but other ranks still needed it",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_shell() {
        let code = |cause| {
            let failure = Some(Failure {
                rank: 3,
                pid: 1234,
                cause,
            });
            let outcome = Outcome {
                failure,
                signal: Some(2),
                reader_gone: true,
            };
            outcome.exit_code()
        };
        assert_eq!(code(Cause::Exited(7)), 7);
        assert_eq!(code(Cause::Killed(libc::SIGKILL)), 137);
        assert_eq!(
            code(Cause::Aborted {
                code: 256,
                message: None
            }),
            1
        );
        assert_eq!(
            code(Cause::Aborted {
                code: -1,
                message: None
            }),
            255
        );
        let none = Outcome {
            failure: None,
            signal: None,
            reader_gone: false,
        };
        assert_eq!(none.exit_code(), 0);
        assert_eq!(
            Outcome {
                signal: Some(15),
                ..none.clone()
            }
            .exit_code(),
            143
        );
        assert_eq!(
            Outcome {
                reader_gone: true,
                ..none
            }
            .exit_code(),
            141
        );
    }
}
