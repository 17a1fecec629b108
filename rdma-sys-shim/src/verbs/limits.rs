//! What a device allows, for reports.

use super::adapter::Adapter;
use super::endpoint;
use super::objects::CompletionQueue;
use super::settings::Settings;
use crate::Result;
use crate::rdma::{AtomicScope, Choice, VerbsLimits};

pub(crate) fn atomic_scope(attributes: &ibverbs_sys::ibv_device_attr) -> AtomicScope {
    match attributes.atomic_cap {
        ibverbs_sys::IBV_ATOMIC_NONE => AtomicScope::None,
        ibverbs_sys::IBV_ATOMIC_GLOB => AtomicScope::Global,
        _ => AtomicScope::Device,
    }
}

/// Asks a device for its limits. What it carries inline, it says by what it grants to a queue pair.
pub(crate) fn limits(choice: &Choice) -> Result<VerbsLimits> {
    let settings = Settings::from_env()?;
    let adapter = Adapter::open(choice, settings)?;
    let completions = CompletionQueue::new(&adapter.context, 1, None)?;
    let pair = endpoint::queue_pair(&adapter, &completions)?;
    let attributes = adapter.context.attributes();
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    Ok(VerbsLimits {
        atomic_scope: atomic_scope(attributes),
        max_inline: pair.inline(),
        max_message: adapter.port.max_message.into(),
        max_qp: count(attributes.max_qp),
        max_cqe: count(attributes.max_cqe),
        max_mr: count(attributes.max_mr),
        max_qp_rd_atom: count(attributes.max_qp_rd_atom),
        active_mtu: 128 << adapter.port.mtu,
    })
}
