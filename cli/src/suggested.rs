//! Values that completions offer for options that also accept other values.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

use transom::devices::REGISTRY;

use super::hints;

/// Values of `--device` that do not depend on this machine.
pub(super) fn device() -> impl TypedValueParser<Value = String> {
    let devices = ["auto"].into_iter().chain(REGISTRY.names());
    Suggested(devices.map(str::to_owned).collect())
}

/// Each known hint with possible values.
pub(super) fn hint() -> impl TypedValueParser<Value = String> {
    Suggested(hints::examples())
}

#[derive(Clone)]
struct Suggested(Vec<String>);

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
