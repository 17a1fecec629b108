//! Registered memory, this rank's and its peers'.

pub(crate) mod columns;
pub(crate) mod control;
pub(crate) mod remote;
pub(crate) mod word;
