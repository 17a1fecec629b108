//! What a device says of itself beyond `ibv_query_device`: `ibv_query_device_ex`, which libibverbs has in its header
//! only.

use std::mem::offset_of;
use std::ptr;

use ibverbs_sys as ffi;

type QueryDevice = unsafe extern "C" fn(
    context: *mut ffi::ibv_context,
    input: *const ffi::ibv_query_device_ex_input,
    attributes: *mut ffi::ibv_device_attr_ex,
    size: usize,
) -> libc::c_int;

/// The end of `struct verbs_context`. New members are added at its beginning, so this part is the same in every
/// version.
#[repr(C)]
struct Extended {
    query_device: Option<QueryDevice>,
    /// The functions from `ibv_destroy_flow` to `close_xrcd`.
    _functions: [usize; 10],
    _reserved: u64,
    /// The size of the whole structure in bytes, with the members at its beginning.
    size: usize,
    context: ffi::ibv_context,
}

/// `__VERBS_ABI_IS_EXTENDED`.
const IS_EXTENDED: usize = usize::MAX;

/// The device's extended attributes; `None` if the library or the driver is too old.
pub(super) fn attributes(context: *mut ffi::ibv_context) -> Option<ffi::ibv_device_attr_ex> {
    // SAFETY: an open context, whose fields libibverbs does not change.
    let mark = unsafe { (*context).abi_compat };
    if mark.addr() != IS_EXTENDED {
        return None;
    }
    // SAFETY: the mark says that the context is the last member of a `verbs_context`, and was allocated as one.
    let extended = unsafe { context.byte_sub(offset_of!(Extended, context)) };
    let extended: *const Extended = extended.cast();
    // SAFETY: in every version, the size is right before the context.
    let size = unsafe { (&raw const (*extended).size).read() };
    if size < size_of::<Extended>() {
        return None;
    }
    // SAFETY: the size says that the structure has this member.
    let query = unsafe { (&raw const (*extended).query_device).read() }?;
    let mut attributes = ffi::ibv_device_attr_ex::default();
    let len = size_of_val(&attributes);
    // SAFETY: an open context, no input, and a place of this length for the answer.
    let code = unsafe { query(context, ptr::null(), &mut attributes, len) };
    (code == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use crate::rdma::{self, Seat, Selector};
    use crate::verbs::objects::Context;

    #[test]
    #[ignore = "needs an RDMA device"]
    fn a_device_says_the_same_of_itself_to_both_questions() {
        let devices = rdma::read(&rdma::class());
        let choice = rdma::choose(&devices, &Selector::default(), &Seat::default()).unwrap();
        let context = Context::open(&choice.device).unwrap();
        let extended = super::attributes(context.raw()).expect("a driver that knows the question");
        let (whole, part) = (extended.orig_attr, context.attributes());
        assert_eq!(
            (
                whole.max_mr_size,
                whole.max_qp,
                whole.max_qp_wr,
                whole.atomic_cap
            ),
            (
                part.max_mr_size,
                part.max_qp,
                part.max_qp_wr,
                part.atomic_cap
            ),
        );
        assert_eq!(
            (whole.fw_ver, whole.node_guid),
            (part.fw_ver, part.node_guid)
        );
    }
}
