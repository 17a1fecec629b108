//! Connectors of several processes in one, over TCP.

mod on_a_device;
mod without_a_device;
