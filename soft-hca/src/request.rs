//! Work requests, as a send queue keeps them.

use crate::abi::{Status, access, completion, ibv_sge, opcode, send_flag};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Write,
    Read,
    CompareSwap { expect: u64, new: u64 },
    FetchAdd(u64),
    Send,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) operation: Operation,
    /// Of a send or a write that takes a receive request at the target.
    pub(crate) immediate: Option<u32>,
    pub(crate) flags: u32,
    pub(crate) pieces: Vec<ibv_sge>,
    /// Data that was copied when the request was posted; then there are no pieces.
    pub(crate) inline: Option<Box<[u8]>>,
    pub(crate) len: u64,
    pub(crate) address: u64,
    pub(crate) key: u32,
    /// Its number in its queue.
    pub(crate) number: u32,
    /// When its completion is there, by the [model](crate::model).
    pub(crate) modelled: u64,
    /// How it has ended, if it was carried out before its turn.
    pub(crate) ended: Option<Status>,
}

impl Request {
    /// What the operation of a request in the form of verbs is. `operands`: address and key, or address, operands and
    /// key.
    pub(crate) fn operation(code: i32, operands: [u64; 4]) -> Option<(Operation, u64, u32)> {
        let [address, one, two, key] = operands;
        Some(match code {
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => {
                (Operation::Write, address, one as u32)
            }
            opcode::RDMA_READ => (Operation::Read, address, one as u32),
            opcode::SEND | opcode::SEND_WITH_IMM => (Operation::Send, 0, 0),
            opcode::ATOMIC_CMP_AND_SWP => {
                let swap = Operation::CompareSwap {
                    expect: one,
                    new: two,
                };
                (swap, address, key as u32)
            }
            opcode::ATOMIC_FETCH_AND_ADD => (Operation::FetchAdd(one), address, key as u32),
            _ => return None,
        })
    }

    pub(crate) fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.is(send_flag::FENCE)
    }

    pub(crate) fn is_atomic(&self) -> bool {
        matches!(
            self.operation,
            Operation::CompareSwap { .. } | Operation::FetchAdd(_)
        )
    }

    /// Whether the answer brings data.
    pub(crate) fn fetches(&self) -> bool {
        self.operation == Operation::Read || self.is_atomic()
    }

    /// Whether it takes a receive request at the target.
    pub(crate) fn is_received(&self) -> bool {
        self.operation == Operation::Send || self.immediate.is_some()
    }

    /// The right that the target's queue pair and memory must give.
    pub(crate) fn right(&self) -> u32 {
        match self.operation {
            Operation::Write => access::REMOTE_WRITE,
            Operation::Read => access::REMOTE_READ,
            Operation::CompareSwap { .. } | Operation::FetchAdd(_) => access::REMOTE_ATOMIC,
            Operation::Send => 0,
        }
    }

    /// Whether it names memory at the target that another one names, too.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let end = |request: &Self| request.address.saturating_add(request.len);
        self.address < end(other) && other.address < end(self)
    }

    /// The operation in the form of completions.
    pub(crate) fn completion(&self) -> i32 {
        match self.operation {
            Operation::Write => completion::RDMA_WRITE,
            Operation::Read => completion::RDMA_READ,
            Operation::CompareSwap { .. } => completion::COMP_SWAP,
            Operation::FetchAdd(_) => completion::FETCH_ADD,
            Operation::Send => completion::SEND,
        }
    }
}
