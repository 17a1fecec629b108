//! One-sided operations.

mod accumulate;
mod bounds;
mod elementwise;
mod fetch;
mod locked;
mod notify;
mod put_get;
mod request;

pub use request::Request;
