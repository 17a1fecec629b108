//! One-sided operations.

mod accumulate;
mod apart;
mod bounds;
mod by_device;
mod derived;
mod elementwise;
mod fetch;
mod get_accumulate;
mod locked;
mod notify;
mod put_get;
mod request;
mod transfer;
mod work;

pub(crate) use derived::Row;
pub use request::Request;
