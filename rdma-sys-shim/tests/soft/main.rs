//! The soft provider by itself: two devices of one process are two peers, which reach each other's
//! memory as other processes would.

mod access;
mod agent;
mod operations;
mod support;
