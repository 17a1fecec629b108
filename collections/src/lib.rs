//! Collections whose elements lie on all ranks of a job, for [Transom](transom): on its typed interface, and on
//! nothing else.
#![forbid(unsafe_code)]

mod error;

pub use error::{Error, Result};
