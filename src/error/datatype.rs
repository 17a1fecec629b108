//! Misuse of derived datatypes.

use super::ErrorClass;

/// A rule of derived datatypes that the caller broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum DatatypeMisuse {
    #[error("count {count} is negative")]
    NegativeCount { count: i64 },
    #[error("{argument} {value} is not legal (legal: {legal})")]
    Argument {
        argument: &'static str,
        value: i64,
        legal: String,
    },
    #[error("lists that belong together have {first} and {second} entries")]
    ListLengths { first: u64, second: u64 },
    #[error("{what}: size or bounds leave 64 bits; make the type smaller, or use a count")]
    Overflow { what: String },
    #[error("{first_count} × {first} and {second_count} × {second} do not hold the same elements")]
    Signatures {
        first_count: u64,
        first: String,
        second_count: u64,
        second: String,
    },
    #[error("accumulates need elements of one predefined type, which {ty} is not made of")]
    MixedElements { ty: String },
}

impl DatatypeMisuse {
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::NegativeCount { .. } | Self::Overflow { .. } => ErrorClass::Count,
            Self::Argument { .. } | Self::ListLengths { .. } => ErrorClass::Arg,
            Self::Signatures { .. } | Self::MixedElements { .. } => ErrorClass::Type,
        }
    }
}
