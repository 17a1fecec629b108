//! The memory that queues take, as mlx5's driver computes it. The files that are named are in providers/mlx5 of
//! rdma-core.

use crate::abi::ibv_qp_cap;

/// wqe.h: a request of a send queue takes whole blocks of `MLX5_SEND_WQE_BB` bytes.
const BLOCK: u64 = 64;
/// verbs.c, `sq_overhead`: each request of a reliable connection has room to bind a memory window.
const OVERHEAD: u64 = 192;
/// wqe.h: a piece of memory, and the length of inline data.
const PIECE: u64 = 16;
const INLINE_LEN: u64 = 4;
/// verbs.c, `get_cqe_size`.
const COMPLETION: u64 = 64;
/// dbrec.c: each queue has a cache line of a page that the doorbells of other queues share.
const DOORBELL: u64 = 64;

/// What a queue pair with these limits takes: verbs.c, `mlx5_calc_wq_size` and `mlx5_alloc_qp_buf`.
pub(crate) fn of_pair(cap: &ibv_qp_cap, page: u64) -> u64 {
    let pieces = OVERHEAD + PIECE * u64::from(cap.max_send_sge);
    let inline = match u64::from(cap.max_inline_data) {
        0 => 0,
        len => OVERHEAD + (INLINE_LEN + len).next_multiple_of(PIECE),
    };
    let request = pieces.max(inline).next_multiple_of(BLOCK);
    let send = power_of_two(request * u64::from(cap.max_send_wr));
    let receive = match u64::from(cap.max_recv_wr) {
        0 => 0,
        requests => {
            let request = power_of_two(PIECE * u64::from(cap.max_recv_sge.max(1)));
            (power_of_two(requests) * request).max(BLOCK)
        }
    };
    (send + receive).next_multiple_of(page) + DOORBELL
}

/// What a completion queue takes of which a program asks for so many entries: verbs.c, `create_cq`.
pub(crate) fn of_completions(entries: u32, page: u64) -> u64 {
    let entries = (u64::from(entries) + 1).next_power_of_two();
    (COMPLETION * entries).next_multiple_of(page) + DOORBELL
}

fn power_of_two(bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        bytes => bytes.next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_take_what_the_driver_allocates() {
        let pair = |max_send_wr, max_inline_data, max_send_sge, max_recv_wr| {
            let cap = ibv_qp_cap {
                max_send_wr,
                max_recv_wr,
                max_send_sge,
                max_recv_sge: 1,
                max_inline_data,
            };
            of_pair(&cap, 4096) - DOORBELL
        };
        // Requests of 448, 384 and 256 bytes; the receive queue takes a page of its own.
        assert_eq!(pair(256, 220, 12, 1), 132 << 10);
        assert_eq!(pair(85, 188, 12, 1), 36 << 10);
        assert_eq!(pair(86, 188, 12, 1), 68 << 10);
        assert_eq!(pair(85, 189, 12, 1), 68 << 10);
        assert_eq!(pair(85, 188, 13, 1), 68 << 10);
        assert_eq!(pair(128, 60, 4, 1), 36 << 10);
        assert_eq!(pair(128, 0, 4, 0), 32 << 10);
        assert_eq!(pair(0, 0, 1, 512), 8 << 10);
        for (entries, bytes) in [(1, 4096), (63, 4096), (64, 8192), (127, 8192), (257, 32768)] {
            assert_eq!(of_completions(entries, 4096), bytes + DOORBELL, "{entries}");
        }
    }
}
