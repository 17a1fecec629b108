//! The verbs provider: InfiniBand, RoCE and soft-RoCE devices through libibverbs.

mod adapter;
mod endpoint;
mod memory;
mod objects;
mod peer;
mod settings;
