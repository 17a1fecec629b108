//! The soft provider: verbs on one host, over shared memory.

#[cfg_attr(not(test), expect(dead_code, reason = "not yet called"))]
mod adopt;
