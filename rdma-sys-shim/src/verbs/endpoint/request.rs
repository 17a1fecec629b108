//! Work requests: what the device is asked to do, and where the data is.

use std::ptr;

use ibverbs_sys as ffi;
use ibverbs_sys::ibv_wr_opcode as opcode;

use super::failure::Operation;
use super::ring::RingPiece;
use crate::{Fetch, RemoteAddress};

/// What a request does at the target.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Write,
    Read,
    Fetch(Fetch),
}

/// Where a request finds or leaves its data in this process.
#[derive(Clone, Copy)]
pub(in crate::verbs) struct Local {
    pub(in crate::verbs) base: *mut u8,
    pub(in crate::verbs) len: u32,
    pub(in crate::verbs) lkey: u32,
    /// The request carries the data itself.
    pub(in crate::verbs) inline: bool,
}

impl Local {
    pub(in crate::verbs) const NOTHING: Self = Self {
        base: ptr::null_mut(),
        len: 0,
        lkey: 0,
        inline: false,
    };

    /// In a region.
    pub(super) fn at(base: *mut u8, len: usize, lkey: u32) -> Self {
        Self {
            base,
            len: len as u32,
            lkey,
            inline: false,
        }
    }

    /// To be carried by the request.
    pub(super) fn carried(base: *const u8, len: usize) -> Self {
        Self {
            base: base.cast_mut(),
            len: len as u32,
            lkey: 0,
            inline: true,
        }
    }
}

/// A list of pieces of memory that is valid until the bell is rung for the request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Elements {
    pub(super) list: *mut ffi::ibv_sge,
    pub(super) count: i32,
}

impl Elements {
    /// There is no list: `local` is the only piece.
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
    /// Where the data is in several pieces, that are together as long as `local`.
    pub(super) elements: Elements,
    /// Space of the ring that is free again afterwards.
    pub(super) space: RingPiece,
    /// Where to copy what arrived.
    pub(super) copy_to: *mut u8,
    /// Take effect after reads and atomics too.
    pub(super) fence: bool,
    /// Report completion in any case: somebody waits for this one.
    pub(super) signal: bool,
}

impl Request {
    /// A request for the whole of `local`, unfenced, that brings its data nowhere else.
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

    /// A write of nothing, whose answer tells of everything before it.
    pub(super) fn probe() -> Self {
        Self {
            signal: true,
            ..Self::whole(Operation::Probe, RemoteAddress::default(), Local::NOTHING)
        }
    }

    /// Its data, as verbs want it.
    pub(super) fn element(&self) -> ffi::ibv_sge {
        ffi::ibv_sge {
            addr: self.local.base.addr() as u64,
            length: self.local.len,
            lkey: self.local.lkey,
        }
    }

    /// Writes it into `work` as verbs want it, but for what leads to other memory: its link, and
    /// the list of its data, which is null if `local` is all of it. What verbs do not read for such
    /// a request is left as it is.
    #[inline]
    pub(super) fn write_to(&self, work: &mut ffi::ibv_send_wr, ticket: u64, report: bool) {
        use ffi::ibv_send_flags as Flags;
        let RemoteAddress { address, rkey } = self.at;
        // Above the key of verbs stand the rights that it lacks (`memory::Key`).
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
