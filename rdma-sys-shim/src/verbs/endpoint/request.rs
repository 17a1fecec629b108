//! Work requests: what the device is asked to do, and where the data is.

use std::ptr;

use ibverbs_sys as ffi;
use ibverbs_sys::ibv_wr_opcode as opcode;

use super::failure::Operation;
use super::ring::RingPiece;
use crate::{Fetch, RemoteAddress};

/// The action of a request at the target.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Write,
    Read,
    Fetch(Fetch),
}

/// The source or destination of a request's data in this process.
#[derive(Clone, Copy)]
pub(in crate::verbs) struct Local {
    pub(in crate::verbs) base: *mut u8,
    pub(in crate::verbs) len: u32,
    pub(in crate::verbs) lkey: u32,
    /// Whether the request carries the data inline.
    pub(in crate::verbs) inline: bool,
}

impl Local {
    pub(in crate::verbs) const NOTHING: Self = Self {
        base: ptr::null_mut(),
        len: 0,
        lkey: 0,
        inline: false,
    };

    /// Data in a region.
    pub(super) fn at(base: *mut u8, len: usize, lkey: u32) -> Self {
        Self {
            base,
            len: len as u32,
            lkey,
            inline: false,
        }
    }

    /// Inline data, carried by the request.
    pub(super) fn carried(base: *const u8, len: usize) -> Self {
        Self {
            base: base.cast_mut(),
            len: len as u32,
            lkey: 0,
            inline: true,
        }
    }
}

/// A list of pieces of memory. It is valid until the bell is rung for the request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Elements {
    pub(super) list: *mut ffi::ibv_sge,
    pub(super) count: i32,
}

impl Elements {
    /// No list: `local` is the only piece.
    pub(super) const ONE: Self = Self {
        list: ptr::null_mut(),
        count: 0,
    };
}

/// One request to post.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) verb: Verb,
    pub(super) at: RemoteAddress,
    pub(super) local: Local,
    /// The pieces, if there are several; their total length is that of `local`.
    pub(super) elements: Elements,
    /// Ring space that is free after completion.
    pub(super) space: RingPiece,
    /// Where to copy data that arrived.
    pub(super) copy_to: *mut u8,
    /// Whether it takes effect only after earlier reads and atomics.
    pub(super) fence: bool,
    /// Whether it must report completion, because a caller waits for it.
    pub(super) signal: bool,
}

impl Request {
    /// A request for the whole of `local`, without a fence or a further copy.
    pub(super) fn whole(operation: Operation, at: RemoteAddress, local: Local) -> Self {
        Self {
            operation,
            verb: match operation {
                Operation::Read => Verb::Read,
                _ => Verb::Write,
            },
            at,
            local,
            elements: Elements::ONE,
            space: RingPiece::default(),
            copy_to: ptr::null_mut(),
            fence: false,
            signal: false,
        }
    }

    /// An empty write, whose answer covers everything before it.
    pub(super) fn probe() -> Self {
        Self {
            signal: true,
            ..Self::whole(Operation::Probe, RemoteAddress::default(), Local::NOTHING)
        }
    }

    /// A read of eight bytes, before whose completion everything before it is in the target's memory.
    pub(super) fn trailing_read(at: RemoteAddress, answer: Local) -> Self {
        Self {
            verb: Verb::Read,
            signal: true,
            ..Self::whole(Operation::Probe, at, answer)
        }
    }

    /// Its data, as a verbs scatter-gather element.
    pub(super) fn element(&self) -> ffi::ibv_sge {
        ffi::ibv_sge {
            addr: self.local.base.addr() as u64,
            length: self.local.len,
            lkey: self.local.lkey,
        }
    }

    /// Writes it into `work` in the form of verbs. Does not set the link to the next request, nor the list of its data,
    /// which is null if `local` is all of it. Members that verbs do not read for such a request keep their values.
    #[inline]
    pub(super) fn write_to(&self, work: &mut ffi::ibv_send_wr, ticket: u64, report: bool) {
        use ffi::ibv_send_flags as Flags;
        let RemoteAddress { address, rkey } = self.at;
        // The bits above the verbs key give the rights that it lacks (`memory::rights`).
        let rkey = rkey as u32;
        let mut flags = Flags(0);
        for (flag, wanted) in [
            (Flags::IBV_SEND_SIGNALED, report),
            (Flags::IBV_SEND_FENCE, self.fence),
            (Flags::IBV_SEND_INLINE, self.local.inline),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        work.wr_id = ticket;
        work.send_flags = flags.0;
        (work.sg_list, work.num_sge) = match self.elements {
            Elements::ONE => (ptr::null_mut(), i32::from(self.local.len > 0)),
            Elements { list, count } => (list, count),
        };
        let atomic = |compare_add, swap| ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
            remote_addr: address,
            compare_add,
            swap,
            rkey,
        };
        let plain = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr: address,
            rkey,
        };
        match self.verb {
            Verb::Write => {
                work.opcode = opcode::IBV_WR_RDMA_WRITE;
                work.wr.rdma = plain;
            }
            Verb::Read => {
                work.opcode = opcode::IBV_WR_RDMA_READ;
                work.wr.rdma = plain;
            }
            Verb::Fetch(Fetch::Add(add)) => {
                work.opcode = opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                work.wr.atomic = atomic(add, 0);
            }
            Verb::Fetch(Fetch::CompareSwap { expect, new }) => {
                work.opcode = opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                work.wr.atomic = atomic(expect, new);
            }
        }
    }
}
