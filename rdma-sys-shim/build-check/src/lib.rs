//! What there is to this crate happens when it is built: see its `build.rs`.
