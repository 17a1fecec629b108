//! The verbs provider: InfiniBand, RoCE and soft-RoCE devices through libibverbs.

mod connect;
mod objects;
