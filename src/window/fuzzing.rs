//! The parsers of hints and of a peer's tables, for `crate::fuzzing`.

use super::Info;
use super::dynamic::fuzzing;
use super::hints::Hints;

pub(crate) use fuzzing::region_table;

/// What is in force says the same when it is given again.
pub(crate) fn info(info: &Info) {
    if let Ok(hints) = Hints::parse(info) {
        let again = Hints::parse(&hints.to_info());
        assert_eq!(again.ok(), Some(hints));
    }
}
