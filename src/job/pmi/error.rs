//! What can be wrong with a launcher's key-value service.

use std::io;

/// A launcher's environment or key-value service is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmiError {
    /// The socket to the launcher failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}
