//! Operations with derived datatypes at origin, result and target.

mod combine;
mod maps;
mod misuse;
pub(crate) mod registered;
mod room;
pub(crate) mod transfer;

use crate::case::Case;

pub(crate) use transfer::SPARSE;

pub(crate) fn cases() -> Vec<Case> {
    [
        transfer::CASES,
        registered::CASES,
        combine::CASES,
        room::CASES,
        misuse::CASES,
    ]
    .concat()
}
