//! Sockets at which peers find this process, and what it publishes for that.

use std::net::{IpAddr, TcpListener};

use super::bind;
use super::interfaces::{self, Interface};
use super::place::NetworkPlace;
use super::record::{KEY, LONGEST_HOST, Record};
use super::socket::OwnDescriptor;
use crate::fields::beginning;
use crate::proof::Secret;
use crate::provider::JobSecret;
use crate::system::{allow_descriptors, host_name, random};
use crate::{Error, Result};

/// An open listener for peers.
pub(crate) struct Opened {
    pub(crate) record: Record,
    pub(crate) listener: OwnDescriptor<TcpListener>,
    /// The interfaces whose addresses are in the record.
    pub(crate) published: Vec<Interface>,
}

/// Listens at the interface of this name, or at all if it is empty. The record has the addresses, `first` in front, and a
/// new instance and key. A process that connects also has to know `secret`.
pub(crate) fn open(interface: &str, secret: JobSecret, first: Option<IpAddr>) -> Result<Opened> {
    let published = interfaces::published(&interfaces::all()?, interface, first)?;
    let place = NetworkPlace::at(&published)?;
    let named = place.networks.first().filter(|_| !interface.is_empty());
    // Each peer may take two descriptors.
    allow_descriptors();
    let listener = bind::listen(named)?;
    let port = listener
        .local_addr()
        .map_err(|error| Error::os("getsockname", error))?
        .port();
    let record = Record {
        pid: std::process::id(),
        host: beginning(&host_name(), LONGEST_HOST).to_owned(),
        instance: u64::from_ne_bytes(random()?),
        key: Secret::new(random::<KEY>()?),
        secret,
        port,
        place,
    };
    Ok(Opened {
        record,
        listener: OwnDescriptor::new(listener),
        published,
    })
}
