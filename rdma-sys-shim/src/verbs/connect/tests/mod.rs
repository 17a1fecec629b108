//! The protocol over a simulated network: virtual time, no device.

mod departures;
mod meetings;
mod network;
mod on_a_device;
mod refusals;
