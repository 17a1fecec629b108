//! Who carries out the atomics of RDMA devices, as the environment says.

use crate::{Error, Result, variable};

const VARIABLE: &str = "TRANSOM_RDMA_ATOMICS";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AtomicsSetting {
    /// The device if the devices of all ranks have atomics, otherwise the agent.
    #[default]
    Automatic,
    /// The device. A device without atomics is refused.
    Device,
    /// The agent.
    Agent,
}

impl AtomicsSetting {
    pub(crate) fn from_env() -> Result<Self> {
        Self::parse(variable(VARIABLE))
    }

    fn parse(value: Option<String>) -> Result<Self> {
        match value.as_deref() {
            None => Ok(Self::Automatic),
            Some("device") => Ok(Self::Device),
            Some("agent") => Ok(Self::Agent),
            Some(value) => Err(Error::BadWord {
                name: VARIABLE,
                value: value.to_owned(),
                known: "device, agent",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_can_be_is_said_where_it_is_something_else() {
        let parse = |text: &str| AtomicsSetting::parse(Some(text.to_owned()));
        assert_eq!(
            AtomicsSetting::parse(None).unwrap(),
            AtomicsSetting::Automatic
        );
        assert_eq!(parse("device").unwrap(), AtomicsSetting::Device);
        assert_eq!(parse("agent").unwrap(), AtomicsSetting::Agent);
        let message = parse("nic").unwrap_err().to_string();
        assert_eq!(
            message,
            "TRANSOM_RDMA_ATOMICS=\"nic\" is none of: device, agent"
        );
    }
}
