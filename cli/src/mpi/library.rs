//! Finds the library for a host: beside the command, or in the `lib` folder of the same prefix.

use std::env;
use std::path::PathBuf;

use super::MpiError;
use super::host::MpiFamily;

pub(super) fn find(host: MpiFamily) -> Result<PathBuf, MpiError> {
    let name = host.ours();
    let command = env::current_exe()
        .ok()
        .and_then(|command| command.canonicalize().ok());
    let beside = command.as_deref().and_then(|command| command.parent());
    let prefix = beside.and_then(|beside| beside.parent());
    let places = [
        beside.map(PathBuf::from),
        prefix.map(|prefix| prefix.join("lib")),
        prefix.map(|prefix| prefix.join("lib/transom")),
    ];
    let places: Vec<PathBuf> = places.into_iter().flatten().collect();
    let found = places
        .iter()
        .map(|place| place.join(name))
        .find(|file| file.is_file());
    found.ok_or(MpiError::NoLibrary { name, places })
}
