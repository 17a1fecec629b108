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
    #[error(
        "{data} does not fit into {room}, which has to hold the same elements in the same order, and \
         may hold others behind them"
    )]
    Signatures { data: String, room: String },
    #[error("accumulates need one predefined type on all sides, but {first} and {second} differ")]
    ElementsDiffer { first: String, second: String },
    #[error("accumulates need elements of one predefined type, which {ty} is not made of")]
    MixedElements { ty: String },
    #[error(
        "blocks: {blocks}, of {block_len} elements each, {stride} apart, from element {first} on: {reason}"
    )]
    Region {
        first: u64,
        blocks: u64,
        block_len: u64,
        stride: u64,
        reason: String,
    },
    #[error(
        "rows {row}..{} and columns {column}..{} of a matrix: none with {width} columns has all of \
         these", .row.saturating_add(*.rows), .column.saturating_add(*.columns)
    )]
    Block {
        width: u64,
        row: u64,
        column: u64,
        rows: u64,
        columns: u64,
    },
    #[error(
        "displacement {disp} × unit {unit}, from {lo} to {hi} bytes off that, is not inside rank \
         {rank}'s window of {size} bytes"
    )]
    Outside {
        rank: u32,
        disp: u64,
        unit: u64,
        lo: i64,
        hi: i64,
        size: u64,
    },
}

impl DatatypeMisuse {
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::NegativeCount { .. } | Self::Overflow { .. } => ErrorClass::Count,
            Self::Argument { .. }
            | Self::ListLengths { .. }
            | Self::Region { .. }
            | Self::Block { .. } => ErrorClass::Arg,
            Self::Signatures { .. } | Self::MixedElements { .. } | Self::ElementsDiffer { .. } => {
                ErrorClass::Type
            }
            Self::Outside { .. } => ErrorClass::RmaRange,
        }
    }
}
