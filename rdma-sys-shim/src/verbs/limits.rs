//! What a device allows, for reports.

use ibverbs_sys as ffi;

use super::adapter::Adapter;
use super::endpoint;
use super::objects::Context;
use super::settings::Settings;
use crate::rdma::{Choice, VerbsLimits};
use crate::{AtomicDomain, Result};

/// The unit to which a device says its atomics are atomic; `None` if it has none.
pub(crate) fn atomic_scope(device: &Context) -> Option<AtomicDomain> {
    scope(device.attributes().atomic_cap, device.pci_atomics())
}

/// Whether the device of this name has atomics.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn has_atomics(device: &str) -> Result<bool> {
    Ok(Context::open(device)?.has_atomics())
}

fn scope(said: ffi::ibv_atomic_cap, by_bus: ffi::ibv_pci_atomic_caps) -> Option<AtomicDomain> {
    let words = ffi::IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP;
    let of_words = |sizes: u16| u32::from(sizes) & words != 0;
    match said {
        ffi::IBV_ATOMIC_NONE => None,
        ffi::IBV_ATOMIC_GLOB => Some(AtomicDomain::Global),
        _ if of_words(by_bus.fetch_add) && of_words(by_bus.compare_swap) => {
            Some(AtomicDomain::Global)
        }
        _ => Some(AtomicDomain::Device),
    }
}

/// Queries a device's limits. The limit of inline data is found by trial.
pub(crate) fn limits(choice: &Choice) -> Result<VerbsLimits> {
    let settings = Settings::from_env()?;
    let adapter = Adapter::open(choice, settings)?;
    let attributes = adapter.context.attributes();
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    Ok(VerbsLimits {
        atomic_scope: atomic_scope(&adapter.context),
        max_inline: endpoint::carried(&adapter)?,
        max_message: adapter.port.max_message.into(),
        max_qp: count(attributes.max_qp),
        max_cqe: count(attributes.max_cqe),
        max_mr: count(attributes.max_mr),
        max_qp_rd_atom: count(attributes.max_qp_rd_atom),
        active_mtu: 128 << adapter.port.mtu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_that_the_bus_carries_out_are_the_processors_too() {
        let by_bus = |fetch_add, compare_swap| ffi::ibv_pci_atomic_caps {
            fetch_add,
            swap: 7,
            compare_swap,
        };
        let of_device = |by_bus| scope(ffi::IBV_ATOMIC_HCA, by_bus);
        // Bits for 4, 8 and 16 bytes.
        assert_eq!(of_device(by_bus(2, 6)), Some(AtomicDomain::Global));
        for (fetch_add, compare_swap) in [(0, 0), (2, 0), (0, 2), (5, 7), (7, 5)] {
            assert_eq!(
                of_device(by_bus(fetch_add, compare_swap)),
                Some(AtomicDomain::Device)
            );
        }
        assert_eq!(scope(ffi::IBV_ATOMIC_NONE, by_bus(7, 7)), None);
        assert_eq!(
            scope(ffi::IBV_ATOMIC_GLOB, by_bus(0, 0)),
            Some(AtomicDomain::Global)
        );
    }
}
